"""When the reward lift of what was learned is compared with its lift on the holdout, and how strictly."""

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from kedge_bandit.domain.divergence import LEAST_CASES, LEAST_EPISODES, SAME_VERIFIER, USUAL, Rule
from kedge_bandit.domain.errors import InvalidPolicy

LEAST_INTERVAL: Final = timedelta(seconds=1)
MOST_INTERVAL: Final = timedelta(days=7)
MOST_EPISODES: Final = 100_000
LOOKS: Final = 24
"""Times in an interval that the gate looks whether a check is due; no two checks come closer."""
BLIND_AFTER: Final = 2
"""Intervals without a check that succeeded, after which the floor goes back to its first stage."""
OBSERVE_AFTER: Final = 4
"""Intervals after which the policy observes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceSpec:
    """What a person chooses of the divergence alarm.

    Attributes:
        interval: policy time from one check to the next.
        episodes: settled on either side, after which a check is made sooner.
        same_verifier: one verifier scores both online quality and the holdout, which then has to show all of the lift.
        max_cases: of a check; 0: half of the sensor part.
        max_cost_usd_per_day: once the checks of a day cost so much, the next one fails; 0: no limit.

    Raises:
        InvalidPolicy: on construction, with what to change.
    """

    interval: timedelta = timedelta(days=1)
    episodes: int = 300
    same_verifier: bool = False
    max_cases: int = 0
    max_cost_usd_per_day: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what could not be watched by."""
        if not LEAST_INTERVAL <= self.interval <= MOST_INTERVAL:
            raise InvalidPolicy("divergence.interval: use 1 second to 7 days")
        if not LEAST_EPISODES <= self.episodes <= MOST_EPISODES:
            raise InvalidPolicy(f"divergence.episodes: use {LEAST_EPISODES} to {MOST_EPISODES:,}, or 0 for 300")
        if self.max_cases != 0 and self.max_cases < LEAST_CASES:
            raise InvalidPolicy(f"divergence.max_cases: use {LEAST_CASES} or more, or 0 for half of the sensor part")
        if not 0 <= self.max_cost_usd_per_day < math.inf:
            raise InvalidPolicy("divergence.max_cost_usd_per_day: use US dollars above 0, or 0 for no limit")

    @property
    def rule(self) -> Rule:
        """How much of a reward lift the holdout has to show."""
        return SAME_VERIFIER if self.same_verifier else USUAL

    @property
    def pause(self) -> timedelta:
        """Time from one look of the gate to the next."""
        return self.interval / LOOKS

    def cases(self, pool: int) -> int:
        """Count the cases of a check that draws from a pool.

        >>> DivergenceSpec().cases(600), DivergenceSpec(max_cases=50).cases(600), DivergenceSpec().cases(31)
        (300, 50, 16)
        """
        half = (pool + 1) // 2
        return min(half, self.max_cases) if self.max_cases else half

    def is_weaker_than(self, other: "DivergenceSpec") -> bool:
        """Say whether something would be noticed later, or not at all.

        >>> DivergenceSpec(interval=timedelta(days=2)).is_weaker_than(DivergenceSpec())
        True
        """
        limits = zip(
            (self.max_cases, self.max_cost_usd_per_day), (other.max_cases, other.max_cost_usd_per_day), strict=True
        )
        return (
            self.interval > other.interval
            or self.episodes > other.episodes
            or other.same_verifier > self.same_verifier
            or any(mine > 0 and (their == 0 or mine < their) for mine, their in limits)
        )
