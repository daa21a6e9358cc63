"""Test the fold of evidence: order, duplicates, corrections, ageing, known changes, and the running state beside it."""

from dataclasses import replace
from datetime import timedelta
from math import inf, nan
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge_bandit.domain.errors import EvidenceContradicts, InvalidValue
from kedge_bandit.domain.posterior import (
    Cell,
    Evidence,
    EvidenceRow,
    KnownChange,
    change_factor,
    discount,
    fold,
    fold_vetoes,
)

DAY = 86_400.0
H = timedelta(days=14)
NOW = 1.7e9
CELL = Cell("support", "short", "a")


def row(episode: str = "e", version: int = 1, **changes: object) -> EvidenceRow:
    plain = EvidenceRow(
        policy="support",
        bucket="short",
        action="a",
        episode_id=episode,
        reward_version=version,
        policy_time=NOW,
        weight=1.0,
        reward=1.0,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]  # a test's own fields


@st.composite
def logs(draw: st.DrawFn) -> list[EvidenceRow]:
    """A log with corrections, of which each names its episode's cell and decision time."""
    log: list[EvidenceRow] = []
    for number in range(draw(st.integers(1, 25))):
        first = row(
            f"e{number}",
            bucket=draw(st.sampled_from(["short", "long"])),
            action=draw(st.sampled_from(["a", "b"])),
            policy_time=NOW - draw(st.floats(-DAY, 400.0 * DAY)),
        )
        for version in range(1, draw(st.integers(1, 3)) + 1):
            vetoed = draw(st.booleans())
            reward = 0.0 if vetoed else draw(st.floats(0.0, 1.0))
            weight = draw(st.sampled_from([0.0, 1.0]))
            log.append(replace(first, reward_version=version, reward=reward, weight=weight, vetoed=vetoed))
    return log


def close(one: Evidence, two: Evidence) -> bool:
    room = 1e-9 * max(1.0, one.n)
    return max(abs(one.n - two.n), abs(one.s - two.s), abs(one.s2 - two.s2)) <= room


@settings(max_examples=150, deadline=None)
@given(logs(), st.randoms(use_true_random=False))
def test_any_permutation_and_duplication_folds_to_the_same_bits(log: list[EvidenceRow], order: Random) -> None:
    arrived = log + [order.choice(log) for _ in range(len(log))]
    order.shuffle(arrived)

    assert fold(arrived, as_of=NOW, half_life=H) == fold(log, as_of=NOW, half_life=H)
    assert fold_vetoes(arrived, as_of=NOW, half_life=H) == fold_vetoes(log, as_of=NOW, half_life=H)


@settings(max_examples=150, deadline=None)
@given(logs(), st.randoms(use_true_random=False), st.floats(0.0, 100.0 * DAY))
def test_a_running_state_with_corrections_equals_a_fresh_fold(
    log: list[EvidenceRow], order: Random, later: float
) -> None:
    order.shuffle(log)
    state: dict[Cell, Evidence] = {}
    counted: dict[str, EvidenceRow] = {}
    for entry in log:
        old = counted.get(entry.episode_id)
        if old is not None and old.reward_version >= entry.reward_version:
            continue
        kept = state.get(entry.cell, Evidence.none(NOW))
        if old is not None:
            kept = kept.minus(Evidence.of(old.reward, old.weight, old.policy_time), H)
        state[entry.cell] = kept.plus(Evidence.of(entry.reward, entry.weight, entry.policy_time), H)
        counted[entry.episode_id] = entry

    fresh = fold(log, as_of=NOW + later, half_life=H)

    assert set(fresh) == set(state)
    assert all(close(fresh[cell], state[cell].at(NOW + later, H)) for cell in fresh)


@settings(max_examples=100, deadline=None)
@given(logs(), st.integers(0, 25))
def test_batches_add_up_to_the_whole(log: list[EvidenceRow], cut: int) -> None:
    firsts = [entry for entry in log if entry.reward_version == 1]
    whole = fold(firsts, as_of=NOW, half_life=H)

    early = fold(firsts[:cut], as_of=NOW - 30.0 * DAY, half_life=H)
    late = fold(firsts[cut:], as_of=NOW, half_life=H)

    for cell, evidence in whole.items():
        added = early.get(cell, Evidence.none(NOW)).plus(late.get(cell, Evidence.none(NOW)), H)
        assert close(evidence, added.at(NOW, H))


@settings(max_examples=100, deadline=None)
@given(logs())
def test_no_sum_of_squares_exceeds_the_sum_nor_the_sum_the_weight(log: list[EvidenceRow]) -> None:
    for evidence in fold(log, as_of=NOW, half_life=H).values():
        assert 0.0 <= evidence.s2 <= evidence.s <= evidence.n


def test_evidence_of_one_half_life_ago_counts_half() -> None:
    log = [row("new", reward=0.5), row("old", reward=1.0, policy_time=NOW - 14.0 * DAY)]

    assert fold(log, as_of=NOW, half_life=H)[CELL] == Evidence(1.5, 1.0, 0.75, NOW)


