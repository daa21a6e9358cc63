"""Integrate over panels of 16 Gauss-Legendre nodes which of several independent beliefs is the largest.

P(k is largest) = ∫ f_k Π_{j≠k} F_j. F at the nodes is the running integral of the Legendre expansion of f (spectral
integration), so a distribution function is needed at one point only, where the panels start.
"""

from collections.abc import Callable

import numpy as np
from numpy.polynomial import legendre

from kedge_bandit.domain.arrays import FloatArray

_NODES, _WEIGHTS = legendre.leggauss(16)


def _spectral_integration() -> FloatArray:
    """Build the matrix that maps values at the nodes to integrals from −1: to each node, then (last column) to 1."""
    order = _NODES.size
    to_series = (legendre.legvander(_NODES, order - 1) * _WEIGHTS[:, None]).T * (np.arange(order) + 0.5)[:, None]
    of_basis = np.stack([legendre.legval(_NODES, legendre.legint(row, lbnd=-1)) for row in np.identity(order)], axis=1)
    return np.concatenate([of_basis @ to_series, _WEIGHTS[None]], axis=0).T.copy()


_INTEGRATE = _spectral_integration()


def largest_over(edges: FloatArray, density: Callable[[FloatArray], FloatArray], below: FloatArray) -> FloatArray:
    """Sum f_k·Π_{j≠k} F_j over the panels; the products by prefixes and suffixes, never by division.

    Args:
        edges: of the panels, increasing; each narrow enough for every density to be smooth in it.
        density: evaluates f [K, T] at points [T].
        below: F [K] at the first edge.

    Returns:
        The integrals [K].

    >>> third = largest_over(np.array([0.0, 1.0]), lambda t: np.ones((3, t.size)), np.zeros(3))
    >>> third.round(12).tolist()
    [0.333333333333, 0.333333333333, 0.333333333333]
    """
    half = 0.5 * (edges[1:] - edges[:-1])
    t = (edges[:-1] + half)[:, None] + half[:, None] * _NODES
    shape = (below.size, half.size, _NODES.size)
    mass = density(t.ravel()).reshape(shape) * half[:, None]
    running = (mass.reshape(-1, shape[2]) @ _INTEGRATE).reshape(shape[0], shape[1], shape[2] + 1)
    under = running[:, :, :-1] + below[:, None, None]
    under[:, 1:] += np.cumsum(running[:, :-1, -1], axis=1)[:, :, None]
    before, after = np.ones(shape), np.ones(shape)
    np.cumprod(under[:-1], axis=0, out=before[1:])
    np.cumprod(under[:0:-1], axis=0, out=after[-2::-1])
    largest: FloatArray = ((before * after * mass) @ _WEIGHTS).sum(axis=1)
    return largest
