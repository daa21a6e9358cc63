"""Compare logged propensities with frequencies, bin by bin, over every randomised decision and action."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kedge_demo.export_log import Log
from kedge_demo.quality import NORMAL_95
from kedge_demo.world import World

EDGES = (0.0, 0.001, 0.002, 0.004, 0.008, 0.016, 0.03, 0.06, 0.12, 0.25, 0.5, 0.75, 0.9, 1.0 + 1e-9)
LEAST_EXPECTED = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Hold one bin of propensities.

    Attributes:
        trials: (decision, action) pairs whose propensity falls into the bin.
        logged: mean propensity; drawn: frequency; low, high: where 95 % of frequencies fall if the log is right.
    """

    trials: int
    logged: float
    drawn: float
    low: float
    high: float


def calibrate(log: Log, world: World) -> list[Bin]:
    """Bin all pairs by propensity; bins with fewer than five expected draws are left out.

    The interval is the normal one around the mean propensity, variance Σ p(1 − p)/n²; draws of one decision exclude
    each other, which makes it a little too wide where two actions of one vector share a bin.
    """
    size = len(world.action_keys)
    p_all, n_all, drawn_all = [], [], []
    for version in np.unique(log.vector[log.randomised]).tolist():
        vector = log.vectors.get(version)
        if vector is None:
            continue
        chosen = log.action[log.randomised & (log.vector == version)]
        p_all.append(vector.p)
        n_all.append(np.full(size, float(len(chosen))))
        drawn_all.append(np.bincount(chosen, minlength=size).astype(np.float64))
    if not p_all:
        return []
    p, n, drawn = np.concatenate(p_all), np.concatenate(n_all), np.concatenate(drawn_all)
    bins = []
    for low, high in pairwise(EDGES):
        inside = (p > low) & (p <= high)
        trials, expected = n[inside].sum(), (n[inside] * p[inside]).sum()
        if expected < LEAST_EXPECTED:
            continue
        deviation = NORMAL_95 * float(np.sqrt((n[inside] * p[inside] * (1.0 - p[inside])).sum()) / trials)
        logged = float(expected / trials)
        frequency = float(drawn[inside].sum() / trials)
        bins.append(
            Bin(trials=int(trials), logged=logged, drawn=frequency, low=logged - deviation, high=logged + deviation)
        )
    return bins
