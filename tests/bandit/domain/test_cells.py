"""Cells in an array are what a dictionary of evidence is."""

from datetime import timedelta

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kedge_bandit.domain.cells import Cells
from kedge_bandit.domain.posterior import Evidence

HALF_LIFE = timedelta(days=14)
KEYS = st.tuples(st.sampled_from(["", "long", "short", "task=math"]), st.sampled_from(["a", "b", "c"]))


@st.composite
def evidence(draw: st.DrawFn) -> Evidence:
    n, share, square = draw(st.floats(0, 1e6)), draw(st.floats(0, 1)), draw(st.floats(0, 1))
    return Evidence(n, n * share, n * share * square, draw(st.floats(0, 2e9)))


PUT = st.lists(st.tuples(KEYS, evidence()), max_size=30)


@given(PUT, PUT)
def test_what_is_put_in_is_what_a_dictionary_would_hold(
    first: list[tuple[tuple[str, str], Evidence]], later: list[tuple[tuple[str, str], Evidence]]
) -> None:
    cells, plain = Cells(first), dict(first)
    for key, value in later:
        cells[key] = plain[key] = value

    assert dict(cells) == plain
    assert list(cells) == sorted(plain)
    assert len(cells) == len(plain)
    assert ("nowhere", "a") not in cells
    assert cells.buckets == tuple(sorted({bucket for bucket, _ in plain}))


@given(PUT, st.floats(0, 3e9))
def test_its_table_is_every_cell_read_at_the_same_time(
    found: list[tuple[tuple[str, str], Evidence]], as_of: float
) -> None:
    actions = ("c", "unknown", "a")
    table = Cells(found).table(actions, as_of=as_of, half_life=HALF_LIFE)

    expected = np.zeros((3, len(table.buckets), len(actions)))
    for (bucket, action), cell in dict(found).items():
        if action in actions:
            now = cell.at(as_of, HALF_LIFE)
            expected[:, table.buckets.index(bucket), actions.index(action)] = now.n, now.s, now.s2
    np.testing.assert_allclose(np.array([table.n, table.s, table.s2]), expected, rtol=1e-12)


def test_sixty_posteriors_of_five_actions_take_less_than_ten_kilobytes() -> None:
    names = [(f"b{bucket}", f"a{action}") for bucket in range(60) for action in range(5)]
    assert Cells((name, Evidence.none(0.0)) for name in names).size_bytes == 60 * 5 * 4 * 8
