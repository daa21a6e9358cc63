"""Decide when an episode's outcomes are complete, and which of them count.

An episode *settles*: it gets its first verdict, when it was logged as ended and every expected signal is there (a value
or ABSENT), or when the windows of the missing ones have passed, or when the caller says so, or at expiry. Until then it
is pending, which is censored: no number stands in for it.

A settled episode can still be *amended*, which is a new reward version that replaces the old one:

* any signal until the longest window, at least one hour, has passed since the end;
* HUMAN for 30 days after the decision;
* a veto for ever, and nothing lifts it.

What comes later is LATE: stored, never learned from. Because the same horizons hold before and after settling, the
verdict an episode ends with does not depend on the order in which log and outcomes arrived, also with windows of 0, and
`settle` is a function of the facts alone: call it again whenever a fact is added, and store a new version if the
verdict changed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeAlias, assert_never

from kedge_bandit.domain.episode import EpisodeState, SafetyVerdict, Trajectory, safety_verdict
from kedge_bandit.domain.errors import FactsInvalid, WindowsInvalid
from kedge_bandit.domain.outcome import Outcome, SignalKind
from kedge_bandit.domain.reduction import is_wanted, reduce_outcomes
from kedge_bandit.domain.reward import Reward, Unscored, Verdict, Veto, reward
from kedge_bandit.domain.reward_spec import RewardSpec, SafetySource

EXPIRY: Final = timedelta(days=30)
"""How long after its decision an episode can be logged, settled and corrected by people."""
SHORTEST_AMENDMENT: Final = timedelta(hours=1)
"""How long after its end an episode can be amended at least, whatever its windows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Fix how long settling waits for each expected signal after the end of an episode; 0 does not wait.

    Raises:
        WindowsInvalid: a window is negative or longer than `EXPIRY`.
    """

    task_success: timedelta = timedelta(minutes=10)
    safety: timedelta = timedelta(minutes=10)
    judge: timedelta = timedelta(hours=1)

    def __post_init__(self) -> None:
        for name, window in (("task_success", self.task_success), ("safety", self.safety), ("judge", self.judge)):
            if not timedelta(0) <= window <= EXPIRY:
                raise WindowsInvalid(window=name, found=window, longest=EXPIRY)

    @property
    def amendment(self) -> timedelta:
        """How long after the end of an episode a signal other than HUMAN takes part."""
        return max(self.task_success, self.safety, self.judge, SHORTEST_AMENDMENT)


@dataclass(frozen=True, slots=True)
class Arrival:
    """Pair an outcome with the time at which it was received, which alone decides whether it is late."""

    outcome: Outcome
    received_time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeFacts:
    """Gather what is known of one episode at one moment; all times are aware and come from the store's clock.

    Attributes:
        decision_time: when its action was chosen.
        verifier_expected: a verifier exists for this bucket, so TASK_SUCCESS is expected.
        judge_requested: the decision asked for a judge, so JUDGE is expected.
        windows: of the policy.
        trajectory: what was logged so far; None if nothing was.
        ended_time: when it was logged as terminated or truncated; None while it is open.
        arrivals: every outcome received so far, in any order.
        settle_requested_time: when the caller asked to settle at once; None if it did not.
        is_cancelled: the caller said that the action was never served.
        is_activated: the caller said that it was.

    Raises:
        FactsInvalid: an end without a trajectory that has ended.
    """

    decision_time: datetime
    verifier_expected: bool
    judge_requested: bool
    windows: Windows = field(default_factory=Windows)
    trajectory: Trajectory | None = None
    ended_time: datetime | None = None
    arrivals: tuple[Arrival, ...] = ()
    settle_requested_time: datetime | None = None
    is_cancelled: bool = False
    is_activated: bool = False

    def __post_init__(self) -> None:
        if self.ended_time is not None and (self.trajectory is None or not self.trajectory.has_ended):
            raise FactsInvalid(field="ended_time", problem="needs a trajectory that terminated or was truncated")

    @property
    def expiry(self) -> datetime:
        """When the episode can no longer be logged, settled or corrected by people."""
        return self.decision_time + EXPIRY

    @property
    def is_silent(self) -> bool:
        """Say whether nothing was heard of the episode between its decision and its expiry."""
        stated = [arrival.received_time for arrival in self.arrivals]
        stated += [time for time in (self.ended_time, self.settle_requested_time) if time is not None]
        is_open = self.trajectory is not None and self.ended_time is None
        return not self.is_activated and not is_open and all(time > self.expiry for time in stated)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """Say that the episode still waits.

    Attributes:
        due_time: when it settles with what is known now if nothing more arrives.
        waiting_for: the expected signals that are missing; empty if only its end is.
    """

    due_time: datetime
    waiting_for: tuple[SignalKind, ...]


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Say that the action was never served: cancelled by the caller, or nothing was heard of it before expiry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Carry the verdict on what is known now.

    Attributes:
        verdict: reward, veto or unscored.
        settle_time: when its outcomes became complete; for a veto that came first, now.
        late: keys of the outcomes that came too late to be learned from, sorted.
        unrequested: keys of the judge's scores that nobody requested, sorted.
    """

    verdict: Verdict
    settle_time: datetime
    late: tuple[str, ...]
    unrequested: tuple[str, ...]


