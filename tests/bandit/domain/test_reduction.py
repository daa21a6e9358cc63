"""Test that many outcomes of an episode become one value a signal, in whatever order and however often they came."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge_bandit.domain.episode import (
    GuardrailEvent,
    GuardrailKind,
    LlmCall,
    SafetyVerdict,
    ToolCall,
    Trajectory,
)
from kedge_bandit.domain.outcome import AbsentReason, Outcome, Provenance, SignalKind, VetoReason
from kedge_bandit.domain.reduction import human_value, latest, reduce_outcomes
from kedge_bandit.domain.reward import Signals
from kedge_bandit.domain.reward_spec import RewardSpec
from tests.bandit.domain.outcome_strategies import NOON, absent, measured, outcomes, reacted, trajectories

SPEC = RewardSpec(cost_reference_usd=0.02, latency_reference_ms=2000.0)
CLEAN = Trajectory(guardrail_events=(GuardrailEvent(kind=GuardrailKind.PII, tripped=False),))


def reduced(*seen: Outcome, trajectory: Trajectory | None = CLEAN, judge_requested: bool = True) -> Signals:
    return reduce_outcomes(seen, trajectory, SPEC, judge_requested=judge_requested)


@pytest.mark.parametrize(
    ("reaction", "expected"),
    [
        (reacted(Provenance.THUMB, 1.0), 1.0),
        (reacted(Provenance.THUMB, 0.0), 0.0),
        (reacted(Provenance.THUMB, -1.0), -1.0),
        (reacted(Provenance.ACCEPTED, 1.0), 1.0),
        (reacted(Provenance.EDITED, edit_distance=0.0), 1.0),
        (reacted(Provenance.EDITED, edit_distance=0.10), 1.0),
        (reacted(Provenance.EDITED, edit_distance=math.nextafter(0.10, 1.0)), 0.0),
        (reacted(Provenance.EDITED, edit_distance=0.40), 0.0),
        (reacted(Provenance.EDITED, edit_distance=math.nextafter(0.40, 1.0)), -1.0),
        (reacted(Provenance.EDITED, edit_distance=1.0), -1.0),
        (reacted(Provenance.RESOLVED, 1.0), 1.0),
        (reacted(Provenance.RESOLVED, 0.0), -1.0),
    ],
)
def test_a_reaction_is_worth_what_its_provenance_says(reaction: Outcome, expected: float) -> None:
    assert human_value([reaction], SPEC) == expected


def test_cut_points_of_edits_belong_to_the_spec() -> None:
    strict = replace(SPEC, edit_accept=0.0, edit_neutral=0.05)

    assert human_value([reacted(Provenance.EDITED, edit_distance=0.10)], strict) == -1.0


def test_a_thumb_outranks_a_later_edit_and_an_edit_outranks_a_later_resolved() -> None:
    thumb = reacted(Provenance.THUMB, -1.0, key="a", minute=1)
    edit = reacted(Provenance.EDITED, edit_distance=0.2, key="b", minute=2)
    resolved = reacted(Provenance.RESOLVED, 1.0, key="c", minute=3)

    assert human_value([thumb, edit, resolved], SPEC) == -1.0
    assert human_value([edit, resolved], SPEC) == 0.0


def test_the_latest_of_equal_rank_wins_across_raters() -> None:
    first = reacted(Provenance.THUMB, 1.0, rater="r1", key="a", minute=1)
    second = reacted(Provenance.THUMB, -1.0, rater="r2", key="b", minute=2)

    assert human_value([second, first], SPEC) == -1.0


def test_accepted_and_edited_are_of_equal_rank() -> None:
    accepted = reacted(Provenance.ACCEPTED, 1.0, key="a", minute=1)
    edited = reacted(Provenance.EDITED, edit_distance=0.9, key="b", minute=2)

    assert human_value([accepted, edited], SPEC) == -1.0
    assert human_value([replace(accepted, observed_time=edited.observed_time, key="z"), edited], SPEC) == 1.0


def test_one_rater_counts_once_however_often_they_react() -> None:
    eager = [reacted(Provenance.THUMB, 1.0, rater="r1", key=f"a{i}", minute=i) for i in range(10)]
    last = reacted(Provenance.THUMB, -1.0, rater="r1", key="b", minute=10)

    assert human_value([*eager, last], SPEC) == -1.0


def test_a_withdrawn_reaction_leaves_the_one_of_another_rater_standing() -> None:
    mine = reacted(Provenance.THUMB, 1.0, rater="r1", key="a", minute=2)
    theirs = reacted(Provenance.THUMB, -1.0, rater="r2", key="b", minute=1)
    withdrawn = reacted(Provenance.THUMB, rater="r1", key="c", minute=3)

    assert human_value([mine, theirs], SPEC) == 1.0
    assert human_value([mine, theirs, withdrawn], SPEC) == -1.0
    assert human_value([mine, withdrawn], SPEC) is None


def test_no_reaction_is_absent_and_never_zero() -> None:
    assert human_value([absent(SignalKind.HUMAN, AbsentReason.TIMEOUT)], SPEC) is None
    assert reduced().human is None


@pytest.mark.parametrize("why", list(AbsentReason))
@pytest.mark.parametrize("signal", [SignalKind.JUDGE, SignalKind.TASK_SUCCESS])
def test_an_absent_signal_is_neither_zero_nor_a_half(signal: SignalKind, why: AbsentReason) -> None:
    seen = reduced(absent(signal, why))

    assert (seen.judge, seen.task_success) == (None, None)


def test_the_outcome_observed_last_stands_and_a_tie_goes_to_the_greater_key() -> None:
    early = measured(SignalKind.TASK_SUCCESS, 1.0, key="z", minute=1)
    late = measured(SignalKind.TASK_SUCCESS, 0.0, key="a", minute=2)
    tied = measured(SignalKind.TASK_SUCCESS, 0.5, key="b", minute=2)

    assert reduced(late, early).task_success == 0.0
    assert latest([late, tied, early], SignalKind.TASK_SUCCESS) is tied


def test_a_judge_nobody_requested_is_left_out() -> None:
    score = measured(SignalKind.JUDGE, 0.9)

    assert reduced(score).judge == 0.9
    assert reduced(score, judge_requested=False).judge is None
    assert reduced(replace(score, requested=False)).judge is None
    later_unasked = replace(score, key="b", value=0.1, requested=False, observed_time=NOON.replace(hour=13))
    assert reduced(score, later_unasked).judge == 0.9


def test_a_measured_cost_or_latency_outranks_the_trajectory_and_an_absent_one_does_not() -> None:
    call = LlmCall(model_id="m", prompt_tokens=1, completion_tokens=1, cost_usd=0.5, latency_ms=100.0)
    logged = Trajectory(llm_calls=(call,))
    cost, latency = measured(SignalKind.COST, 0.1), measured(SignalKind.LATENCY, 7.0)
    no_cost = absent(SignalKind.COST, AbsentReason.ERROR)

    stated = reduced(cost, latency, trajectory=logged)
    summed = reduced(no_cost, trajectory=logged)

    assert (stated.cost_usd, stated.latency_ms) == (0.1, 7.0)
    assert (summed.cost_usd, summed.latency_ms) == (0.5, 100.0)
    assert reduced(no_cost, trajectory=None).cost_usd is None


def test_an_explicit_safety_verdict_outranks_what_the_trajectory_carries() -> None:
    unknown = absent(SignalKind.SAFETY, AbsentReason.ERROR)

    assert reduced().safety_verdict is SafetyVerdict.CLEAN
    assert reduced(unknown).safety_verdict is SafetyVerdict.ABSENT
    assert reduced(measured(SignalKind.SAFETY, 1.0), trajectory=None).safety_verdict is SafetyVerdict.CLEAN
    assert reduced(trajectory=None).safety_verdict is SafetyVerdict.ABSENT


def test_a_later_clean_verdict_does_not_lift_a_veto() -> None:
    leak = measured(SignalKind.SAFETY, 0.0, key="a", minute=1)
    clean = measured(SignalKind.SAFETY, 1.0, key="b", minute=2)

    seen = reduced(leak, clean)

    assert seen.vetoes == (VetoReason.GUARDRAIL_PII,)
    assert seen.safety_verdict is SafetyVerdict.TRIPPED


def test_vetoes_of_outcomes_and_trajectory_are_joined() -> None:
    blocked = Trajectory(tool_calls=(ToolCall(tool_name="pay", blocked=True),))

    seen = reduced(measured(SignalKind.SAFETY, 0.0), trajectory=blocked)

    assert seen.vetoes == (VetoReason.GUARDRAIL_PII, VetoReason.TOOL_BLOCKED)


@given(
    st.lists(outcomes(), max_size=12).flatmap(lambda seen: st.tuples(st.just(seen), st.permutations(seen))),
    st.none() | trajectories(),
    st.booleans(),
)
def test_the_order_of_arrival_changes_nothing(
    seen: tuple[list[Outcome], list[Outcome]], trajectory: Trajectory | None, requested: bool
) -> None:
    one, other = seen

    assert reduced(*one, trajectory=trajectory, judge_requested=requested) == reduced(
        *other, trajectory=trajectory, judge_requested=requested
    )


@given(st.lists(outcomes(), max_size=12), st.data())
def test_a_repeated_outcome_changes_nothing(seen: list[Outcome], data: st.DataObject) -> None:
    again = data.draw(st.lists(st.sampled_from(seen), max_size=6)) if seen else []

    assert reduced(*seen, *again) == reduced(*seen)


@given(st.lists(outcomes(), max_size=8), outcomes(), st.none() | trajectories())
def test_no_further_outcome_lifts_a_veto(seen: list[Outcome], more: Outcome, trajectory: Trajectory | None) -> None:
    before = reduced(*seen, trajectory=trajectory).vetoes

    assert set(before) <= set(reduced(*seen, more, trajectory=trajectory).vetoes)
