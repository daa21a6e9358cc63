"""Gather evidence for "this mean is above its margin" over repeated checks, so that it may be looked at after each.

A mixture of Shiryaev-Roberts e-detectors, one for each tilt l (Shin, Ramdas and Rinaldo 2022, arXiv 2203.03532):

    M_l <- (1 + M_l) exp(l z - l^2 / 2),   evidence = mean over l of M_l

As long as each z has mean 0 or less and sd 1, given what came before, the mean time until the evidence reaches c is at
least c checks. A state is the M_l of one detector, in an array whose last axis runs over TILTS: one call steps one
detector, or as many as there are runs of a simulation.
"""

from typing import Final

import numpy as np

from kedge_bandit.domain.arrays import FloatArray

TILTS: Final = (0.1, 0.2, 0.4, 0.8, 1.4)
_TILT: Final = np.array(TILTS)
_MOST: Final = 1e100
"""What has alarmed many times over grows no further."""


def begin(*shape: int) -> FloatArray:
    """Give the state before any check, of one detector or of an array of them.

    >>> begin().shape, begin(2000).shape
    ((5,), (2000, 5))
    """
    return np.zeros((*shape, len(TILTS)))


def step(state: FloatArray, z: FloatArray | float) -> FloatArray:
    """Take one check in: z is (mean - margin) / standard error, one for each detector of the state.

    >>> step(begin(), 0.0).round(3).tolist()
    [0.995, 0.98, 0.923, 0.726, 0.375]
    """
    tilted = np.asarray(z)[..., np.newaxis] * _TILT - _TILT**2 / 2
    grown: FloatArray = np.minimum((1.0 + state) * np.exp(np.minimum(tilted, 200.0)), _MOST)
    return grown


def evidence(state: FloatArray) -> FloatArray:
    """Average over the tilts: the evidence of each detector.

    >>> float(evidence(step(begin(), 3.0)).round(2))
    7.85
    """
    mean: FloatArray = state.mean(axis=-1)
    return mean