Settlement: TypeAlias = Pending | Cancelled | Settled


def settle(facts: EpisodeFacts, spec: RewardSpec, *, now: datetime) -> Settlement:
    """Judge one episode by what is known at `now`.

    A veto needs no window and outranks a cancellation: whatever was cancelled ran far enough to break a hard rule.

    Args:
        facts: what is known; outcomes received after `now` must not be in it.
        spec: the reward spec in force.
        now: the store's clock, aware.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    >>> spec = RewardSpec(cost_reference_usd=0.01, latency_reference_ms=1000.0)
    >>> facts = EpisodeFacts(decision_time=noon, verifier_expected=True, judge_requested=False,
    ...                      trajectory=Trajectory(terminated=True), ended_time=noon)
    >>> settle(facts, spec, now=noon).due_time - noon
    datetime.timedelta(seconds=600)
    >>> settle(facts, spec, now=noon + timedelta(minutes=10)).verdict.signals.task_success is None
    True
    """
    counted = tuple(arrival.outcome for arrival in facts.arrivals if _counts(arrival, facts))
    signals = reduce_outcomes(counted, facts.trajectory, spec, judge_requested=facts.judge_requested)
    complete_time = _complete_time(facts, spec)
    if not signals.vetoes:
        if facts.is_cancelled or (facts.is_silent and now >= complete_time):
            return Cancelled()
        if now < complete_time:
            return Pending(due_time=complete_time, waiting_for=tuple(_missing(facts, spec)))
    late = (arrival.outcome.key for arrival in facts.arrivals if not _counts(arrival, facts))
    outcomes = (arrival.outcome for arrival in facts.arrivals)
    unrequested = (o.key for o in outcomes if not is_wanted(o, judge_requested=facts.judge_requested))
    return Settled(
        verdict=reward(signals, spec),
        settle_time=min(now, complete_time),
        late=tuple(sorted(late)),
        unrequested=tuple(sorted(unrequested)),
    )


def is_late(arrival: Arrival, facts: EpisodeFacts) -> bool:
    """Say whether an outcome came after the horizon of its signal."""
    if arrival.outcome.signal is SignalKind.HUMAN:
        return arrival.received_time > facts.expiry
    return arrival.received_time > _end(facts) + facts.windows.amendment


def episode_state(settlement: Settlement) -> EpisodeState:
    """Name the one state an episode is in.

    >>> episode_state(Cancelled())
    <EpisodeState.CANCELLED: 'CANCELLED'>
    """
    match settlement:
        case Pending():
            return EpisodeState.PENDING
        case Cancelled():
            return EpisodeState.CANCELLED
        case Settled():
            return _state_of_verdict(settlement.verdict)
        case _:
            assert_never(settlement)


def _state_of_verdict(verdict: Verdict) -> EpisodeState:
    match verdict:
        case Reward():
            return EpisodeState.SETTLED
        case Veto():
            return EpisodeState.VETOED
        case Unscored():
            return EpisodeState.UNSCORED
        case _:
            assert_never(verdict)


def _counts(arrival: Arrival, facts: EpisodeFacts) -> bool:
    return arrival.outcome.veto_reason is not None or not is_late(arrival, facts)


def _end(facts: EpisodeFacts) -> datetime:
    """Find the time from which the windows run: the logged end or the caller's request, at the latest expiry."""
    stated = (facts.ended_time, facts.settle_requested_time, facts.expiry)
    return min(time for time in stated if time is not None)


def _complete_time(facts: EpisodeFacts, spec: RewardSpec) -> datetime:
    """Find when the outcomes are complete if nothing more arrives."""
    stated = [facts.expiry]
    if facts.settle_requested_time is not None:
        stated.append(facts.settle_requested_time)
    if facts.ended_time is not None:
        ready = [facts.ended_time]
        for signal, window in _expected(facts, spec):
            closing = facts.ended_time + window
            ready.append(min([closing, *_arrival_times(signal, facts)]))
        stated.append(max(ready))
    return min(stated)


def _expected(facts: EpisodeFacts, spec: RewardSpec) -> Iterator[tuple[SignalKind, timedelta]]:
    """Yield each signal that must arrive by itself, with its window; a safety verdict may come with the trajectory."""
    if facts.verifier_expected:
        yield SignalKind.TASK_SUCCESS, facts.windows.task_success
    carried = SafetyVerdict.ABSENT if facts.trajectory is None else safety_verdict(facts.trajectory)
    if spec.safety_source is SafetySource.GUARDRAILS and carried is SafetyVerdict.ABSENT:
        yield SignalKind.SAFETY, facts.windows.safety
    if facts.judge_requested:
        yield SignalKind.JUDGE, facts.windows.judge


def _missing(facts: EpisodeFacts, spec: RewardSpec) -> Iterator[SignalKind]:
    for signal, _ in _expected(facts, spec):
        if next(_arrival_times(signal, facts), None) is None:
            yield signal


def _arrival_times(signal: SignalKind, facts: EpisodeFacts) -> Iterator[datetime]:
    """Yield when each outcome of a signal was received, ABSENT ones included, unrequested scores left out."""
    for arrival in facts.arrivals:
        wanted = is_wanted(arrival.outcome, judge_requested=facts.judge_requested)
        if arrival.outcome.signal is signal and wanted:
            yield arrival.received_time
