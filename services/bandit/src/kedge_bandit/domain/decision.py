"""A decision: the chosen action with everything needed to learn from it and to replay it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from kedge_bandit.domain.context import Context
from kedge_bandit.domain.identifiers import DecisionId, EpisodeId, PolicyName, TenantId
from kedge_bandit.domain.mode import Mode


class Reason(StrEnum):
    """Why an action was served."""

    DRAWN = "DRAWN"
    FROZEN = "FROZEN"
    BYPASS = "BYPASS"
    OBSERVE = "OBSERVE"
    STALE = "STALE"
    ERROR = "ERROR"
    BUDGET = "BUDGET"
    BASELINE_UNAVAILABLE = "BASELINE_UNAVAILABLE"
    PINNED = "PINNED"
    NO_EXPLORATION = "NO_EXPLORATION"
    TOOL_LOOP = "TOOL_LOOP"
    BEST_ACTION = "BEST_ACTION"
    CAP = "CAP"
    OVER_QUOTA = "OVER_QUOTA"


class SetAside(StrEnum):
    """Why a decision that a client made and reported is stored but not learned from."""

    OUTDATED = "OUTDATED"
    LATE = "LATE"
    FROZEN = "FROZEN"
    BYPASS = "BYPASS"


LEARNABLE = frozenset({Reason.DRAWN, Reason.BUDGET, Reason.CAP, Reason.OBSERVE})
"""Reasons under which an episode is evidence: the served action was chosen by the policy itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One choice.

    Attributes:
        context: None when rebuilt from its token, which carries a digest only.
        available: action keys the caller could serve; None: all.
        action: key of the decided action.
        propensity: probability with which the allocation (narrowed to `available`) chose it, in (0, 1].
        shadow_action: what would have been drawn, in OBSERVE.
        is_local: a client made it in its own process and reported it.
        set_aside: why such a one is not learned from; None where it is.
    """

    decision_id: DecisionId
    tenant: TenantId
    policy: PolicyName
    episode_id: EpisodeId
    request_id: str
    time: datetime
    context: Context | None
    bucket: str
    available: tuple[str, ...] | None
    action: str
    propensity: float
    policy_version: int
    allocation_version: int
    seed_epoch: int
    mode: Mode
    reason: Reason
    is_randomised: bool
    judge_requested: bool
    judge_rate: float
    shadow_action: str | None = None
    superseded: bool = False
    is_local: bool = False
    set_aside: SetAside | None = None
