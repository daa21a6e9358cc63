"""Give traffic stage by stage: a floor goes down, an arm's cap goes up, and a breach takes it back.

A floor starts where the policy began. It may step to .5 by itself, once; what is lower, and every stage of a cap, was
approved. A guardrail's breach rolls back one stage, a signal's pauses, and a hold keeps the stage: the sample ratio is
off at p < .001, nothing settles, the policy does not serve what it learned, or an incident is open.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from kedge_bandit.domain.audit import AuditEvent, Fact
from kedge_bandit.domain.change import Change, subject_of
from kedge_bandit.domain.errors import IllegalTransition
from kedge_bandit.domain.identifiers import PolicyName
from kedge_bandit.domain.ramp_metrics import Compared, Metric, MetricRole, metrics_of, reward_lift

AUTOMATIC_FLOOR: Final = 0.5
"""Where the floor may step by itself; below it every stage is approved."""
LEAST_SETTLED: Final = 2000
LEAST_LEARNED: Final = 300
VETO_DOUBT: Final = 0.1
"""P(veto rate of the learned side > cap) from which on no stage is given."""
LEAST_RATIO_P: Final = 1e-3
SILENCE: Final = timedelta(days=1)
UNWATCHED: Final = "a holdout with somebody who answers it, so that a deception would be seen"


class RampKind(StrEnum):
    """What a ramp moves: the exploitation floor downwards, or the cap of one arm upwards."""

    FLOOR = "FLOOR"
    ARM_CAP = "ARM_CAP"


class RampState(StrEnum):
    """Whether a ramp goes on by itself."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    ROLLED_BACK = "ROLLED_BACK"
    ABORTED = "ABORTED"
    COMPLETE = "COMPLETE"


class Origin(StrEnum):
    """Who allowed a stage."""

    START = "START"
    AUTOMATIC = "AUTOMATIC"
    APPROVED = "APPROVED"


