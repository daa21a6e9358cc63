"""Figures that a policy is steered by, beside its lift: the plane of cost and quality, regret, coverage, advice.

Actions are compared on the same contexts: every randomised row counts 1/p of its action.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf, sqrt
from typing import Final

import numpy as np
from scipy import special

from kedge_bandit.domain.arrays import BoolArray, FloatArray, IntArray
from kedge_bandit.domain.experiment_report import MetricFinding, Range
from kedge_bandit.domain.ramp_metrics import LARGEST_LOSS, LEAST_EPISODES

LEAST_CELL: Final = 10
"""Episodes of an action in a bucket, in either half, under which it is no candidate for the best."""
DAYS_APART: Final = timedelta(days=4)
"""Span of a log from which on its halves are even and odd days; a shorter one is halved episode by episode."""
_TWO_SIDED: Final = float(special.ndtri(0.975))


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    """One action: mean quality in [0, 1] and mean cost in US dollars; on the front, none is better and cheaper."""

    action: str
    episodes: int
    quality: float
    cost_usd: float
    is_on_front: bool


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Turns:
    """Randomised, scored episodes, all arrays over them [n].

    Attributes:
        actions: keys; action: place of each episode's in it.
        bucket: number of its bucket, from 0.
        weight: 1/p.
        reward, quality, cost_usd: NaN where unknown.
        is_even: in which half it lies.
    """

    actions: tuple[str, ...]
    action: IntArray
    bucket: IntArray
    weight: FloatArray
    reward: FloatArray
    quality: FloatArray
    cost_usd: FloatArray
    is_even: BoolArray


def halves(times: Sequence[datetime]) -> BoolArray:
    """Halve a log into even and odd days, so that a best action is not praised by the luck that it was chosen for.

    >>> day = timedelta(days=1)
    >>> halves([datetime(2026, 1, 1) + day * n for n in range(6)]).tolist()
    [False, True, False, True, False, True]
    """
    if times and times[-1] - times[0] >= DAYS_APART:
        return np.array([time.toordinal() % 2 == 0 for time in times], dtype=np.bool_)
    return np.array([place % 2 == 0 for place in range(len(times))], dtype=np.bool_)


def pareto(turns: Turns) -> tuple[ParetoPoint, ...]:
    """Place every action, the cheapest first.

    >>> turns = Turns(actions=("a", "b"), action=np.array([0, 1]), bucket=np.array([0, 0]), weight=np.ones(2),
    ...     reward=np.ones(2), quality=np.array([.9, .5]), cost_usd=np.array([.1, .2]), is_even=np.array([True, False]))
    >>> [(point.action, point.is_on_front) for point in pareto(turns)]
    [('a', True), ('b', False)]
    """
    placed = []
    for number, key in enumerate(turns.actions):
        known = (turns.action == number) & np.isfinite(turns.quality) & np.isfinite(turns.cost_usd)
        if not known.any():
            continue
        weight = turns.weight[known]
        quality, cost = (float(np.average(of[known], weights=weight)) for of in (turns.quality, turns.cost_usd))
        placed.append((cost, -quality, key, int(np.count_nonzero(known))))
    points, best = [], -inf
    for cost, loss, key, episodes in sorted(placed):
        points.append(ParetoPoint(key, episodes, -loss, cost, -loss > best))
        best = max(best, -loss)
    return tuple(points)


def regret(turns: Turns) -> Range | None:
    """Estimate the reward missed a turn against the best action of each bucket, with a 95 % interval.

    The best action is chosen on one half and valued on the other, both ways; None where no bucket knows enough.
    """
    scored = np.flatnonzero(np.isfinite(turns.reward))
    order = scored[np.argsort(turns.bucket[scored], kind="stable")]
    buckets = np.split(order, np.flatnonzero(np.diff(turns.bucket[order])) + 1)
    halved = [_half(turns, buckets, turns.is_even), _half(turns, buckets, ~turns.is_even)]
    found = [half for half in halved if half is not None]
    if len(found) < len(halved):
        return None
    value = sum(mean for mean, _ in found) / len(found)
    reach = _TWO_SIDED * sqrt(sum(variance for _, variance in found)) / len(found)
    return Range(value, value - reach, value + reach)


def _half(turns: Turns, buckets: Sequence[IntArray], chosen_on: BoolArray) -> tuple[float, float] | None:
    """Give regret and its variance: of the actions that are best on one half of each bucket's rows, on the other."""
    missed = variance = 0.0
    turns_seen = 0
    for here in buckets:
        best = _best(turns, here[chosen_on[here]])
        rows = here[~chosen_on[here]]
        cell = rows[turns.action[rows] == best]
        if best is None or len(cell) < LEAST_CELL:
            continue
        known, all_known = turns.reward[cell], turns.reward[rows]
        missed += len(rows) * (float(np.mean(known)) - float(np.mean(all_known)))
        spread = float(np.var(known)) / len(cell) + float(np.var(all_known)) / len(rows)
        variance += len(rows) ** 2 * spread
        turns_seen += len(rows)
    return (missed / turns_seen, variance / turns_seen**2) if turns_seen else None


def _best(turns: Turns, rows: IntArray) -> int | None:
    """Give the action of the highest mean reward among those that have enough of the rows; None of none."""
    counts = np.bincount(turns.action[rows], minlength=len(turns.actions))
    means = np.bincount(turns.action[rows], turns.reward[rows], len(turns.actions)) / np.maximum(counts, 1)
    enough = counts >= LEAST_CELL
    return int(np.argmax(np.where(enough, means, -inf))) if enough.any() else None


def coverage(signals: Sequence[Mapping[str, float]], names: Sequence[str]) -> dict[str, float]:
    """Give the share of episodes that carry each signal.

    >>> coverage([{"judge": 0.5}, {}], ["judge", "human"])
    {'judge': 0.5, 'human': 0.0}
    """
    return {name: sum(name in one for one in signals) / len(signals) if signals else 0.0 for name in names}


def advice_of(reward: MetricFinding) -> tuple[str, ...]:
    """Say in words what the lift asks for; nothing where it is simply good, or not known.

    >>> from kedge_bandit.domain.cluster_lift import MetricLift
    >>> from kedge_bandit.domain.experiment import ExperimentMetric
    >>> found = MetricFinding(metric=ExperimentMetric.REWARD, is_primary=True, lift=MetricLift(units=900),
    ...     learned=Range(.001, -.02, .022), served=Range(.0005, -.01, .011), is_worse=False)
    >>> advice_of(found)
    ('what was learned is no better than the baseline: stop, or raise the floor',)
    """
    lift = reward.learned
    if lift.lower == -inf:
        return (f"{reward.lift.units} units of the smaller side have settled: {LEAST_EPISODES} are needed",)
    if lift.upper < 0.0:
        return ("what was learned is worse than the baseline: stop, or raise the floor",)
    if lift.lower <= 0.0 and lift.upper < LARGEST_LOSS:
        return ("what was learned is no better than the baseline: stop, or raise the floor",)
    return ()
