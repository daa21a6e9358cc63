"""Bound a mean of paired differences from below, so that "no worse than a margin" is a test with a known error.

Scores of a case are paired: candidate minus incumbent. Where every difference is -1, 0 or 1 (a check passes or fails)
the bound is Tango's, which inverts the score test of a difference of paired proportions:

    z(D) = (b - c - n D) / sqrt(n (2 q + D (1 - D)))        Tango (1998), Statistics in Medicine 17, 891-908, eq. 3
    q    = (sqrt(B^2 - 4 A C) - B) / (2 A),  A = 2 n,  B = (2 n - b + c) D - b - c,  C = -c D (1 - D)

with n cases, b of them won by the candidate alone, c by the incumbent alone, and q the probability of c as it is most
likely under the hypothesis D. A Wald or t bound would estimate the variance away from the hypothesis, and be wrong
where few pairs differ. Graded scores (a judge's ties and halves) take Student's t.
"""

import math

import numpy as np
from scipy import special

from kedge_bandit.domain.arrays import FloatArray

_STEPS = 60
"""Halvings of [-1, 1]: the bound is exact to 1e-15."""


def lower_bound(differences: FloatArray, alpha: float) -> float:
    """Bound the mean from below, one-sided at level alpha.

    Args:
        differences: of each case, in [-1, 1]; at least 2.

    >>> halves = np.array([1.0] * 20 + [-1.0] * 20 + [0.0] * 260)
    >>> round(lower_bound(halves, 0.05), 4)
    -0.0355
    """
    if is_binary(differences):
        won, lost = _counts(differences)
        return score_bound(won, lost, len(differences), alpha)
    mean, error = mean_and_error(differences)
    return mean - error * float(special.stdtrit(len(differences) - 1, 1.0 - alpha))


def upper_bound(differences: FloatArray, alpha: float) -> float:
    """Bound the mean from above, one-sided at level alpha; the mirror of `lower_bound`."""
    return -lower_bound(-differences, alpha)


def is_binary(differences: FloatArray) -> bool:
    """Say whether every difference is -1, 0 or 1."""
    return bool(np.all(np.isin(differences, (-1.0, 0.0, 1.0))))


def mean_and_error(values: FloatArray) -> tuple[float, float]:
    """Give a mean and its standard error.

    >>> mean_and_error(np.array([0.0, 1.0, 0.0, 1.0]))
    (0.5, 0.28867513459481287)
    """
    return float(np.mean(values)), float(np.std(values, ddof=1)) / math.sqrt(len(values))


def score_bound(won: int, lost: int, cases: int, alpha: float) -> float:
    """Find the largest difference that Tango's score test at level alpha rejects from below.

    >>> round(score_bound(won=0, lost=0, cases=300, alpha=0.05), 4)
    -0.0089
    """
    critical = float(special.ndtri(1.0 - alpha))
    low, high = -1.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if score_statistic(won, lost, cases, middle) > critical:
            low = middle
        else:
            high = middle
    return low


def score_statistic(won: int, lost: int, cases: int, difference: float) -> float:
    """Give z of the hypothesis that the true difference is `difference`, in (-1, 1); see the module.

    >>> round(score_statistic(won=20, lost=20, cases=300, difference=-0.05), 3)
    2.271
    """
    a = 2.0 * cases
    b = (2 * cases - won + lost) * difference - won - lost
    c = -lost * difference * (1.0 - difference)
    lost_alone = (math.sqrt(max(0.0, b * b - 4.0 * a * c)) - b) / (2.0 * a)
    variance = cases * (2.0 * lost_alone + difference * (1.0 - difference))
    excess = won - lost - cases * difference
    if variance <= 0.0:
        return math.copysign(math.inf, excess) if excess else 0.0
    return excess / math.sqrt(variance)


def lift_needed(differences: FloatArray, margin: float, alpha: float) -> float:
    """Find the smallest measured mean that passes, were as many cases decided as now.

    >>> even = np.array([1.0] * 20 + [-1.0] * 20 + [0.0] * 260)
    >>> round(lift_needed(even, 0.05, 0.05), 4)
    -0.0133
    """
    cases = len(differences)
    if not is_binary(differences):
        _, error = mean_and_error(differences)
        return -margin + error * float(special.stdtrit(cases - 1, 1.0 - alpha))
    won, lost = _counts(differences)
    critical, decided = float(special.ndtri(1.0 - alpha)), won + lost
    for up in range(decided + 1):
        if score_statistic(up, decided - up, cases, -margin) > critical:
            return (2 * up - decided) / cases
    return -margin + critical * math.sqrt(max(decided, 1)) / cases


def detectable_lift(variance: float, cases: int, margin: float, alpha: float, power: float = 0.8) -> float:
    """Find the smallest true mean that passes with a given chance, by the normal approximation.

    Args:
        variance: of one paired difference; with binary checks about the share of cases that only one side passes.

    >>> round(detectable_lift(0.15, 300, 0.05, 0.05), 4)
    0.0056
    """
    critical = float(special.ndtri(1.0 - alpha) + special.ndtri(power))
    return -margin + critical * math.sqrt(variance / cases)


def passing_chance(lift: float, variance: float, cases: int, margin: float, alpha: float) -> float:
    """Give the chance that a candidate of a true lift passes, by the normal approximation.

    >>> [round(passing_chance(0.0, 0.15, 300, 0.05, 6 * 0.05 / (3.141592653589793 * j) ** 2), 2) for j in (1, 2, 3, 10)]
    [0.64, 0.42, 0.32, 0.12]
    """
    error = math.sqrt(variance / cases)
    return float(special.ndtr((lift + margin) / error - special.ndtri(1.0 - alpha)))


def _counts(differences: FloatArray) -> tuple[int, int]:
    return int(np.count_nonzero(differences > 0)), int(np.count_nonzero(differences < 0))
