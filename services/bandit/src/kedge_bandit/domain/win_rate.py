"""Say how often what was learned is preferred to the baseline, with the pairs of one unit counted together.

A tie counts half. The interval is a percentile bootstrap over units (Efron 1979; of clusters, Field and Welsh 2007): a
person who judges ten answers of one session has not judged ten sessions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

LEAST_PAIRS: Final = 30
"""Under which no interval is given."""
RESAMPLES: Final = 2_000
_SEED: Final = 20_260


@dataclass(frozen=True, slots=True)
class Compared:
    """One pair: 1 where the learned answer was preferred, 0 where the baseline's was, and .5 for a tie."""

    unit: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WinRate:
    """How often the learned side wins.

    Attributes:
        value: in [0, 1]; 0 without pairs.
        lower, upper: 95 % interval; None under 30 pairs.
    """

    pairs: int
    ties: int
    value: float
    lower: float | None = None
    upper: float | None = None


def win_rate(pairs: Sequence[Compared]) -> WinRate:
    """Count, with ties half.

    >>> win_rate([Compared("s-1", 1.0), Compared("s-2", 0.5)]).value
    0.75
    >>> found = win_rate([Compared(f"s-{n % 50}", float(n % 4 > 0)) for n in range(100)])
    >>> found.value, found.lower is not None and found.lower > .5
    (0.75, True)
    """
    if not pairs:
        return WinRate(pairs=0, ties=0, value=0.0)
    scores = np.array([pair.score for pair in pairs], dtype=np.float64)
    ties, value = int(np.count_nonzero(scores == 0.5)), float(np.mean(scores))
    if len(pairs) < LEAST_PAIRS:
        return WinRate(pairs=len(pairs), ties=ties, value=value)
    _, unit = np.unique(np.array([pair.unit for pair in pairs]), return_inverse=True)
    sums, sizes = np.bincount(unit, scores), np.bincount(unit)
    random = np.random.default_rng(_SEED)
    chosen = (random.integers(0, len(sums), len(sums)) for _ in range(RESAMPLES))
    rates = [float(np.sum(sums[units]) / np.sum(sizes[units])) for units in chosen]
    lower, upper = np.quantile(rates, (0.025, 0.975))
    return WinRate(pairs=len(pairs), ties=ties, value=value, lower=float(lower), upper=float(upper))
