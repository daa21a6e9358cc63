"""Regress rewards on known rows with Gaussian weights: what the correlated learners have in common.

    θ_r = x_r·w,  w ~ N(0, I),  each of N_r rewards about θ_r with noise variance v
    A = I + Σ_r (N_r/v)·x_r x_rᵀ,  w | evidence ~ N(A⁻¹ Σ_r x_r·(S_r − N_r·m)/v, A⁻¹)

(Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, eq. 2.8, with N_r equal rewards gathered in one
row.) A prior covariance P on θ is the rows of any root X with X Xᵀ = P. The precision has the identity in it, so its
Cholesky root exists however little or much was seen.
"""

import numpy as np

from kedge_bandit.domain.arrays import FloatArray
from kedge_bandit.domain.errors import NumericalFailure


def regress(
    rows: FloatArray, n: FloatArray, residuals: FloatArray, *, noise: float | FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Give the mean w [..., F] and a root R [..., F, F] of the covariance, R Rᵀ = A⁻¹.

    Args:
        rows: x [R, F].
        n: weights N [..., R]; leading axes are regressions over the same rows.
        residuals: S − N·m [..., R], with m the prior mean.
        noise: v, positive; [..., 1] where regressions differ in it.

    Raises:
        NumericalFailure: the precision is not finite.

    >>> w, root = regress(np.array([[1.0]]), np.array([3.0]), np.array([1.5]), noise=1.0)
    >>> w.round(3).tolist(), (root @ root.T).round(3).tolist()
    ([0.375], [[0.25]])
    """
    precision = np.identity(rows.shape[1]) + (rows.T * (n / noise)[..., None, :]) @ rows
    largest = float(precision.max())
    if not np.isfinite(largest):
        raise NumericalFailure("precision of a regression", largest)
    root = np.linalg.inv(np.linalg.cholesky(precision)).swapaxes(-1, -2)
    along = ((residuals / noise) @ rows)[..., None, :] @ root
    return (root @ along.swapaxes(-1, -2))[..., 0], root
