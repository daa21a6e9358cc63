"""Gather what was said about one episode, as it arrived, until it can be judged and each time more is said.

A dossier does not depend on the order in which its facts arrived, and saying one twice changes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from kedge_bandit.domain.decision import LEARNABLE, Reason, SetAside
from kedge_bandit.domain.episode import SafetyVerdict, Trajectory
from kedge_bandit.domain.identifiers import DecisionId
from kedge_bandit.domain.policy import Settlement
from kedge_bandit.domain.settlement import Arrival, EpisodeFacts


class EventKind(StrEnum):
    """What an event says about an episode as a whole."""

    LOG = "LOG"
    ACTIVATE = "ACTIVATE"
    CANCEL = "CANCEL"
    SETTLE = "SETTLE"


_NOT_THE_POLICYS = (Reason.FROZEN, Reason.BYPASS, Reason.STALE, Reason.ERROR, Reason.OVER_QUOTA)
"""Reasons of an answer that the policy did not choose, whichever action it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The decision that stands for an episode, as far as learning needs it."""

    decision_id: DecisionId
    time: datetime
    bucket: str
    action: str
    policy_version: int
    reason: Reason
    judge_requested: bool
    set_aside: SetAside | None = None


@dataclass(frozen=True, slots=True)
class Rival:
    """A later decision of the same episode; the first one stands."""

    decision_id: DecisionId
    action: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Event:
    """Something said about the episode as a whole.

    Attributes:
        key: idempotency key.
        served_action: key of the action that was really served; None: the decided one.
    """

    key: str
    kind: EventKind
    received_time: datetime
    trajectory: Trajectory | None = None
    served_action: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dossier:
    """Everything said about one episode.

    Attributes:
        chosen: its decision; None while it is not known.
        arrivals: outcomes with the time they were received.
        served: actions that outcomes name as really served.
        dropped: a person decided that nothing more is learned from it.
    """

    chosen: Chosen | None = None
    rivals: tuple[Rival, ...] = ()
    events: tuple[Event, ...] = ()
    arrivals: tuple[Arrival, ...] = ()
    served: tuple[str, ...] = ()
    dropped: bool = False

    def extended(
        self,
        *,
        chosen: Chosen | None = None,
        rivals: Iterable[Rival] = (),
        events: Iterable[Event] = (),
        arrivals: Iterable[Arrival] = (),
        served: Iterable[str] = (),
    ) -> "Dossier":
        """Add what arrived; facts that are known already change nothing."""
        known_events = {event.key: event for event in self.events}
        for event in events:
            known_events.setdefault(event.key, event)
        known_arrivals = {arrival.outcome.key: arrival for arrival in self.arrivals}
        for arrival in arrivals:
            known_arrivals.setdefault(arrival.outcome.key, arrival)
        known_rivals = {rival.decision_id: rival for rival in self.rivals}
        for rival in rivals:
            known_rivals.setdefault(rival.decision_id, rival)
        return Dossier(
            chosen=self.chosen or chosen,
            rivals=tuple(known_rivals.values()),
            events=tuple(known_events.values()),
            arrivals=tuple(known_arrivals.values()),
            served=tuple(sorted({*self.served, *served})),
            dropped=self.dropped,
        )

    @property
    def is_logged(self) -> bool:
        """Whether the core application logged the episode, so that it is counted."""
        return any(event.kind is EventKind.LOG for event in self.events)

    @property
    def trajectory(self) -> Trajectory | None:
        """The logged parts as one trajectory; None where nothing was logged."""
        parts = [event for event in self.events if event.trajectory is not None]
        if len(parts) == 1:
            return parts[0].trajectory
        ordered = sorted(parts, key=lambda event: (event.received_time, event.key))
        return joined([event.trajectory for event in ordered if event.trajectory is not None]) if ordered else None

    def facts(self, settlement: Settlement, *, decision_time: datetime) -> EpisodeFacts:
        """Read the dossier as settlement wants it.

        Args:
            settlement: of the policy.
            decision_time: of the decision, or the time that stands in for an unknown one.
        """
        ends = [e.received_time for e in self.events if e.trajectory is not None and e.trajectory.has_ended]
        asked = [e.received_time for e in self.events if e.kind is EventKind.SETTLE]
        kinds = {event.kind for event in self.events}
        return EpisodeFacts(
            decision_time=decision_time,
            verifier_expected=settlement.expects_task_success,
            judge_requested=self.chosen is not None and self.chosen.judge_requested,
            windows=settlement.windows,
            trajectory=self.trajectory,
            ended_time=min(ends, default=None),
            arrivals=self.arrivals,
            settle_requested_time=min(asked, default=None),
            is_cancelled=EventKind.CANCEL in kinds,
            is_activated=EventKind.ACTIVATE in kinds,
        )

    def objection(self, live_actions: frozenset[str]) -> str | None:
        """Say why the episode is stored but not learned from, whatever its outcomes; None where nothing speaks so.

        Args:
            live_actions: keys of the policy's present actions.
        """
        chosen = self.chosen
        if chosen is None:
            return "DECISION_UNKNOWN"
        if chosen.reason not in LEARNABLE:
            return chosen.reason.value
        if chosen.set_aside is not None:
            return chosen.set_aside.value
        named = {*self.served, *(event.served_action for event in self.events if event.served_action is not None)}
        if named - {chosen.action}:
            return "OTHER_ACTION_SERVED"
        if any(rival.action != chosen.action or rival.reason in _NOT_THE_POLICYS for rival in self.rivals):
            return "SUPERSEDED"
        if self.dropped:
            return "DROPPED"
        return None if chosen.action in live_actions else "RETIRED_ARM"


def joined(parts: Iterable[Trajectory]) -> Trajectory:
    """Read the parts of a streamed trajectory as one.

    The part that ended the episode says whether guardrails looked, if it says so at all; otherwise one part that says
    ABSENT outweighs those that say CLEAN, because a veto may have gone unseen there.

    >>> joined([Trajectory(truncated=True), Trajectory(declared_safety=SafetyVerdict.CLEAN)]).declared_safety
    <SafetyVerdict.CLEAN: 'CLEAN'>
    """
    every = tuple(parts)
    final = {p.declared_safety for p in every if p.has_ended and p.declared_safety is not None}
    declared = final or {p.declared_safety for p in every if p.declared_safety is not None}
    starts = [part.start_time for part in every if part.start_time is not None]
    ends = [part.end_time for part in every if part.end_time is not None]
    whole = Trajectory(
        llm_calls=tuple(call for part in every for call in part.llm_calls),
        tool_calls=tuple(call for part in every for call in part.tool_calls),
        guardrail_events=tuple(event for part in every for event in part.guardrail_events),
        approvals=tuple(approval for part in every for approval in part.approvals),
        assertions=tuple(assertion for part in every for assertion in part.assertions),
        terminated=any(part.terminated for part in every),
        truncated=any(part.truncated for part in every),
        start_time=min(starts, default=None),
        end_time=max(ends, default=None),
    )
    severity = [SafetyVerdict.TRIPPED, SafetyVerdict.ABSENT, SafetyVerdict.CLEAN]
    return replace(whole, declared_safety=next((verdict for verdict in severity if verdict in declared), None))
