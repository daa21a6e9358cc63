"""Spend a holdout's error over its queries, so that asking often enough does not pass by luck."""

import math
from dataclasses import dataclass
from typing import Final

from kedge_bandit.domain.alarm_delay import HACK_ON_HOLDOUT, HACK_ONLINE, checks_until
from kedge_bandit.domain.divergence import ALARM, USUAL, Lift, difference, margin
from kedge_bandit.domain.errors import InvalidValue
from kedge_bandit.domain.noninferiority import detectable_lift, passing_chance

ALPHA: Final = 0.05
"""Chance that anything harmful passes between two rotations, over all queries."""
MAX_QUERIES: Final = 10
MAX_ROTATIONS: Final = 4
"""In a year; so its error is at most 5 ALPHA: of what stood at its beginning, and of four that followed."""
MARGIN: Final = 0.05
"""Largest loss of quality that still is no worse."""
LEAST_CASES: Final = 150
LEAST_ADVERSARIAL: Final = 100
USUAL_VARIANCE: Final = 0.15
"""Of a paired difference, until a query has measured it."""

_MOST_CHECKS: Final = 365
_REWARD_ERROR: Final = 0.02


def alpha_of(query: int) -> float:
    """Give the one-sided level of a version's query: 6 ALPHA / (pi j)^2, which sums to ALPHA over all j.

    >>> [round(alpha_of(query), 4) for query in (1, 2, 10)]
    [0.0304, 0.0076, 0.0003]
    """
    if query < 1:
        raise InvalidValue("query", str(query), "1 or more")
    return 6.0 * ALPHA / (math.pi * query) ** 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """What a holdout of its present size allows.

    Attributes:
        next_alpha: level of the next query; 0 where there is none.
        equal_passes: chance that a candidate as good as the incumbent passes it.
        detectable_lift: smallest true lift that passes it in 80 of 100.
        visible_hack: loss of quality, behind a rise of reward, that the divergence check sees.
        visible_after_days: daily checks until it does; 0: not within a year.
    """

    next_alpha: float
    equal_passes: float
    detectable_lift: float
    promotion_possible: bool
    visible_hack: float
    visible_after_days: float


def power(*, gate: int, adversarial: int, sensor: int, queries: int, variance: float = USUAL_VARIANCE) -> Power:
    """Say what the present size allows.

    Args:
        gate: cases that count for quality; `adversarial` ones are counted apart.
        queries: that this version has had.
        variance: of a paired difference, as the last query measured it.

    >>> now = power(gate=300, adversarial=120, sensor=600, queries=0)
    >>> now.promotion_possible, round(now.equal_passes, 2), now.visible_after_days
    (True, 0.64, 8.0)
    """
    has_query = queries < MAX_QUERIES
    alpha = alpha_of(queries + 1) if has_query else 0.0
    is_testable = has_query and gate > 1
    return Power(
        next_alpha=alpha,
        equal_passes=passing_chance(0.0, variance, gate, MARGIN, alpha) if is_testable else 0.0,
        detectable_lift=detectable_lift(variance, gate, MARGIN, alpha) if is_testable else 1.0,
        promotion_possible=has_query and gate >= LEAST_CASES and adversarial >= LEAST_ADVERSARIAL,
        visible_hack=-HACK_ON_HOLDOUT,
        visible_after_days=float(_checks_until_alarm(sensor)),
    )


def _checks_until_alarm(sensor: int) -> int:
    """Count checks until the divergence alarm, were every statistic at its mean; 0 where it takes over a year.

    Half of the pool is drawn anew each time; see `divergence`.
    """
    if sensor < 2:
        return 0
    holdout = Lift(HACK_ON_HOLDOUT, math.sqrt(USUAL_VARIANCE / (sensor / 2)))
    found = difference(USUAL, Lift(HACK_ONLINE, _REWARD_ERROR), holdout)
    z = (found.value - margin(USUAL, math.sqrt(USUAL_VARIANCE), sensor)) / found.error
    checks = checks_until(ALARM, z, _MOST_CHECKS)
    return checks if checks <= _MOST_CHECKS else 0
