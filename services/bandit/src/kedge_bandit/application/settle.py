"""Settle: an episode's dossier becomes a state and, where there is something new to say, a row of evidence.

Whether a row is learned from is decided here, once, and stored with it; folding reads weights and nothing else. While a
policy is frozen or bypassed its belief must stay exactly as it is: what is new is kept in the dossier, the episode is
marked as quarantined, and a row is appended only if it changes no sum. While a policy is stopped from outside the
database, whose end nobody decides there, an episode that would move the belief is looked at again later.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from kedge_bandit.application.fold import PolicyFold, stopped_at
from kedge_bandit.application.learned import EpisodeFile
from kedge_bandit.domain.detectors import answer_tokens
from kedge_bandit.domain.dossier import Chosen, Event
from kedge_bandit.domain.episode import EpisodeState, Trajectory
from kedge_bandit.domain.evidence_log import EvidenceEntry, VerdictNote
from kedge_bandit.domain.policy import PolicySpec
from kedge_bandit.domain.reward import Reward, Verdict, Veto, contribution, lacks_safety_verdict
from kedge_bandit.domain.settlement import (
    EXPIRY,
    Arrival,
    Cancelled,
    Pending,
    Settled,
    episode_state,
    is_late,
    settle,
)

LOOK_AGAIN = timedelta(seconds=5)
"""How long an episode waits before it is looked at again while its policy is stopped from outside."""


class Stance(StrEnum):
    """What becomes of new evidence."""

    LEARN = "LEARN"
    QUARANTINE = "QUARANTINE"
    DROP = "DROP"


@dataclass(slots=True, kw_only=True)
class Task:
    """One episode to look at.

    Attributes:
        previous: its newest evidence.
        trigger_time: when what is new about it was received, or when it fell due.
        events: new ones, and where its decision is new, those that came before it.
        arrivals: new ones.
        is_released: a person released it from quarantine.
    """

    file: EpisodeFile
    trigger_time: datetime
    previous: EvidenceEntry | None = None
    events: list[Event] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)
    is_released: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What settling an episode came to; its file has been brought up to date.

    Attributes:
        entry: evidence to append (its sequence is still 0); None where nothing new is to be said.
        late: how many of the new outcomes came too late.
        lacks_safety: for a learnable episode settled for the first time: whether its safety verdict is missing.
    """

    entry: EvidenceEntry | None = None
    late: int = 0
    lacks_safety: bool | None = None


def rule(task: Task, fold: PolicyFold, *, now: datetime) -> Ruling:
    """Settle one episode by all that is known of it.

    Args:
        task: the episode; its file's state, due time and quarantine mark are set.
        fold: of its policy; not changed here.
        now: the store's clock.
    """
    file, spec = task.file, fold.policy.spec
    chosen = file.dossier.chosen
    if chosen is None:
        _without_decision(file, spec, now)
        return Ruling()
    facts = file.dossier.facts(spec.settlement, decision_time=chosen.time)
    late = sum(is_late(arrival, facts) for arrival in task.arrivals)
    settlement = settle(facts, spec.reward, now=now)
    if isinstance(settlement, Pending):
        file.due_time = settlement.due_time
        return Ruling(late=late)
    if fold.is_put_off and not fold.mode.stops_time and _would_move(task, chosen, settlement, fold):
        file.due_time = now + LOOK_AGAIN
        return Ruling(late=late)
    is_first = file.state is EpisodeState.PENDING
    file.due_time = None
    file.state = episode_state(settlement)
    if isinstance(settlement, Cancelled) and task.previous is None:
        return Ruling(late=late)
    if isinstance(settlement, Settled) and isinstance(settlement.verdict, Veto) and not fold.mode.stops_time:
        file.dossier = replace(file.dossier, dropped=False)  # nothing that a person chose lifts a veto
    draft = _draft(task, chosen, settlement, fold)
    lacks = None
    if is_first and isinstance(settlement, Settled) and file.dossier.objection(fold.live) is None:
        lacks = lacks_safety_verdict(settlement.verdict.signals, spec.reward)
    return Ruling(entry=_admitted(task, draft, fold), late=late, lacks_safety=lacks)


def stance(task: Task, fold: PolicyFold) -> Stance:
    """Say what becomes of new evidence: it follows the mode now and the mode at the time it was received."""
    if fold.mode.stops_time:
        return Stance.QUARANTINE
    if task.is_released:
        return Stance.LEARN
    if task.file.quarantined:
        return Stance.QUARANTINE
    if not stopped_at(fold.clock, task.trigger_time):
        return Stance.LEARN
    after = [release for release in fold.releases if release.time >= task.trigger_time]
    choice = min(after, key=lambda release: (release.time, release.release_id)).choice if after else "KEEP"
    return {"REPLAY": Stance.LEARN, "DROP": Stance.DROP}.get(choice, Stance.QUARANTINE)


