"""Say what all rewards of a policy have in common: how high they are, and how much those of one cell spread."""

import numpy as np

from kedge_bandit.domain.arrays import FloatArray

LEAST_VARIANCE = 1e-6
"""No reward is believed to spread less, so that no belief is sharper than numbers can tell apart."""
MOST_VARIANCE = 0.25
"""A fair coin's, the largest that a reward in [0, 1] can have."""


def pooled_mean(n: FloatArray, s: FloatArray) -> float:
    """Give the mean of all rewards, (1 + ΣS)/(2 + ΣN): the level that untried actions are expected at.

    >>> pooled_mean(np.zeros(3), np.zeros(3)), pooled_mean(np.array([8.0]), np.array([7.0]))
    (0.5, 0.8)
    """
    return float((1.0 + s.sum()) / (2.0 + n.sum()))


def within(n: FloatArray, s: FloatArray, s2: FloatArray) -> FloatArray:
    """Give the sum of squares around each cell's own mean, S2 − S²/N; 0 where nothing was seen.

    >>> within(np.array([2.0, 0.0]), np.array([1.0, 0.0]), np.array([0.75, 0.0])).tolist()
    [0.25, 0.0]
    """
    mean = np.divide(s, n, out=np.zeros_like(s), where=n > 0.0)
    return np.maximum(s2 - s * mean, 0.0)


def pooled_variance(n: FloatArray, squares: FloatArray, *, start: float, worth: float) -> float:
    """Give the variance of rewards within cells; a cell's first episode says nothing about it.

    Args:
        n: weights of the cells.
        squares: sums of squares around their means, from `within`.
        start: variance before anything was seen.
        worth: how many episodes the start counts for.

    >>> pooled_variance(np.zeros(3), np.zeros(3), start=0.25, worth=2.0)
    0.25
    >>> pooled_variance(np.array([9.0]), np.array([0.1]), start=0.25, worth=2.0)
    0.06
    """
    seen = float(np.maximum(n - 1.0, 0.0).sum())
    return min(max((worth * start + float(squares.sum())) / (worth + seen), LEAST_VARIANCE), MOST_VARIANCE)
