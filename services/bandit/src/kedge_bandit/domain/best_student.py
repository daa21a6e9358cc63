"""Compute the probability that each arm is the best, exactly, for independent Student or normal beliefs.

The same integral as for Betas (`best_arm`), over panels whose width follows the sharpest belief near them: one scale of
a belief at its centre, growing with the distance from it, where a Student density falls like a power.
"""

import math

import numpy as np
from scipy.special import gammaln, stdtr, stdtrit

from kedge_bandit.domain.arrays import FloatArray
from kedge_bandit.domain.errors import NumericalFailure
from kedge_bandit.domain.panels import largest_over

LEAST_DEGREES = 2.0
MANY_DEGREES = 1e3
NEARLY_NORMAL = 1e12
"""Degrees of freedom from which a belief counts as normal; the densities differ by under 1e-12 of their top."""
SUM_TOLERANCE = 1e-6
_TAIL = 1e-12
_FAR = np.concatenate([[0.0, 0.25, 0.5], np.geomspace(1.0, 1e6, 24)])
_REACH = np.concatenate([-_FAR[:0:-1], _FAR])
_GROWTH = 0.5


def _log_top(degrees: FloatArray) -> FloatArray:
    """Give the log density of a standard Student at 0; by its series in 1/degrees where the gammas would cancel."""
    half = 0.5 * np.minimum(degrees, MANY_DEGREES)
    exact = gammaln(half + 0.5) - gammaln(half) - 0.5 * np.log(2.0 * half * np.pi)
    series = (1.0 / (24.0 * degrees**2) - 0.25) / degrees - 0.5 * math.log(2.0 * math.pi)
    return np.asarray(np.where(degrees < MANY_DEGREES, exact, series))


def _panel_edges(centre: FloatArray, scale: FloatArray, start: float, end: float) -> FloatArray:
    """Cut [start, end] so that every panel spans about one local scale of the sharpest belief."""
    grid = np.unique(np.clip((centre + scale * _REACH[:, None]).ravel(), start, end))
    middle = 0.5 * (grid[1:] + grid[:-1])
    rate = (1.0 / (scale + _GROWTH * np.abs(middle[:, None] - centre))).max(axis=1)
    measure = np.concatenate([np.zeros(1), np.cumsum(rate * np.diff(grid))])
    panels = math.ceil(measure[-1])
    edges: FloatArray = np.interp(np.linspace(0.0, measure[-1], panels + 1), measure, grid)
    return edges


def probability_best_student(centre: FloatArray, scale: FloatArray, degrees: FloatArray) -> FloatArray:
    """Give P(θ_k is the largest) for independent θ_k = centre_k + scale_k·t, t Student with degrees_k of freedom.

    Args:
        centre: medians [K].
        scale: scales [K], positive; the standard deviations of normals.
        degrees: degrees of freedom [K], at least 2; infinity is the normal.

    Returns:
        Probabilities [K], non-negative, summing to 1 within rounding; absolute error about 1e-10.

    Raises:
        NumericalFailure: a parameter is out of range, or the sum is off by more than 1e-6 before it is normalised.

    >>> one, inf = np.ones(2), np.full(2, np.inf)
    >>> probability_best_student(np.array([1.0, 0.0]), one, inf).round(9).tolist()  # Φ(1/√2)
    [0.760249939, 0.239750061]
    """
    sound = np.isfinite(centre) & np.isfinite(scale) & (scale > 0.0) & (degrees >= LEAST_DEGREES)
    if not sound.all():
        raise NumericalFailure("scale of a Student belief", float(scale[~sound][0]))
    reach = -stdtrit(degrees, _TAIL) * scale
    place = centre - centre.max()  # near 0, where sharp beliefs that are close together can still be told apart
    start, end = float((place - reach).max()), float((place + reach).max())
    best = np.zeros(centre.size)
    alive = place + reach > start
    if np.count_nonzero(alive) == 1:
        best[alive] = 1.0
        return best
    middle, width, freedom = place[alive], scale[alive], degrees[alive]
    log_top = (_log_top(freedom) - np.log(width))[:, None]
    finite = np.minimum(freedom, NEARLY_NORMAL)[:, None]

    def density(t: FloatArray) -> FloatArray:
        z = (t - middle[:, None]) / width[:, None]
        return np.asarray(np.exp(log_top - 0.5 * (finite + 1.0) * np.log1p(z * z / finite)))

    edges = _panel_edges(middle, width, start, end)
    best[alive] = largest_over(edges, density, stdtr(freedom, (start - middle) / width))
    total = float(best.sum())
    if not abs(total - 1.0) <= SUM_TOLERANCE:
        raise NumericalFailure("sum of the probabilities of being best", total)
    return np.maximum(best, 0.0) / total
