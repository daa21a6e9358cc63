"""Estimate from a log what another policy would have earned on the same traffic, with its error, or refuse to.

Every row of the log has a reward r, and a weight w = π(a|x) / p(a|x): the target's probability of the logged action
over the propensity it was drawn with. Then

    IPS    v = Σ w r / n                       Horvitz and Thompson (1952)
    SNIPS  v = Σ w r / Σ w                     Swaminathan and Joachims (2015), eq. 9

An estimate keeps the influence of each row on it: n times what the value would lose without the row, the jackknife of
Quenouille and Tukey. Its error is the standard error of their mean, and that of a difference between two estimates from
the same rows is the standard error of the mean of the differences, which counts what the two have in common. For many
rows of small weight that is the delta method; where few rows weigh much it is wider, as it has to be. Intervals are
normal: they hold for a log with a floor and a uniform slice, and not for one of bare Thompson sampling, which is what
the refusal is for.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import special

from kedge_bandit.domain.arrays import FloatArray

LEAST_EFFECTIVE: Final = 200.0
LEAST_EFFECTIVE_SHARE: Final = 0.05
MOST_ERRORS_OFF: Final = 3.0
CONFIDENCE: Final = 0.95

_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """A value with what each row of the log contributes to its error.

    Attributes:
        value: what the target earns in a turn, in the unit of the rewards.
        influence: of each row [n]; their mean is 0, or next to it.
    """

    value: float
    influence: FloatArray

    @property
    def standard_error(self) -> float:
        """Standard error of the value; infinite with fewer than two rows."""
        n = len(self.influence)
        return float(np.std(self.influence, ddof=1)) / math.sqrt(n) if n > 1 else math.inf

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Give the normal interval that holds the true value with this probability, in (0, 1)."""
        reach = float(special.ndtri((1.0 + confidence) / 2.0)) * self.standard_error
        return self.value - reach, self.value + reach

    def minus(self, other: "Estimate") -> "Estimate":
        """Compare with an estimate from the same rows in the same order; both errors are counted jointly."""
        return Estimate(self.value - other.value, self.influence - other.influence)


def ips(weights: FloatArray, rewards: FloatArray) -> Estimate:
    """Estimate without bias, where the log could serve whatever the target serves.

    Args:
        weights: w [n], not negative.
        rewards: r [n].

    >>> ips(np.array([2.0, 0.0, 2.0, 0.0]), np.array([1.0, 1.0, 0.0, 1.0])).value
    0.5
    """
    terms = weights * rewards
    value = float(np.mean(terms))
    return Estimate(value, terms - value)


def snips(weights: FloatArray, rewards: FloatArray) -> Estimate:
    """Estimate with the weights' own sum as the count: a little bias for far less error. The headline.

    Args:
        weights: w [n], not negative; one at least positive, or the value is not a number.
        rewards: r [n].

    >>> estimate = snips(np.array([2.0, 0.0, 1.0, 1.0]), np.array([1.0, 1.0, 0.0, 1.0]))
    >>> estimate.value, [round(of_row, 2) for of_row in estimate.influence.tolist()]
    (0.75, [1.0, 0.0, -1.0, 0.33])
    """
    n, total = len(weights), float(np.sum(weights))
    if total <= 0.0:
        return Estimate(math.nan, np.full(n, math.nan))
    value = float(np.sum(weights * rewards)) / total
    others = total - weights
    lost = np.divide(weights * (rewards - value), others, out=np.zeros(n), where=others > 0.0)
    return Estimate(value, n * lost)


def effective_sample_size(weights: FloatArray) -> float:
    """Count the evenly weighted rows that would say as much: (Σ w)² / Σ w² (Kish 1965).

    >>> effective_sample_size(np.array([1.0, 1.0, 1.0, 1.0])), effective_sample_size(np.array([4.0, 0.0, 0.0, 0.0]))
    (4.0, 1.0)
    """
    squares = float(np.sum(weights**2))
    return float(np.sum(weights)) ** 2 / squares if squares > 0.0 else 0.0


def why_not(weights: FloatArray) -> str:
    """Say why no number may be printed, and what would help; empty where one may.

    Weights of a log that was kept well average 1: where they do not, the log lacks what the target serves, or its
    propensities are not those it was drawn with.

    >>> why_not(np.ones(1_000))
    ''
    >>> why_not(np.ones(100))
    'the effective sample size is 100 of 100 rows, and 200 are the least: log more, or raise floor and slice'
    """
    n, effective = len(weights), effective_sample_size(weights)
    least = max(LEAST_EFFECTIVE, LEAST_EFFECTIVE_SHARE * n)
    if effective < least:
        return (
            f"the effective sample size is {effective:.0f} of {n} rows, and {least:.0f} are the least: "
            "log more, or raise floor and slice"
        )
    mean, error = float(np.mean(weights)), float(np.std(weights, ddof=1)) / math.sqrt(n)
    if abs(mean - 1.0) > MOST_ERRORS_OFF * error + _ROUNDING:
        return (
            f"the weights average {mean:.3f}, more than {MOST_ERRORS_OFF:g} standard errors ({error:.3f}) from 1: "
            "the log cannot serve what the target serves, or its propensities are not those it was drawn with"
        )
    return ""