def test_a_correction_replaces_what_it_corrects_whichever_comes_first() -> None:
    log = [row(version=1, reward=1.0), row(version=2, reward=0.25)]

    expected = {CELL: Evidence(1.0, 0.25, 0.0625, NOW)}
    assert fold(log, as_of=NOW, half_life=H) == expected
    assert fold(log[::-1], as_of=NOW, half_life=H) == expected


def test_a_correction_to_weight_nought_leaves_nothing_to_learn_from() -> None:
    log = [row(version=1), row(version=2, weight=0.0)]

    assert fold(log, as_of=NOW, half_life=H)[CELL] == Evidence.none(NOW)


def test_a_version_that_says_two_things_is_refused_in_any_order() -> None:
    log = [row(version=1, reward=0.1), row(version=2), row(version=1, reward=0.2)]

    for arrived in (log, log[::-1], [log[1], log[0], log[2]]):
        with pytest.raises(EvidenceContradicts) as caught:
            fold(arrived, as_of=NOW, half_life=H)
        assert caught.value.reward_version == 1


def test_the_same_episode_of_two_policies_counts_for_both() -> None:
    log = [row(), row(policy="sales")]

    assert len(fold(log, as_of=NOW, half_life=H)) == 2


def test_freezing_keeps_belief_because_policy_time_stands_still() -> None:
    log = [row(f"e{i}", policy_time=NOW - i * DAY) for i in range(30)]

    before_and_after = [fold(log, as_of=NOW, half_life=H) for _ in ("frozen", "resumed")]

    assert before_and_after[0] == before_and_after[1]


def test_very_old_evidence_vanishes_without_a_warning() -> None:
    log = [row("ancient", policy_time=NOW - 1e9), row("new")]

    assert fold(log, as_of=NOW, half_life=timedelta(minutes=1))[CELL].n == 1.0


def test_a_decision_later_than_the_reading_stays_finite() -> None:
    future = fold([row(policy_time=NOW + 1e9)], as_of=NOW, half_life=timedelta(minutes=1))

    assert future[CELL].n == 2.0**500


def test_a_few_seconds_of_skew_weigh_by_the_formula() -> None:
    ahead = fold([row(policy_time=NOW + 5.0)], as_of=NOW, half_life=H)

    assert ahead[CELL].n == pytest.approx(2.0 ** (5.0 / H.total_seconds()), rel=1e-15)


def test_a_known_change_discounts_older_decisions_only() -> None:
    change = KnownChange(cell=CELL, policy_time=NOW, factor=0.25)
    log = [row("older", policy_time=NOW - 1.0), row("at it"), row("newer", policy_time=NOW + 1.0)]

    found = fold(log, as_of=NOW, half_life=H, changes=[change])[CELL]

    kept = 0.25 * discount(1.0, H) + 1.0 + discount(-1.0, H)
    assert found.n == pytest.approx(kept, rel=1e-15)


def test_a_known_change_reaches_rows_that_arrive_after_it() -> None:
    changes = [KnownChange(cell=CELL, policy_time=NOW + 60.0, factor=0.5)]
    early, late = row("early"), row("late", reward=0.5)
    state = Evidence.of(early.reward, early.weight, early.policy_time).scaled(changes[0].factor)

    arrived = Evidence.of(late.reward, late.weight * change_factor(changes, CELL, late.policy_time), late.policy_time)

    assert close(
        state.plus(arrived, H).at(NOW + 60.0, H),
        fold([early, late], as_of=NOW + 60.0, half_life=H, changes=changes)[CELL],
    )


def test_changes_of_one_cell_multiply_and_leave_others_alone() -> None:
    changes = [KnownChange(cell=CELL, policy_time=NOW + i, factor=0.5) for i in (1, 2)]

    assert change_factor(changes, CELL, NOW) == 0.25
    assert change_factor(changes, CELL, NOW + 1.0) == 0.5
    assert change_factor(changes, CELL._replace(action="b"), NOW) == 1.0


def test_vetoes_are_pooled_over_buckets() -> None:
    log = [
        row("1", vetoed=True, reward=0.0),
        row("2", bucket="long", policy_time=NOW - 14.0 * DAY, vetoed=True, reward=0.0),
        row("3", bucket="long"),
        row("4", veto_weight=0.0),
    ]

    assert fold_vetoes(log, as_of=NOW, half_life=H) == {("support", "a"): Evidence(2.5, 1.5, 1.5, NOW)}


@pytest.mark.parametrize(
    "wrong",
    [
        {"reward": nan},
        {"reward": 1.0000001},
        {"reward": -0.1},
        {"weight": nan},
        {"weight": 2.0},
        {"policy_time": inf},
        {"veto_weight": -1.0},
    ],
)
def test_a_row_that_would_poison_a_sum_cannot_be_made(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidValue):
        replace(row(), **wrong)  # type: ignore[arg-type]  # every parametrised field is a number


@pytest.mark.parametrize("factor", [-0.1, 1.1, nan])
def test_a_change_that_adds_evidence_cannot_be_made(factor: float) -> None:
    with pytest.raises(InvalidValue):
        KnownChange(cell=CELL, policy_time=NOW, factor=factor)
