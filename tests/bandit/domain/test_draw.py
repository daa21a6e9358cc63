"""Test the draw against its golden file, which other languages read as well."""

import json
from hashlib import sha256
from pathlib import Path
from typing import TypedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge_bandit.domain.allocation import allocate
from kedge_bandit.domain.draw import interval_text, pick, uniform
from kedge_bandit.domain.errors import InvalidName
from tests.golden import draw as golden


class Draw(TypedDict):
    tenant: str
    policy: str
    episode_id: str
    seed_epoch: str
    allocation_version: str
    sha256: str
    u_times_2_53: int
    p: list[float]
    picked: int


class Pick(TypedDict):
    p: list[float]
    u: float
    picked: int


class Narrowing(TypedDict):
    q: list[float]
    subset: list[bool]
    baseline: int
    floor: float
    uniform_slice: float
    caps: list[float] | None
    p: list[float]


class Golden(TypedDict):
    draws: list[Draw]
    picks: list[Pick]
    narrowings: list[Narrowing]


FILE = Path(golden.__file__).with_suffix(".json")
GOLDEN: Golden = json.loads(FILE.read_text(encoding="utf-8"))

names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
versions = st.integers(0, 2**63 - 1)


def test_the_golden_file_is_what_its_writer_writes() -> None:
    built = json.loads(json.dumps(golden.build()))

    assert [built[key] for key in ("draws", "picks", "narrowings")] == [
        GOLDEN["draws"],
        GOLDEN["picks"],
        GOLDEN["narrowings"],
    ]
    assert len(GOLDEN["draws"]) >= 50


def test_every_golden_draw_follows_from_its_text_alone() -> None:
    for row in GOLDEN["draws"]:
        parts = [row["tenant"], row["policy"], row["episode_id"], row["seed_epoch"], row["allocation_version"]]
        digest = sha256("\0".join(["kedge.draw.v1", *parts]).encode("utf-8"))
        assert digest.hexdigest() == row["sha256"]
        assert int(row["sha256"][:16], 16) >> 11 == row["u_times_2_53"]

        u = uniform(
            row["tenant"], row["policy"], row["episode_id"], int(row["seed_epoch"]), int(row["allocation_version"])
        )
        assert u == row["u_times_2_53"] * 2.0**-53
        assert pick(row["p"], u) == row["picked"]


def test_every_golden_pick_holds_at_its_boundary() -> None:
    assert [pick(row["p"], row["u"]) for row in GOLDEN["picks"]] == [row["picked"] for row in GOLDEN["picks"]]


def test_every_golden_narrowing_holds_bit_for_bit() -> None:
    for row in GOLDEN["narrowings"]:
        p = allocate(
            row["q"],
            subset=row["subset"],
            baseline=row["baseline"],
            floor=row["floor"],
            uniform_slice=row["uniform_slice"],
            caps=row["caps"],
        )
        assert p.tolist() == row["p"]


@given(names, names, names, versions, versions)
def test_u_is_a_multiple_of_two_to_the_minus_53_in_the_unit_interval(
    tenant: str, policy: str, episode: str, epoch: int, version: int
) -> None:
    u = uniform(tenant, policy, episode, epoch, version)

    assert 0.0 <= u < 1.0
    assert (u * 2.0**53).is_integer()
    assert u == uniform(tenant, policy, episode, epoch, version)


def test_composed_and_decomposed_ids_are_different_episodes() -> None:
    assert uniform("acme", "support", "caf\u00e9", 0, 1) != uniform("acme", "support", "cafe\u0301", 0, 1)


@pytest.mark.parametrize("field", ["tenant", "policy", "episode_id"])
def test_an_id_with_a_zero_byte_is_refused_by_name(field: str) -> None:
    names = {"tenant": "acme", "policy": "support", "episode_id": "e-1"} | {field: "a\0b"}

    with pytest.raises(InvalidName, match="zero byte") as caught:
        uniform(names["tenant"], names["policy"], names["episode_id"], 0, 1)

    assert caught.value.field == field


@given(
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=36).filter(lambda weights: sum(weights) > 0.0),
    st.integers(0, 2**53 - 1),
)
def test_the_pick_has_probability_and_is_the_first_sum_above_u(weights: list[float], numerator: int) -> None:
    u = numerator * 2.0**-53
    p = np.array(weights) / np.sum(weights)

    index = pick(p, u)

    assert p[index] > 0.0
    sums = np.add.accumulate(p)
    above = np.flatnonzero(sums > u)
    assert index == (above[0] if above.size else np.flatnonzero(p)[-1])


def test_a_vector_without_any_probability_is_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        pick([0.0, 0.0], 0.5)


@given(st.floats(0, 1), st.floats(1e-12, 1))
def test_an_interval_is_written_so_that_its_ends_differ(draw_from: float, width: float) -> None:
    begin, end = interval_text(draw_from, draw_from + width).split(" to ")
    assert float(begin) < float(end)


def test_an_action_that_no_draw_chooses_has_no_interval() -> None:
    assert interval_text(1.0, 1.0) == "none"
