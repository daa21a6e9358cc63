"""Tell how much a lift differs between the cases of a pool from how much it differs between two answers to one case.

Only the first stays in the mean of a pool, however often it is asked, and so it alone widens the alarm's margin. Both
come from cases that were asked more than once: the one-way analysis of variance with groups of unequal size (Searle,
Casella and McCulloch 1992, section 3.6). With n_i answers to case i of m, N in all,

    within  = sum_i (squares_i - total_i^2 / n_i) / (N - m)
    between = (sum_i n_i (mean_i - mean)^2 / (m - 1) - within) / ((N - sum_i n_i^2 / N) / (m - 1))
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from kedge_bandit.domain.arrays import FloatArray

LEAST_REPEATS: Final = 100
"""Answers beyond each case's first, below which all of the spread counts as one between cases."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CaseLifts:
    """What was seen of each case: how many lifts, their sum, and the sum of their squares; three arrays [m]."""

    count: FloatArray
    total: FloatArray
    squares: FloatArray

    @property
    def sd_between(self) -> float:
        """Standard deviation of the lift between cases."""
        return float(sd_between(self.count, self.total, self.squares))


def sd_between(count: FloatArray, total: FloatArray, squares: FloatArray) -> FloatArray:
    """Estimate the standard deviation of the lift between cases; with few repeats that of all answers, which is more.

    Args:
        count: answers to each case; the last axis runs over cases, and one not asked counts 0.
        total, squares: sums of their lifts and of the squares of those, of the same shape.

    >>> lifts = np.array([[0.2, 0.2], [-0.2, -0.2]] * 100)
    >>> float(sd_between(np.full(200, 2.0), lifts.sum(1), (lifts**2).sum(1)).round(2))
    0.2
    """
    asked, cases = np.maximum(count.sum(axis=-1), 1.0), (count > 0).sum(axis=-1)
    groups, freedom = np.maximum(cases - 1.0, 1.0), np.maximum(asked - cases, 1.0)
    each = np.maximum(count, 1.0)
    mean = total.sum(axis=-1) / asked
    within = (squares - total**2 / each).sum(axis=-1) / freedom
    spread = (count * (total / each - mean[..., np.newaxis]) ** 2).sum(axis=-1) / groups
    size = (asked - (count**2).sum(axis=-1) / asked) / groups
    apart = np.sqrt(np.maximum(spread - within, 0.0) / np.maximum(size, 1.0))
    all_of_it = np.sqrt(np.maximum(squares.sum(axis=-1) / asked - mean**2, 0.0))
    estimate: FloatArray = np.where(asked - cases >= LEAST_REPEATS, apart, all_of_it)
    return estimate
