"""One divergence check as it is kept: what was measured on either side, and what every detector made of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from kedge_bandit.domain.divergence import Lift, Reading
from kedge_bandit.domain.identifiers import PolicyName


class Outcome(StrEnum):
    """What a check came to: compared, too few episodes to compare with the holdout, or no answers from it."""

    COMPARED = "COMPARED"
    TOO_FEW = "TOO_FEW"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineSide:
    """What settled since the check before.

    Attributes:
        lift: quality of the learned part less the baseline's; None where one side has too few episodes.
        through: place in the evidence log up to which it was read.
    """

    learned_episodes: int
    baseline_episodes: int
    through: int
    lift: Lift | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldoutSide:
    """What was asked of the holdout.

    Attributes:
        pool: cases of the sensor part; cases: those drawn; answers: fetched for them.
        lift: None where not every case was answered by both.
        spread: standard deviation of the paired differences.
    """

    version: str
    pool: int
    cases: int
    answers: int
    cost_usd: float
    lift: Lift | None = None
    spread: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceCheck:
    """One check.

    Attributes:
        number: within its tenant; 0 until it is stored.
        policy_time: at its end, seconds.
        because: why it failed; empty where it did not.
        actor: who asked for it, "kedge" where its time had come.
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
