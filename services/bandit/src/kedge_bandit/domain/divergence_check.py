"""One divergence check as it is kept: what was measured on either side, and what every detector made of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from kedge_bandit.domain.divergence import Lift, Reading, lift_between
from kedge_bandit.domain.divergence_spec import BLIND_AFTER, OBSERVE_AFTER, DivergenceSpec
from kedge_bandit.domain.identifiers import PolicyName
from kedge_bandit.domain.ramp_metrics import Moments


class Outcome(StrEnum):
    """What a check came to: compared, too few episodes to compare with the holdout, or no answers from it."""

    COMPARED = "COMPARED"
    TOO_FEW = "TOO_FEW"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineSide:
    """What settled since the check before.

    Attributes:
        through: place in the evidence log up to which it was read.
        measured: sums of what is compared, by name, on the learned side and the baseline's; kept by no check.
    """

    learned_episodes: int
    baseline_episodes: int
    through: int
    measured: Mapping[str, tuple[Moments, Moments]] = field(default_factory=dict)

    def lift(self, name: str) -> Lift | None:
        """Compare both sides; None where one has too few episodes."""
        return lift_between(*self.measured[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldoutSide:
    """What was asked of the holdout.

    Attributes:
        pool: cases of the sensor part; cases: those drawn; answers: fetched for them.
        lift: None where not every case was answered by both.
        spread: standard deviation of the lift between cases, see `case_effects`.
        judged: what the pairwise judge gave the learned answer to each case with a rubric, in [0, 1], sorted.
    """

    version: str
    pool: int
    cases: int
    answers: int
    cost_usd: float
    lift: Lift | None = None
    spread: float = 0.0
    judged: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceCheck:
    """One check.

    Attributes:
        number: within its tenant; 0 until it is stored.
        policy_time: at its end, seconds.
        because: why it failed; empty where it did not.
        actor: who asked for it, "kedge" where its time had come.
        reward: quality of the learned part less the baseline's; None where one side has too few episodes.
        readings: by detector; those of the check before where nothing was compared.
        incident: number of the incident that it opened; 0: none.
    """

    number: int = 0
    policy: PolicyName
    begin_time: datetime
    check_time: datetime
    policy_time: float
    outcome: Outcome
    because: str = ""
    actor: str
    reward: Lift | None = None
    online: OnlineSide
    holdout: HoldoutSide
    readings: Mapping[str, Reading] = field(default_factory=dict)
    incident: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """That a policy is checked.

    Attributes:
        since: when it had sensor cases and somebody who answers them first.
        due: when the gate looks next.
        asked_by: who wants a check at once; empty: nobody.
        lease_until: until when a check is being made.
        blind: 0; 1: for so long no check succeeded that the floor went back to its first stage; 2: to OBSERVE.
    """

    policy: PolicyName
    since: datetime
    due: datetime
    asked_by: str = ""
    lease_until: datetime | None = None
    blind: int = 0


def is_due(spec: DivergenceSpec, watch: Watch, elapsed: float, online: OnlineSide) -> bool:
    """Say whether a check is to be made now.

    Args:
        elapsed: policy time since one succeeded, seconds.
    """
    enough = min(online.learned_episodes, online.baseline_episodes) >= spec.episodes
    return bool(watch.asked_by) or elapsed >= spec.interval.total_seconds() or enough


def blindness(spec: DivergenceSpec, elapsed: float) -> int:
    """Say how blind a policy is: 1 after two intervals of policy time without a check that succeeded, 2 after four.

    >>> [blindness(DivergenceSpec(), days * 86_400.0) for days in (1.9, 2, 4)]
    [0, 1, 2]
    """
    intervals = elapsed / spec.interval.total_seconds()
    return (intervals >= BLIND_AFTER) + (intervals >= OBSERVE_AFTER)


def told(check: DivergenceCheck, reading: Reading) -> str:
    """Say what tripped, in a sentence."""
    lifts = [
        f"{what} {lift.value:+.3f} (standard error {lift.error:.3f})"
        for what, lift in (("reward lift", check.reward), ("holdout lift", check.holdout.lift))
        if lift is not None
    ]
    return (
        f"detector {reading.detector}: evidence {reading.reached}, value "
        f"{reading.value:+.3f} over a margin of {reading.margin:.3f}; {', '.join(lifts)}"
    )