def _without_decision(file: EpisodeFile, spec: PolicySpec, now: datetime) -> None:
    """Wait for the decision until expiry; then name the state that the facts alone allow."""
    due = file.open_time + EXPIRY
    if now < due:
        file.due_time = due
        return
    file.due_time = None
    facts = file.dossier.facts(spec.settlement, decision_time=file.open_time)
    found = settle(facts, spec.reward, now=now)
    state = episode_state(found)
    file.state = state if state in (EpisodeState.CANCELLED, EpisodeState.VETOED) else EpisodeState.UNSCORED


def _would_move(task: Task, chosen: Chosen, settlement: Settled | Cancelled, fold: PolicyFold) -> bool:
    """Say whether settling now would move the belief."""
    before = task.previous is not None and task.previous.moves_belief
    return before or _draft(task, chosen, settlement, fold).moves_belief


def _admitted(task: Task, draft: EvidenceEntry, fold: PolicyFold) -> EvidenceEntry | None:
    """Hold back what must not move the belief, and what says nothing new."""
    file, previous = task.file, task.previous
    is_overriding = draft.vetoed and not fold.mode.stops_time
    if file.dossier.dropped and previous is not None and previous.moves_belief and not is_overriding:
        file.quarantined = False
        return None
    if previous is not None and draft.says_the_same_as(previous):
        file.quarantined = file.quarantined and not task.is_released
        return None
    moves = draft.moves_belief or (previous is not None and previous.moves_belief)
    found = stance(task, fold) if moves and not is_overriding else Stance.LEARN
    if found is Stance.LEARN:
        file.quarantined = False
        return draft
    reason = "QUARANTINED"
    if found is Stance.DROP:
        file.dossier = replace(file.dossier, dropped=True)
        reason = "DROPPED"
    file.quarantined = found is Stance.QUARANTINE
    if previous is not None and previous.moves_belief:
        return None
    held = replace(draft, weight=0.0, veto_weight=0.0, weight_reason=reason)
    return None if previous is not None and held.says_the_same_as(previous) else held


def _draft(task: Task, chosen: Chosen, settlement: Settled | Cancelled, fold: PolicyFold) -> EvidenceEntry:
    """Write down the verdict as evidence of the decided action, with its weight."""
    previous, dossier, spec = task.previous, task.file.dossier, fold.policy.spec
    objection = dossier.objection(fold.live)
    weight, reward, vetoed, counts = 0.0, None, False, False
    if isinstance(settlement, Cancelled):
        reason: str | None = objection or "CANCELLED"
        note = VerdictNote(spec.reward.version, "", (), {}, {})
    else:
        verdict = settlement.verdict
        share = contribution(verdict)
        if share is not None:
            weight, reward, vetoed = share.weight, share.reward, share.vetoed
        reason = objection
        if reason is None and weight == 0:
            reason = verdict.weight_reason.value if isinstance(verdict, Reward) else "UNSCORED"
        counts = not lacks_safety_verdict(verdict.signals, spec.reward)
        note = note_of(verdict, dossier.trajectory)
    return EvidenceEntry(
        sequence=0,
        settle_time=settlement.settle_time if isinstance(settlement, Settled) else task.trigger_time,
        policy=task.file.key.policy,
        bucket=chosen.bucket,
        action=chosen.action,
        episode_id=task.file.key.episode_id,
        decision_id=chosen.decision_id,
        reward_version=(previous.reward_version if previous else 0) + 1,
        policy_version=chosen.policy_version,
        decision_time=chosen.time,
        policy_time=previous.policy_time if previous else fold.clock.at(chosen.time),
        weight=0.0 if objection else weight,
        weight_reason=reason,
        reward=reward,
        vetoed=vetoed,
        veto_weight=1.0 if counts and objection is None else 0.0,
        verdict=note,
    )


def note_of(verdict: Verdict, trajectory: Trajectory | None) -> VerdictNote:
    """Keep what the verdict rests on, and how long the answer was, which earns nothing but is watched."""
    signals = verdict.signals
    measured = {
        "human": signals.human,
        "judge": signals.judge,
        "task_success": signals.task_success,
        "cost_usd": signals.cost_usd,
        "latency_ms": signals.latency_ms,
        "answer_tokens": None if trajectory is None else answer_tokens(trajectory),
    }
    parts: dict[str, float | None] = {}
    if isinstance(verdict, Reward):
        parts = {
            "quality": verdict.quality,
            "verifiable_quality": verdict.verifiable_quality,
            "judge_credit": verdict.judge_credit,
            "cost": verdict.cost,
            "latency": verdict.latency,
            "raw": verdict.raw,
        }
    return VerdictNote(
        verdict.spec_version,
        signals.safety_verdict.value,
        tuple(reason.value for reason in signals.vetoes),
        {name: value for name, value in parts.items() if value is not None},
        {name: value for name, value in measured.items() if value is not None},
    )
