"""Estimate learned minus baseline from episodes that belong to units, less noise by what was known before.

With side weights w (1 on the learned side; (1 − φ)/φ of a floor's control, so that both sides meet the same contexts)

    m_s = Σ_s w·y / Σ_s w,   lift = m_1 − m_0,   ψ_i = ± w_i (y_i − m_s) / Σ_s w

Var = C/(C − 1)·Σ_c (Σ_{i in c} ψ_i)² over the C units c: Liang and Zeger (1986). CUPED (Deng, Xu, Kohavi, Walker 2013)
takes θ·x off y, x known before the start and θ the pooled slope within the sides. The interval is the asymptotic
confidence sequence of `ramp_metrics`, which mixes over a normal: it holds at all looks together.
"""

from dataclasses import dataclass
from math import inf

import numpy as np

from kedge_bandit.domain.arrays import BoolArray, FloatArray, IntArray
from kedge_bandit.domain.ramp_metrics import LEAST_EPISODES, interval


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Assigned:
    """Episodes of an experiment, all arrays over them [n].

    Attributes:
        learned: on the learned side.
        learned_share: probability with which it was to be there, in (0, 1).
        weight: w; 0 of a control that no learned draw stood against.
        unit: number of its unit, from 0.
        known: x, what was known before the start: a mean of earlier rewards.
    """

    learned: BoolArray
    learned_share: FloatArray
    weight: FloatArray
    unit: IntArray
    known: FloatArray

    def of(self, kept: BoolArray) -> "Assigned":
        """Keep some of the episodes."""
        return Assigned(
            learned=self.learned[kept],
            learned_share=self.learned_share[kept],
            weight=self.weight[kept],
            unit=self.unit[kept],
            known=self.known[kept],
        )

    @property
    def units(self) -> tuple[int, int]:
        """Units that have an episode on the learned side, and on the baseline's."""
        return len(np.unique(self.unit[self.learned])), len(np.unique(self.unit[~self.learned]))


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricLift:
    """Learned minus baseline of one metric.

    Attributes:
        learned, baseline: means of the sides, as they were measured.
        units: of the side that has fewer.
        difference: of the means, adjusted by CUPED; lower, upper: its confidence sequence, infinite while too few.
        variance: of the difference.
        variance_kept: what CUPED left of it, in [0, 1] but for chance.
    """

    learned: float = 0.0
    baseline: float = 0.0
    units: int = 0
    difference: float = 0.0
    lower: float = -inf
    upper: float = inf
    variance: float = inf
    variance_kept: float = 1.0


def lift(values: FloatArray, assigned: Assigned, alpha: float, *, is_amount: bool = False) -> MetricLift:
    """Estimate the lift of a metric.

    Args:
        values: y [n]; NaN where an episode has none.
        alpha: that the interval ever misses the true lift, in (0, 1).
        is_amount: not a share: what is a small difference goes by the size of the means.

    >>> rng, n = np.random.default_rng(0), 4000
    >>> learned = rng.random(n) < .5
    >>> assigned = Assigned(learned=learned, learned_share=np.full(n, .5), weight=np.ones(n), unit=np.arange(n),
    ...                     known=np.zeros(n))
    >>> found = lift(rng.random(n) + .1 * learned, assigned, .05)
    >>> round(found.difference, 2), found.lower > 0
    (0.09, True)
    """
    kept = np.isfinite(values) & (assigned.weight > 0.0)  # where all is floor there is nothing to compare it with
    y, rows = values[kept], assigned.of(kept)
    units = min(rows.units)
    if units < 2:
        return MetricLift(units=units)
    learned, baseline = _means(y, rows)
    plain = _variance(y, rows)
    adjusted = y - _slope(y, rows) * rows.known
    above, below = _means(adjusted, rows)
    variance = _variance(adjusted, rows)
    lower, upper = -inf, inf
    if units >= LEAST_EPISODES:
        scale = max(abs(learned), abs(baseline)) or 1.0 if is_amount else 1.0
        lower, upper = interval(above - below, variance, alpha, scale)
    return MetricLift(
        learned=learned,
        baseline=baseline,
        units=units,
        difference=above - below,
        lower=lower,
        upper=upper,
        variance=variance,
        variance_kept=variance / plain if plain > 0.0 else 1.0,
    )


def _means(y: FloatArray, rows: Assigned) -> tuple[float, float]:
    learned, w = rows.learned, rows.weight
    return float(np.average(y[learned], weights=w[learned])), float(np.average(y[~learned], weights=w[~learned]))


def _variance(y: FloatArray, rows: Assigned) -> float:
    learned, w = rows.learned, rows.weight
    above, below = _means(y, rows)
    influence = np.where(
        learned, w * (y - above) / float(np.sum(w[learned])), -w * (y - below) / float(np.sum(w[~learned]))
    )
    sums = np.bincount(np.unique(rows.unit, return_inverse=True)[1], influence)
    return float(np.sum(sums**2)) * len(sums) / (len(sums) - 1)


def _slope(y: FloatArray, rows: Assigned) -> float:
    """Give θ, the weighted slope of y on what was known, within the sides."""
    across = along = 0.0
    for side in (rows.learned, ~rows.learned):
        w, x, z = rows.weight[side], rows.known[side], y[side]
        x = x - np.average(x, weights=w)
        along += float(np.sum(w * x * x))
        across += float(np.sum(w * x * z))
    return across / along if along > 0.0 else 0.0
