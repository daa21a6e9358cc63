"""Fix what the signals of an episode are worth, and refuse a spec in which the judge outweighs what can be verified."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kedge_bandit.domain.errors import RewardSpecInvalid

HIGH_JUDGE_SHARE: Final = 1.0 / 3.0
"""Judge's share of the quality weights above which a spec is accepted with a warning."""
_MAX_JUDGE_SHARE: Final = 0.5
_ROUNDING: Final = 1e-9


class SafetySource(StrEnum):
    """Say where the safety verdict comes from; NONE is a tenant that has no guardrails and says so."""

    GUARDRAILS = "GUARDRAILS"
    NONE = "NONE"


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardSpec:
    """Fix what an episode's signals are worth; a change is a new version and scores old episodes again.

    The defaults are those of the reward design, where their masks and flatterers were simulated.

    Attributes:
        cost_reference_usd: US dollars an episode at which the cost signal is 1, positive.
        latency_reference_ms: milliseconds an episode at which the latency signal is 1, positive.
        weight_human, weight_judge, weight_task_success, weight_cost, weight_latency: each in [0, 1].
        judge_floor, judge_ceiling: the judge's score is clipped to them.
        judge_knee: above it the judge's score counts a third.
        missing_cost, missing_latency: the signal assumed when none arrives, in [0, 1].
        edit_accept: normalised edit distance up to which an edited answer counts +1.
        edit_neutral: up to which it counts 0, beyond it −1.
        safety_source: whether an episode needs a safety verdict to be learned from.
        version: at least 1.

    Raises:
        RewardSpecInvalid: a number is out of range, the quality weights exceed 1, or the judge outweighs what can be
            verified.

    >>> RewardSpec(cost_reference_usd=0.01, latency_reference_ms=2000.0).judge_share_is_high
    False
    """

    cost_reference_usd: float
    latency_reference_ms: float
    weight_human: float = 0.40
    weight_judge: float = 0.25
    weight_task_success: float = 0.25
    weight_cost: float = 0.05
    weight_latency: float = 0.05
    judge_floor: float = 0.05
    judge_ceiling: float = 0.95
    judge_knee: float = 0.70
    missing_cost: float = 0.3
    missing_latency: float = 0.3
    edit_accept: float = 0.10
    edit_neutral: float = 0.40
    safety_source: SafetySource = SafetySource.GUARDRAILS
    version: int = 1

    def __post_init__(self) -> None:
        for rule, holds, found in self._rules():
            if not holds:
                raise RewardSpecInvalid(rule=rule, found=found)

    @property
    def quality_weight(self) -> float:
        """W, the weight of HUMAN, JUDGE and TASK_SUCCESS together."""
        return self.weight_human + self.weight_judge + self.weight_task_success

    @property
    def judge_share(self) -> float:
        """σ, the judge's share of the quality weight, in [0, 1/2]."""
        return self.weight_judge / self.quality_weight

    @property
    def judge_share_is_high(self) -> bool:
        """Say whether the spec deserves a warning: the judge has more than a third of the quality weight."""
        return self.judge_share > HIGH_JUDGE_SHARE + _ROUNDING

    def _rules(self) -> Iterator[tuple[str, bool, str]]:
        """Yield each rule, whether it holds, and what was found; later rules may rely on earlier ones."""
        for name, share in (
            ("weight_human", self.weight_human),
            ("weight_judge", self.weight_judge),
            ("weight_task_success", self.weight_task_success),
            ("weight_cost", self.weight_cost),
            ("weight_latency", self.weight_latency),
            ("missing_cost", self.missing_cost),
            ("missing_latency", self.missing_latency),
        ):
            yield f"{name} must be in [0, 1]", 0.0 <= share <= 1.0, repr(share)
        for name, reference in (
            ("cost_reference_usd", self.cost_reference_usd),
            ("latency_reference_ms", self.latency_reference_ms),
        ):
            yield f"{name} must be positive and finite", 0.0 < reference < math.inf, repr(reference)
        judge = (self.judge_floor, self.judge_knee, self.judge_ceiling)
        yield (
            "0 <= judge_floor <= judge_knee <= judge_ceiling <= 1, floor < ceiling",
            0.0 <= judge[0] <= judge[1] <= judge[2] <= 1.0 and judge[0] < judge[2],
            repr(judge),
        )
        edits = (self.edit_accept, self.edit_neutral)
        yield "0 <= edit_accept <= edit_neutral <= 1", 0.0 <= edits[0] <= edits[1] <= 1.0, repr(edits)
        yield "version must be at least 1", self.version >= 1, repr(self.version)
        total = self.quality_weight
        yield "human + judge + task_success weights must be in (0, 1]", 0.0 < total <= 1.0 + _ROUNDING, repr(total)
        verifiable = self.weight_human + self.weight_task_success
        yield (
            "human + task_success weights must be at least the judge's",
            verifiable >= self.weight_judge - _ROUNDING,
            f"{verifiable!r} against {self.weight_judge!r}",
        )
        yield (
            "the judge's share must be at most 1/2",
            self.judge_share <= _MAX_JUDGE_SHARE + _ROUNDING,
            repr(self.judge_share),
        )
