"""A mean with its interval."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

RESAMPLES = 1_000
LEVEL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Mean of `n` measured values with its 95 % interval; all NaN where nothing was measured."""

    mean: float
    low: float
    high: float
    n: int


def bootstrap(values: npt.ArrayLike, seed: int = 0) -> Interval:
    """Resample episodes with replacement (Efron 1979, percentile interval); NaN says that a value was not measured.

    >>> bootstrap([1.0, 1.0, float("nan")])
    Interval(mean=1.0, low=1.0, high=1.0, n=2)
    """
    given = np.asarray(values, dtype=np.float64)
    measured = given[~np.isnan(given)]
    if not len(measured):
        return Interval(mean=float("nan"), low=float("nan"), high=float("nan"), n=0)
    drawn = np.random.default_rng(seed).integers(0, len(measured), (RESAMPLES, len(measured)))
    low, high = np.quantile(measured[drawn].mean(axis=1), ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return Interval(mean=float(measured.mean()), low=float(low), high=float(high), n=len(measured))
