"""Decide what becomes of a ramp after a look, and which floors a person may set by hand."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Final

from kedge_bandit.domain.audit import Fact
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.errors import IllegalTransition, KedgeError
from kedge_bandit.domain.ramp import (
    LEAST_SETTLED,
    Judged,
    Looked,
    Move,
    Origin,
    Ramp,
    RampKind,
    RampState,
    Stage,
    moved_event,
)
from kedge_bandit.domain.ramp_metrics import Metric, MetricRole

LEAST_FLOOR: Final = 0.05
_SAME: Final = 1e-9


class FloorNotApproved(KedgeError):
    """Refuse a floor below what the stages of the policy allow; the one in force stays."""

    reason: ClassVar[str] = "PROPOSAL_REQUIRED"

    def __init__(self, policy: str, floor: float, permitted: float) -> None:
        super().__init__(
            f"floor {floor:g} of policy {policy!r} is below {permitted:g}, the lowest that its ramp has reached: wait "
            "for the automatic step to .5, or submit a proposal of kind FLOOR_STAGE; a higher floor is always allowed."
        )
        self.policy = policy
        self.floor = floor
        self.permitted = permitted


class Step(StrEnum):
    """What the service does with a ramp after a look."""

    STAY = "STAY"
    ADVANCE = "ADVANCE"
    PAUSE = "PAUSE"
    ROLL_BACK = "ROLL_BACK"
    COMPLETE = "COMPLETE"


@dataclass(frozen=True, slots=True)
class Due:
    """A step with its reason in a sentence, and the metric that was breached."""

    step: Step
    because: str = ""
    breach: Metric | None = None


def due_of(ramp: Ramp, judged: Judged, looked: Looked) -> Due:
    """Choose the step: a breached guardrail before all else, then a signal, then holds, then the next stage.

    >>> from kedge_bandit.domain.ramp import begin_floor
    >>> ramp = begin_floor("support", 0.8, datetime(2026, 1, 1))
    >>> due_of(ramp, Judged((), (), ("2,000 settled episodes",)), Looked(now=datetime(2026, 1, 2))).step
    <Step.STAY: 'STAY'>
    """
    guardrail = judged.breached(MetricRole.GUARDRAIL)
    if guardrail is not None and ramp.at > 0:
        return Due(Step.ROLL_BACK, f"guardrail {guardrail.name}: {guardrail.rule}", guardrail)
    if ramp.state is not RampState.RUNNING:
        return Due(Step.STAY)
    breach = guardrail or judged.breached(MetricRole.SIGNAL)
    if breach is not None:
        return Due(Step.PAUSE, f"{breach.role.lower()} {breach.name}: {breach.rule}", breach)
    if judged.holds:
        return Due(Step.STAY)
    if ramp.next is None:
        episodes = looked.compared.learned.episodes + looked.compared.baseline.episodes
        if episodes >= LEAST_SETTLED:
            return Due(Step.COMPLETE, f"{LEAST_SETTLED:,} episodes have settled at the last stage without a breach")
        return Due(Step.STAY)
    if judged.waits_for:
        return Due(Step.STAY)
    return Due(Step.ADVANCE, _because(ramp, looked))


def _because(ramp: Ramp, looked: Looked) -> str:
    if ramp.kind is RampKind.ARM_CAP:
        return "the online lift over the baseline is surely above 0, and no guardrail is breached"
    return (
        f"{looked.settled:,} episodes have settled, {looked.learned:,} of them on the learned side; "
        f"P(veto rate over its cap) is {looked.learned_over_cap:.2g}, and no incident is open"
    )


def check_floor(ramp: Ramp, floor: float) -> None:
    """Refuse a floor that the stages do not allow by hand.

    >>> from kedge_bandit.domain.ramp import begin_floor
    >>> check_floor(begin_floor("support", 0.8, datetime(2026, 1, 1)), 0.9)

    Raises:
        FloorNotApproved: it is lower than the lowest stage that was reached.
    """
    if floor < ramp.permitted - _SAME:
        raise FloorNotApproved(ramp.policy, floor, ramp.permitted)


def moved_by_hand(ramp: Ramp, value: float, at: datetime) -> Ramp:
    """Follow a floor or a cap that somebody set: the ramp stands there until a person lets it go on.

    >>> from kedge_bandit.domain.ramp import begin_floor
    >>> ramp = moved_by_hand(begin_floor("support", 0.8, datetime(2026, 1, 1)), 0.9, datetime(2026, 1, 2))
    >>> [stage.value for stage in ramp.stages], ramp.at, ramp.state.value, ramp.permitted
    ([0.9, 0.8, 0.5], 0, 'PAUSED', 0.8)
    """
    stages = _with_stage(ramp, Stage(value, Origin.START))
    values = [stage.value for stage in stages]
    place, what = _place(values, value), "cap" if ramp.arm_id else "floor"
    return replace(
        ramp,
        stages=stages,
        at=place,
        reached=max(place, _place(values, ramp.permitted)),
        since=at,
        state=RampState.PAUSED,
        why=f"the {what} was set to {value:g} by hand",
    )


def reverted(ramp: Ramp, value: float, at: datetime) -> Ramp:
    """Follow a floor that came back because its proposal was reverted: lower ones are to be approved again.

    >>> from kedge_bandit.domain.ramp import begin_floor
    >>> ramp = reverted(begin_floor("support", 0.2, datetime(2026, 1, 1)), 0.5, datetime(2026, 1, 2))
    >>> ramp.stage.value, ramp.permitted, ramp.next
    (0.5, 0.5, None)
    """
    moved = moved_by_hand(ramp, value, at)
    kept = moved.stages[: moved.at + 1]
    return replace(moved, stages=kept, reached=moved.at, why=f"the proposal below {value:g} was reverted")


def back_to_first(ramp: Ramp, change: Change) -> Move:
    """Take a floor back to its first stage because nobody can see what lies below: only an approval leads on.

    Raises:
        IllegalTransition: it is there already.
    """
    if ramp.at == 0:
        raise IllegalTransition("the ramp is at its first stage")
    moved = replace(
        ramp,
        stages=ramp.stages[:1],
        at=0,
        reached=0,
        since=change.at,
        state=RampState.ROLLED_BACK,
        why=change.because,
    )
    return moved, moved_event(moved, change, "ramp.rolled_back", {"before": ramp.stage.value})


def approve_floor(ramp: Ramp, floor: float, proposal: str, change: Change) -> Move:
    """Take the floor to a stage that a second person approved; a breach there goes back to the one before.

    Raises:
        IllegalTransition: the floor is not in [.05, 1), or not below the one in force.
    """
    if not LEAST_FLOOR <= floor < ramp.stage.value - _SAME:
        raise IllegalTransition(
            f"floor {floor:g} is no stage after {ramp.stage.value:g}: propose one from {LEAST_FLOOR:g} to below it"
        )
    kept = tuple(stage for stage in ramp.stages if stage.value > floor + _SAME)
    stages = (*kept[: ramp.at + 1], Stage(floor, Origin.APPROVED, proposal))
    at = len(stages) - 1
    moved = replace(ramp, stages=stages, at=at, reached=at, since=change.at, state=RampState.RUNNING, why="")
    facts: dict[str, Fact] = {
        "before": ramp.stage.value,
        "origin": Origin.APPROVED.value,
        "proposal": proposal,
    }
    return moved, moved_event(moved, change, "ramp.advanced", facts)


def _with_stage(ramp: Ramp, stage: Stage) -> tuple[Stage, ...]:
    if any(abs(known.value - stage.value) <= _SAME for known in ramp.stages):
        return ramp.stages
    falls = ramp.kind is RampKind.FLOOR
    return tuple(sorted((*ramp.stages, stage), key=lambda known: known.value, reverse=falls))


def _place(values: Sequence[float], value: float) -> int:
    return min(range(len(values)), key=lambda i: abs(values[i] - value))
