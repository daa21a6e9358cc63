"""Count what was served beside the baseline lately, for the caps on it: decisions by the minute, cost by the hour.

Both windows are trailing: an hour of minutes, a day of hours. A slot counts until its last moment has left the window,
so that a window holds what happened within it and up to one slot more, never less.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from kedge_bandit.domain.policy import Exploration

MINUTE: Final = 60
HOUR: Final = 3_600
DAY: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one policy served beside its baseline.

    Attributes:
        baseline: action key that is not counted.
        decisions: (minute, number) in order; minutes since 1970, UTC.
        cost: (hour, US dollars) in order; hours since 1970, UTC.
    """

    baseline: str
    decisions: tuple[tuple[int, int], ...] = ()
    cost: tuple[tuple[int, float], ...] = ()

    def plus(self, decisions: Iterable[float], cost: Iterable[tuple[float, float]] = ()) -> "Usage":
        """Add decisions, by their times in seconds, and costs as pairs of such a time and US dollars."""
        numbers, dollars = Counter(dict(self.decisions)), defaultdict(float, self.cost)
        for time in decisions:
            numbers[int(time // MINUTE)] += 1
        for time, usd in cost:
            dollars[int(time // HOUR)] += usd
        return replace(self, decisions=tuple(sorted(numbers.items())), cost=tuple(sorted(dollars.items())))

    def at(self, now: float) -> "Usage":
        """Leave out what has left the windows at a time in seconds, so that at most 61 minutes and 25 hours are kept.

        >>> Usage(baseline="a").plus([30.0, 90.0]).at(HOUR + 60.0).decisions
        ((1, 1),)
        """
        return replace(
            self,
            decisions=tuple(slot for slot in self.decisions if _leaves(slot[0], MINUTE, HOUR) > now),
            cost=tuple(slot for slot in self.cost if _leaves(slot[0], HOUR, DAY) > now),
        )

    @property
    def decided(self) -> int:
        """Decisions in all slots."""
        return sum(number for _, number in self.decisions)

    @property
    def cost_usd(self) -> float:
        """US dollars in all slots."""
        return math.fsum(usd for _, usd in self.cost)

    def capped_until(self, exploration: Exploration) -> float | None:
        """Say when enough will have left the windows if nothing comes, in seconds; None where no cap is reached.

        >>> usage = Usage(baseline="a").plus([30.0, 40.0, 90.0])
        >>> usage.capped_until(Exploration(max_non_baseline_decisions_per_hour=2))
        3660.0
        """
        ends = []
        left = self.decided
        for minute, number in self.decisions:
            if is_capped(exploration, decisions=left, cost_usd=0.0):
                ends.append(_leaves(minute, MINUTE, HOUR))
                left -= number
        for place, (hour, _) in enumerate(self.cost):
            if is_capped(exploration, decisions=0, cost_usd=math.fsum(usd for _, usd in self.cost[place:])):
                ends.append(_leaves(hour, HOUR, DAY))
        return max(ends, default=None)


def is_capped(exploration: Exploration, *, decisions: int, cost_usd: float) -> bool:
    """Say whether a cap is reached: by so many decisions beside the baseline in the hour, or by their cost in the day.

    >>> is_capped(Exploration(max_non_baseline_cost_usd_per_day=5.0), decisions=10**6, cost_usd=4.99)
    False
    """
    most, dearest = exploration.max_non_baseline_decisions_per_hour, exploration.max_non_baseline_cost_usd_per_day
    return (0 < most <= decisions) or (0.0 < dearest <= cost_usd)


def _leaves(slot: int, length: int, window: int) -> float:
    """Give the second at which the last moment of a slot has left the window."""
    return float((slot + 1) * length + window)