@dataclass(frozen=True, slots=True)
class Stage:
    """A floor or a cap, in [0, 1], with the proposal that it was approved by."""

    value: float
    origin: Origin
    proposal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ramp:
    """The stages of one floor or cap.

    Attributes:
        arm_id: whose cap; empty for the floor.
        stages: floors fall, caps rise.
        at: place of the stage in force.
        reached: the farthest stage that it may go to by hand; a roll back takes it along.
        since: when the stage in force began; what settles from then on is compared.
        why: it stands; empty while it runs.
    """

    policy: PolicyName
    kind: RampKind
    arm_id: str = ""
    state: RampState = RampState.RUNNING
    stages: tuple[Stage, ...]
    at: int = 0
    reached: int = 0
    since: datetime
    why: str = ""

    @property
    def stage(self) -> Stage:
        """The stage in force."""
        return self.stages[self.at]

    @property
    def next(self) -> Stage | None:
        """The stage after it."""
        return self.stages[self.at + 1] if self.at + 1 < len(self.stages) else None

    @property
    def permitted(self) -> float:
        """The lowest floor, or the highest cap, that may be set by hand."""
        return self.stages[self.reached].value


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What is known of a policy when its ramp is looked at.

    Attributes:
        settled, learned: episodes that settled in the present configuration, and those of them beside the baseline.
        learned_over_cap: P(veto rate of the learned side > cap), by the veto belief.
        compared: what settled at this stage.
        ratio_p: of the self-check: that the draws fit the published probabilities.
        last_settled: when an episode of the policy settled last.
        incidents: names of its open incidents.
        is_applied: it serves what it learned.
        is_watched: divergence checks are made, so that a deception would be seen.
    """

    now: datetime
    settled: int = 0
    learned: int = 0
    learned_over_cap: float = 0.0
    compared: Compared = Compared()
    ratio_p: float = 1.0
    last_settled: datetime | None = None
    incidents: tuple[str, ...] = ()
    is_applied: bool = True
    is_watched: bool = True


@dataclass(frozen=True, slots=True)
class Judged:
    """What a look found.

    Attributes:
        holds: sentences that say what keeps the stage.
        waits_for: sentences that say what the next one waits for.
        has_incident: one of the holds is an incident that is open.
    """

    metrics: tuple[Metric, ...]
    holds: tuple[str, ...]
    waits_for: tuple[str, ...]
    has_incident: bool = False

    def breached(self, role: MetricRole) -> Metric | None:
        """Give the first metric of a role that is breached."""
        return next((metric for metric in self.metrics if metric.role is role and metric.breached), None)


Move = tuple[Ramp, AuditEvent]


def begin_floor(policy: PolicyName, floor: float, since: datetime) -> Ramp:
    """Start where a policy's floor is; above .5 one automatic step lies ahead.

    >>> ramp = begin_floor(PolicyName("support"), 0.8, datetime(2026, 1, 1))
    >>> [stage.value for stage in ramp.stages], ramp.state.value
    ([0.8, 0.5], 'RUNNING')
    """
    stages: tuple[Stage, ...] = (Stage(floor, Origin.START),)
    if floor > AUTOMATIC_FLOOR:
        stages = (*stages, Stage(AUTOMATIC_FLOOR, Origin.AUTOMATIC))
    state = RampState.RUNNING if len(stages) > 1 else RampState.COMPLETE
    return Ramp(policy=policy, kind=RampKind.FLOOR, stages=stages, since=since, state=state)


def begin_cap(policy: PolicyName, arm_id: str, caps: tuple[float, ...], proposal: str, change: Change) -> Move:
    """Start an arm under its first cap; every stage was approved with it."""
    stages = tuple(Stage(cap, Origin.APPROVED, proposal) for cap in caps)
    state = RampState.RUNNING if len(stages) > 1 else RampState.COMPLETE
    ramp = Ramp(policy=policy, kind=RampKind.ARM_CAP, arm_id=arm_id, stages=stages, since=change.at, state=state)
    return ramp, moved_event(ramp, change, "ramp.begun", {"stages": ",".join(f"{cap:g}" for cap in caps)})


def judge(ramp: Ramp, looked: Looked) -> Judged:
    """Say how a stage does, what holds it and what the next one waits for."""
    holds, waits_for = _holds(ramp, looked), _waits_for(ramp, looked)
    return Judged(metrics_of(looked.compared), holds, waits_for, bool(looked.incidents))


def _holds(ramp: Ramp, looked: Looked) -> tuple[str, ...]:
    found: list[str] = []
    if not looked.is_applied:
        found.append("the policy does not serve what it learned: it is frozen, bypassed or observing")
    if looked.ratio_p < LEAST_RATIO_P:
        found.append(
            f"sample ratio: what was drawn does not fit the published probabilities (p = {looked.ratio_p:.1g})"
        )
    newest = max(looked.last_settled or ramp.since, ramp.since)
    if looked.now - newest > SILENCE:
        found.append(f"no traffic: no episode has settled since {newest:%Y-%m-%d %H:%M} UTC")
    found += [f"incident {name} is open" for name in looked.incidents]
    return tuple(found)


def _waits_for(ramp: Ramp, looked: Looked) -> tuple[str, ...]:
    """Say what the next stage waits for; the rules of the automatic step, of an approved floor and of a cap."""
    after = ramp.next
    if after is None:
        return ()
    found: list[str] = []
    if ramp.kind is RampKind.FLOOR and not looked.is_watched:
        found.append(f"{UNWATCHED}: import cases, and name who answers them")
    if after.origin is Origin.AUTOMATIC:
        found += _too_few(looked.settled, LEAST_SETTLED, "settled episodes")
        found += _too_few(looked.learned, LEAST_LEARNED, "settled episodes on the learned side")
    if ramp.kind is RampKind.ARM_CAP:
        found += _too_few(looked.compared.learned.episodes, LEAST_LEARNED, "settled episodes of the arm at this stage")
        lower, _ = reward_lift(looked.compared)
        if lower <= 0:
            found.append("an online lift over the baseline that is surely above 0")
    if looked.learned_over_cap >= VETO_DOUBT:
        found.append(f"P(veto rate over its cap) below {VETO_DOUBT:g}; it is {looked.learned_over_cap:.2g}")
    return tuple(found)


def _too_few(found: int, wanted: int, what: str) -> list[str]:
    return [] if found >= wanted else [f"{wanted:,} {what}; there are {found:,}"]


def advance(ramp: Ramp, change: Change, judged: Judged) -> Move:
    """Go to the next stage; a ramp that stands goes on, and takes the stage only if nothing is missing.

    Raises:
        IllegalTransition: an incident is open, a guardrail is breached, it is at its last stage, or it runs and the
            next stage is held or waits for something.
    """
    breach, stands = judged.breached(MetricRole.GUARDRAIL), ramp.state not in (RampState.RUNNING, RampState.COMPLETE)
    against = [*judged.holds, *([] if breach is None else [f"{breach.name} is breached: {breach.rule}"])]
    if against and (not stands or judged.has_incident or breach is not None):
        raise IllegalTransition(f"the ramp is held: {'; '.join(against)}. Mend that first.")
    after = ramp.next
    if after is not None and not judged.waits_for and not against:
        at = ramp.at + 1
        moved = replace(ramp, state=RampState.RUNNING, at=at, reached=max(ramp.reached, at), since=change.at, why="")
        facts: dict[str, Fact] = {
            "before": ramp.stage.value,
            "origin": after.origin.value,
            "proposal": after.proposal,
        }
        return moved, moved_event(moved, change, "ramp.advanced", facts)
    if not stands:
        if after is None:
            raise IllegalTransition("the ramp is at its last stage: propose the next one as FLOOR_STAGE or CONFIG")
        raise IllegalTransition(f"the next stage waits for {'; '.join(judged.waits_for)}")
    state = RampState.RUNNING if after is not None else RampState.COMPLETE
    resumed = replace(ramp, state=state, why="")
    return resumed, moved_event(resumed, change, "ramp.resumed", {"value": ramp.stage.value})


def pause(ramp: Ramp, change: Change) -> Move:
    """Keep a ramp at its stage. Raises IllegalTransition where it does not run."""
    if ramp.state is not RampState.RUNNING:
        raise IllegalTransition(f"the ramp is {ramp.state}: only one that runs can be paused")
    paused = replace(ramp, state=RampState.PAUSED, why=change.because)
    return paused, moved_event(paused, change, "ramp.paused", {"value": ramp.stage.value})


def roll_back(ramp: Ramp, change: Change, facts: Mapping[str, Fact]) -> Move:
    """Go back one stage and stay there. Raises IllegalTransition at the first one."""
    if ramp.at == 0:
        raise IllegalTransition("the ramp is at its first stage: freeze the policy, or retire the arm")
    moved = _back_to(ramp, ramp.at - 1, RampState.ROLLED_BACK, change)
    return moved, moved_event(moved, change, "ramp.rolled_back", {**facts, "before": ramp.stage.value})


def abort(ramp: Ramp, change: Change) -> Move:
    """Go back to the first stage and stay there. Raises IllegalTransition where it stands there aborted."""
    if ramp.state is RampState.ABORTED:
        raise IllegalTransition("the ramp is aborted already")
    moved = _back_to(ramp, 0, RampState.ABORTED, change)
    return moved, moved_event(moved, change, "ramp.aborted", {"before": ramp.stage.value})


def complete(ramp: Ramp, change: Change) -> Move:
    """Say that the last stage has proved itself."""
    moved = replace(ramp, state=RampState.COMPLETE, why="")
    return moved, moved_event(moved, change, "ramp.completed", {"value": ramp.stage.value})


def _back_to(ramp: Ramp, at: int, state: RampState, change: Change) -> Ramp:
    return replace(ramp, state=state, at=at, reached=at, since=change.at, why=change.because)


def moved_event(ramp: Ramp, change: Change, verb: str, facts: Mapping[str, Fact]) -> AuditEvent:
    """Write down a move of a ramp: which one, the stage in force, and what else is told."""
    about: dict[str, Fact] = {"kind": ramp.kind.value, "arm": ramp.arm_id, "value": ramp.stage.value}
    return change.event(verb, subject_of(change.tenant, ramp.policy), {**about, **facts})
