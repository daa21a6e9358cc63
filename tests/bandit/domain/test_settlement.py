"""Test when an episode settles, what amends it, and that its last verdict does not depend on the order of arrival."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from kedge_bandit.domain.episode import (
    EpisodeState,
    GuardrailEvent,
    GuardrailKind,
    SafetyVerdict,
    ToolCall,
    Trajectory,
)
from kedge_bandit.domain.errors import FactsInvalid, WindowsInvalid
from kedge_bandit.domain.outcome import AbsentReason, SignalKind, VetoReason
from kedge_bandit.domain.reward import Reward, Unscored, Veto, WeightReason, contribution
from kedge_bandit.domain.reward_spec import RewardSpec, SafetySource
from kedge_bandit.domain.settlement import (
    Arrival,
    Cancelled,
    EpisodeFacts,
    Pending,
    Settled,
    Windows,
    episode_state,
    is_late,
    settle,
)
from tests.bandit.domain.outcome_strategies import NOON, absent, after, arrived, measured

SPEC = RewardSpec(cost_reference_usd=0.02, latency_reference_ms=2000.0)
CLEAN = Trajectory(guardrail_events=(GuardrailEvent(kind=GuardrailKind.PII, tripped=False),), terminated=True)
AT_ONCE = Windows(task_success=timedelta(0), safety=timedelta(0), judge=timedelta(0))
SUCCESS = measured(SignalKind.TASK_SUCCESS, 1.0, key="success")
THUMB_UP = measured(SignalKind.HUMAN, 1.0, key="up")
THUMB_DOWN = measured(SignalKind.HUMAN, -1.0, key="down")
SCORE = measured(SignalKind.JUDGE, 0.9, key="score")
LEAK = measured(SignalKind.SAFETY, 0.0, key="leak")
SAFE = measured(SignalKind.SAFETY, 1.0, key="safe")
OPEN = EpisodeFacts(decision_time=NOON, verifier_expected=True, judge_requested=False)


def ended(*arrivals: Arrival, facts: EpisodeFacts = OPEN, **time: float) -> EpisodeFacts:
    return replace(facts, trajectory=CLEAN, ended_time=after(**time), arrivals=arrivals)


def settled(facts: EpisodeFacts, now: datetime, spec: RewardSpec = SPEC) -> Settled:
    found = settle(facts, spec, now=now)
    assert isinstance(found, Settled)
    return found


def rewarded(facts: EpisodeFacts, now: datetime, spec: RewardSpec = SPEC) -> Reward:
    verdict = settled(facts, now, spec).verdict
    assert isinstance(verdict, Reward)
    return verdict


def test_an_ended_episode_settles_when_every_expected_signal_is_there() -> None:
    waiting = ended(minutes=1)
    found = settle(waiting, SPEC, now=after(minutes=2))
    assert found == Pending(due_time=after(minutes=11), waiting_for=(SignalKind.TASK_SUCCESS,))

    complete = settled(ended(arrived(SUCCESS, minutes=2), minutes=1), after(minutes=3))

    assert complete.settle_time == after(minutes=2)
    assert episode_state(complete) is EpisodeState.SETTLED
    assert rewarded(ended(arrived(SUCCESS, minutes=2), minutes=1), after(minutes=3)).value == pytest.approx(0.87)


def test_an_absent_signal_with_a_reason_is_there() -> None:
    gone = arrived(absent(SignalKind.TASK_SUCCESS, AbsentReason.TIMEOUT), minutes=2)

    found = settled(ended(gone, arrived(THUMB_UP, minutes=1), minutes=1), after(minutes=2))

    assert episode_state(found) is EpisodeState.SETTLED
    assert found.verdict.signals.task_success is None


def test_outcomes_of_an_episode_that_has_not_ended_do_not_settle_it() -> None:
    running = replace(OPEN, trajectory=replace(CLEAN, terminated=False), arrivals=(arrived(SUCCESS, minutes=1),))

    found = settle(running, SPEC, now=after(days=2))

    assert found == Pending(due_time=after(days=30), waiting_for=())


def test_a_truncated_episode_has_ended_too() -> None:
    cut = replace(ended(arrived(SUCCESS), minutes=0), trajectory=replace(CLEAN, terminated=False, truncated=True))

    assert episode_state(settle(cut, SPEC, now=NOON)) is EpisodeState.SETTLED


@pytest.mark.parametrize(
    ("facts", "window"),
    [
        (OPEN, timedelta(minutes=10)),
        (replace(OPEN, judge_requested=True), timedelta(hours=1)),
        (replace(OPEN, windows=Windows(task_success=timedelta(days=2))), timedelta(days=2)),
        (replace(OPEN, windows=AT_ONCE, judge_requested=True), timedelta(0)),
    ],
)
def test_a_missing_signal_is_waited_for_until_its_window_has_passed(facts: EpisodeFacts, window: timedelta) -> None:
    waiting = ended(arrived(THUMB_UP, minutes=1), facts=facts, minutes=5)
    due_time = after(minutes=5) + window

    if window:
        found = settle(waiting, SPEC, now=due_time - timedelta(microseconds=1))
        assert isinstance(found, Pending)
        assert found.due_time == due_time
    assert settled(waiting, due_time).settle_time == due_time
    assert settled(waiting, due_time + timedelta(days=1)).settle_time == due_time


def test_a_signal_that_is_not_expected_is_not_waited_for() -> None:
    unverified = ended(arrived(THUMB_UP), facts=replace(OPEN, verifier_expected=False), minutes=1)

    assert rewarded(unverified, after(minutes=1)).quality == 1.0


def test_a_safety_verdict_is_waited_for_unless_the_trajectory_carries_it() -> None:
    unguarded = replace(ended(arrived(SUCCESS), minutes=0), trajectory=Trajectory(terminated=True))

    found = settle(unguarded, SPEC, now=NOON)
    assert found == Pending(due_time=after(minutes=10), waiting_for=(SignalKind.SAFETY,))
    assert rewarded(unguarded, after(minutes=10)).weight_reason is WeightReason.NO_SAFETY_VERDICT
    assert rewarded(unguarded, NOON, replace(SPEC, safety_source=SafetySource.NONE)).weight == 1.0
    with_verdict = replace(unguarded, arrivals=(arrived(SUCCESS), arrived(SAFE, minutes=1)))
    assert rewarded(with_verdict, after(minutes=1)).weight == 1.0


def test_a_late_safety_verdict_within_the_hour_makes_the_episode_count() -> None:
    unguarded = replace(ended(arrived(SUCCESS), minutes=0), trajectory=Trajectory(terminated=True))
    in_time = replace(unguarded, arrivals=(*unguarded.arrivals, arrived(SAFE, minutes=59)))
    too_late = replace(unguarded, arrivals=(*unguarded.arrivals, arrived(SAFE, minutes=61)))

    assert rewarded(in_time, after(minutes=59)).weight == 1.0
    assert rewarded(too_late, after(minutes=61)).weight == 0.0


def test_the_caller_can_settle_at_once_also_before_the_end_is_logged() -> None:
    asked = replace(OPEN, arrivals=(arrived(THUMB_UP),), settle_requested_time=after(minutes=3))

    found = settled(asked, after(minutes=3))

    assert found.settle_time == after(minutes=3)
    assert found.verdict.signals.human == 1.0


def test_a_cancelled_episode_is_not_scored() -> None:
    cancelled = replace(ended(arrived(SUCCESS), minutes=1), is_cancelled=True)

    assert settle(cancelled, SPEC, now=after(minutes=5)) == Cancelled()


def test_a_cancellation_does_not_hide_a_veto() -> None:
    cancelled = replace(OPEN, is_cancelled=True, arrivals=(arrived(LEAK),))

    assert episode_state(settle(cancelled, SPEC, now=NOON)) is EpisodeState.VETOED


def test_an_episode_of_which_nothing_is_heard_by_expiry_was_never_served() -> None:
    assert settle(OPEN, SPEC, now=after(days=29)) == Pending(
        due_time=after(days=30), waiting_for=(SignalKind.TASK_SUCCESS, SignalKind.SAFETY)
    )
    assert settle(OPEN, SPEC, now=after(days=30)) == Cancelled()
    tardy = replace(OPEN, arrivals=(arrived(THUMB_UP, days=31),))
    assert settle(tardy, SPEC, now=after(days=31)) == Cancelled()


def test_an_episode_that_was_served_and_never_logged_settles_at_expiry_with_what_is_known() -> None:
    thumbed = replace(OPEN, arrivals=(arrived(THUMB_UP, minutes=1), arrived(SAFE, minutes=1)))
    activated = replace(OPEN, is_activated=True)

    assert rewarded(thumbed, after(days=30)).weight == 1.0
    assert isinstance(settled(activated, after(days=30)).verdict, Unscored)


def test_an_episode_with_every_signal_absent_ends_unscored() -> None:
    silent = ended(minutes=1)

    found = settled(silent, after(minutes=11))

    assert episode_state(found) is EpisodeState.UNSCORED
    assert contribution(found.verdict) is None


def test_a_thumb_within_thirty_days_corrects_the_reward_and_later_it_is_late() -> None:
    first = ended(arrived(SUCCESS), minutes=1)
    corrected = ended(arrived(SUCCESS), arrived(THUMB_DOWN, days=30), minutes=1)
    late = ended(arrived(SUCCESS), arrived(THUMB_DOWN, days=30, seconds=1), minutes=1)

    assert rewarded(corrected, after(days=30)).quality == pytest.approx(0.25 / 0.65)
    assert settled(late, after(days=31)).late == ("down",)
    assert settled(late, after(days=31)).verdict == settled(first, after(minutes=1)).verdict


@pytest.mark.parametrize("windows", [Windows(), AT_ONCE])
def test_a_signal_within_an_hour_of_the_end_amends_and_later_it_is_late(windows: Windows) -> None:
    facts = replace(OPEN, windows=windows, judge_requested=True)
    amended = ended(arrived(SCORE, minutes=5), arrived(SUCCESS, minutes=60), facts=facts, minutes=0)
    late = ended(arrived(SCORE, minutes=5), arrived(SUCCESS, minutes=60, seconds=1), facts=facts, minutes=0)

    assert rewarded(amended, after(minutes=61)).signals.task_success == 1.0
    assert rewarded(late, after(minutes=61)).weight_reason is WeightReason.JUDGE_ONLY
    assert settled(late, after(minutes=61)).late == ("success",)


def test_a_window_longer_than_an_hour_lengthens_the_time_for_amendments() -> None:
    facts = replace(OPEN, windows=Windows(judge=timedelta(hours=5)))

    assert not is_late(arrived(SUCCESS, hours=5), ended(facts=facts))
    assert is_late(arrived(SUCCESS, hours=5, seconds=1), ended(facts=facts))


def test_a_window_of_zero_settles_with_what_is_there_and_takes_what_follows() -> None:
    facts = replace(OPEN, windows=AT_ONCE)

    at_end = settled(ended(facts=facts, minutes=1), after(minutes=1))
    next_minute = settled(ended(arrived(SUCCESS, minutes=2), facts=facts, minutes=1), after(minutes=2))

    assert isinstance(at_end.verdict, Unscored)
    assert rewarded(ended(arrived(SUCCESS, minutes=2), facts=facts, minutes=1), after(minutes=2)).weight == 1.0
    assert next_minute.settle_time == after(minutes=1)


def test_a_score_nobody_requested_is_neither_waited_for_nor_learned_from() -> None:
    asked = replace(OPEN, judge_requested=True)
    unasked = replace(SCORE, requested=False)

    alone = settled(ended(arrived(SUCCESS), arrived(SCORE), minutes=1), after(minutes=1))
    waiting = settle(ended(arrived(SUCCESS), arrived(unasked), facts=asked, minutes=1), SPEC, now=after(minutes=2))

    assert (alone.unrequested, alone.verdict.signals.judge) == (("score",), None)
    assert isinstance(waiting, Pending)
    assert waiting.waiting_for == (SignalKind.JUDGE,)


@pytest.mark.parametrize("reason", list(VetoReason))
@pytest.mark.parametrize("days", [0.0, 1.0, 29.0, 300.0])
def test_a_veto_applies_whenever_it_comes(reason: VetoReason, days: float) -> None:
    broken = replace(LEAK, veto_reason=reason)

    found = settled(ended(arrived(SUCCESS), arrived(broken, days=days), minutes=1), after(days=max(days, 1.0)))

    assert episode_state(found) is EpisodeState.VETOED
    assert isinstance(found.verdict, Veto)
    assert found.verdict.reasons == (reason,)
    assert found.late == ()


def test_a_veto_needs_neither_an_end_nor_a_window() -> None:
    running = Trajectory(tool_calls=(ToolCall(tool_name="pay", blocked=True),))

    found = settled(replace(OPEN, trajectory=running), after(seconds=1))

    assert found.verdict.signals.safety_verdict is SafetyVerdict.TRIPPED
    assert found.settle_time == after(seconds=1)


@pytest.mark.parametrize("reason", list(VetoReason))
def test_a_later_thumb_up_does_not_lift_a_veto(reason: VetoReason) -> None:
    broken = arrived(replace(LEAK, veto_reason=reason))
    before = settled(ended(broken, arrived(SUCCESS), minutes=1), after(minutes=1))

    with_thumb = ended(broken, arrived(SUCCESS), arrived(THUMB_UP, days=1), minutes=1)
    again = settled(with_thumb, after(days=1))

    assert again == before
    assert len(with_thumb.arrivals) == 3


def test_windows_and_facts_that_cannot_be_are_refused() -> None:
    with pytest.raises(WindowsInvalid):
        Windows(judge=timedelta(seconds=-1))
    with pytest.raises(WindowsInvalid):
        Windows(safety=timedelta(days=31))
    with pytest.raises(FactsInvalid):
        replace(OPEN, ended_time=NOON)
    with pytest.raises(FactsInvalid):
        replace(OPEN, ended_time=NOON, trajectory=Trajectory())
