"""A folded beginning weighs what its rows weighed: at any later time, and whatever happens to the log afterwards."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge_bandit.adapters.postgres.log_rows import evidence_log
from kedge_bandit.domain.evidence_log import EvidenceLog
from kedge_bandit.domain.evidence_snapshot import Snapshot, fold, largest_difference
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.known_change import CellChange

HALF_LIFE = timedelta(hours=1)
CELLS = [("", "a"), ("", "b"), ("x", "a"), ("x", "b")]


class Entry:
    """A row as the database gives it."""

    def __init__(self, sequence: int, rng: np.random.Generator, *, episode: str, old: bool) -> None:
        self.evidence_sequence = sequence
        self.bucket, self.action = CELLS[rng.integers(len(CELLS))]
        self.episode_id = episode
        self.policy_version = int(rng.integers(1, 4))
        self.policy_time = float(rng.uniform(0, 5000) if old else rng.uniform(5000, 9000))
        self.weight = float(rng.integers(0, 2))
        self.reward = float(rng.uniform()) if self.weight else None
        self.vetoed = bool(rng.uniform() < 0.2)
        self.veto_weight = float(rng.integers(0, 2))


def entries(seed: int, old: int, new: int) -> list[Entry]:
    """Make rows of which some replace earlier ones of their episode, on their own side of the cut."""
    rng = np.random.default_rng(seed)
    made = []
    for sequence in range(1, old + new + 1):
        is_old = sequence <= old
        number = int(rng.integers(max(1, (old if is_old else new) * 3 // 4)))
        made.append(Entry(sequence, rng, episode=f"{is_old} {number}", old=is_old))
    return made


def changes(seed: int, count: int, *, first: int, time: float) -> list[CellChange]:
    rng = np.random.default_rng(seed)
    made = []
    for number in range(count):
        bucket, action = CELLS[rng.integers(len(CELLS))]
        source = action if rng.uniform() < 0.7 else ("b" if action == "a" else "a")
        made.append(
            CellChange(
                sequence=first + number,
                bucket=bucket,
                action=action,
                source=source,
                policy_time=time + number,
                factor=float(rng.uniform()),
                cause="a test",
            )
        )
    return made


def difference(one: EvidenceLog, other: EvidenceLog, as_of: float) -> float:
    return largest_difference(one, other, as_of=as_of, half_life=HALF_LIFE, versions=(1, 2, 3))


def built(rows: list[Entry], told: list[CellChange], snapshot: Snapshot | None = None) -> EvidenceLog:
    return evidence_log(rows, told, snapshot)  # type: ignore[arg-type]  # rows need no more than these attributes


@given(st.integers(0, 10**6), st.integers(1, 80), st.integers(0, 40), st.integers(0, 3), st.integers(0, 3))
def test_what_is_folded_weighs_the_same_at_every_later_time(
    seed: int, old: int, new: int, before: int, after: int
) -> None:
    rows = entries(seed, old, new)
    earlier = changes(seed, before, first=1, time=2500.0)
    later = changes(seed + 1, after, first=old + new + 10, time=9500.0)
    snapshot = fold(built(rows, earlier), through=old, half_life=HALF_LIFE)
    for told in (earlier, [*earlier, *later]):
        whole, kept = built(rows, told), built(rows[old:], told, snapshot)
        for as_of in (9500.0, 20_000.0):
            assert difference(whole, kept, as_of) < 1e-9
            assert difference(kept, whole, as_of) < 1e-9


@given(st.integers(0, 10**6), st.integers(2, 60), st.integers(0, 20))
def test_a_second_fold_starts_from_the_first(seed: int, old: int, new: int) -> None:
    rows, half = entries(seed, old, new), old // 2
    for row in rows[:half]:
        row.episode_id = f"first {row.episode_id}"
    first = fold(built(rows, []), through=half, half_life=HALF_LIFE)
    second = fold(built(rows[half:], [], first), through=old, half_life=HALF_LIFE)
    assert difference(built(rows, []), built(rows[old:], [], second), 12_000.0) < 1e-9
    assert len(second.rows) <= len(CELLS) * (2 + 2 + 3)


def test_the_log_can_be_read_as_it_was_from_the_folds_end_on() -> None:
    rows = entries(1, 10, 5)
    snapshot = fold(built(rows, []), through=10, half_life=HALF_LIFE)
    assert (snapshot.through, snapshot.end) == (10, 15)
    assert built(rows[10:], [], snapshot).readable_from == 15
    assert built(rows, []).readable_from == 0


def test_every_number_of_a_snapshot_is_in_what_is_signed() -> None:
    snapshot = fold(built(entries(2, 20, 0), []), through=20, half_life=HALF_LIFE)
    body = snapshot.body(TenantId("acme"), PolicyName("support"))
    assert body != snapshot.body(TenantId("other"), PolicyName("support"))
    for place, row in enumerate(snapshot.rows):
        altered = replace(row, weight=np.nextafter(row.weight, 2.0).item())
        rows = (*snapshot.rows[:place], altered, *snapshot.rows[place + 1 :])
        assert replace(snapshot, rows=rows).body(TenantId("acme"), PolicyName("support")) != body


@pytest.mark.parametrize("through", [0, -1])
def test_nothing_folded_is_no_rows(through: int) -> None:
    assert fold(built(entries(3, 5, 0), []), through=through, half_life=HALF_LIFE).rows == ()
