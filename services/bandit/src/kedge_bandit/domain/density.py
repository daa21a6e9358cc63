"""Turn draws from a posterior into densities that can be drawn, whatever the learner."""

from typing import Final

import numpy as np

from kedge_bandit.domain.arrays import FloatArray

_BINS: Final = 512
_EDGES: Final = np.linspace(0.0, 1.0, _BINS + 1)
_CENTRES: Final = (_EDGES[1:] + _EDGES[:-1]) / 2.0
_NARROWEST: Final = 1.0 / 256.0
"""Least bandwidth: a belief that is sharper than a line on a screen is drawn as one."""


def densities(draws: FloatArray, grid: FloatArray) -> FloatArray:
    """Estimate the density of each column on [0, 1] by a Gaussian kernel, reflected at both ends.

    The bandwidth is that of Silverman (1986, eq. 3.31): .9·min(sd, IQR / 1.34)·N^(−1/5).

    Args:
        draws: [N, K], at least two rows; values outside [0, 1] count at the end that they passed.
        grid: points [G] in [0, 1], evenly spaced from 0 to 1.

    Returns:
        Densities [K, G]; each integrates to 1 over the grid by the trapezoidal rule.

    >>> flat = densities(np.random.default_rng(1).random((20_000, 1)), np.linspace(0.0, 1.0, 5))
    >>> flat.round(1).tolist()
    [[1.0, 1.0, 1.0, 1.0, 1.0]]
    """
    inside = np.clip(draws, 0.0, 1.0)
    upper, lower = np.quantile(inside, [0.75, 0.25], axis=0)
    spread = np.minimum(inside.std(axis=0), (upper - lower) / 1.34)
    widths = np.maximum(0.9 * spread * inside.shape[0] ** -0.2, _NARROWEST)
    found = np.stack([_density(column, grid, width) for column, width in zip(inside.T, widths, strict=True)])
    area = np.sum((found[:, 1:] + found[:, :-1]) / 2.0 * np.diff(grid), axis=1, keepdims=True)
    normal: FloatArray = found / area
    return normal


def _density(column: FloatArray, grid: FloatArray, width: float) -> FloatArray:
    counts, _ = np.histogram(column, _EDGES)
    density: FloatArray = np.zeros(grid.size)
    for mirrored in (_CENTRES, -_CENTRES, 2.0 - _CENTRES):
        density += np.exp(-0.5 * ((grid[:, None] - mirrored) / width) ** 2) @ counts
    return density
