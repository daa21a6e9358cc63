"""Draw Beta beliefs of the seven regimes in which P(best) is measured, and integrate it slowly for comparison."""

from collections.abc import Callable

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.integrate import quad_vec
from scipy.special import betainc, betaln, expit, log_expit, polygamma

from kedge_bandit.domain.arrays import FloatArray

Beliefs = tuple[FloatArray, FloatArray]
Regime = Callable[[np.random.Generator, int], Beliefs]


def _observed(n: FloatArray, successes: FloatArray) -> Beliefs:
    return 1.0 + successes, 1.0 + n - successes


def _cold(_rng: np.random.Generator, arms: int) -> Beliefs:
    return np.ones(arms), np.ones(arms)


def _few(rng: np.random.Generator, arms: int) -> Beliefs:
    n = rng.integers(0, 30, arms).astype(np.float64)
    return _observed(n, np.floor(n * rng.uniform(0.0, 1.0, arms)))


def _mid(rng: np.random.Generator, arms: int) -> Beliefs:
    n = rng.uniform(30.0, 1_000.0, arms)
    return _observed(n, n * rng.uniform(0.45, 0.65, arms))


def _big(rng: np.random.Generator, arms: int) -> Beliefs:
    """Sharp beliefs whose means are a few standard deviations apart, so that more than one can be the best."""
    n = 10.0 ** rng.uniform(3.0, 5.0, arms)
    return _observed(n, n * np.clip(0.6 + rng.normal(0.0, 1.5, arms) * np.sqrt(0.24 / n), 0.01, 0.99))


def _frac(rng: np.random.Generator, arms: int) -> Beliefs:
    return rng.uniform(0.05, 1.5, arms), rng.uniform(0.05, 1.5, arms)


def _mixed(rng: np.random.Generator, arms: int) -> Beliefs:
    a, b = _big(rng, arms)
    a[:2], b[:2] = rng.uniform(0.5, 3.0, 2), rng.uniform(0.5, 3.0, 2)
    return a, b


def _vetoed(rng: np.random.Generator, arms: int) -> Beliefs:
    a, b = _mid(rng, arms)
    a[-1], b[-1] = 1.0, 5_000.0
    return a, b


REGIMES: dict[str, Regime] = {
    "cold": _cold,
    "few": _few,
    "mid": _mid,
    "big": _big,
    "frac": _frac,
    "mixed": _mixed,
    "vetoed": _vetoed,
}
"""All shapes 1; n < 30; n to 1,000; n to 100,000; shapes 0.05 to 1.5; two wide arms among sharp ones; one hopeless."""


def density(a: FloatArray, b: FloatArray, t: FloatArray) -> FloatArray:
    """Evaluate the densities [K, T] of logit θ at t [T], by the textbook formula."""
    a, b = a[:, None], b[:, None]
    return np.asarray(np.exp(a * log_expit(t) + b * log_expit(-t) - betaln(a, b)), dtype=np.float64)


def below(a: FloatArray, b: FloatArray, t: FloatArray) -> FloatArray:
    """Evaluate P(logit θ <= t) [K, T]; the larger half by its complement, whose argument does not round to 1."""
    a, b = a[:, None], b[:, None]
    return np.asarray(np.where(t < 0.0, betainc(a, b, expit(t)), 1.0 - betainc(b, a, expit(-t))), dtype=np.float64)


def _others(f: FloatArray) -> FloatArray:
    return np.stack([np.prod(np.delete(f, k, axis=0), axis=0) for k in range(f.shape[0])])


def _cuts(a: FloatArray, b: FloatArray) -> FloatArray:
    """Cut the line at every standard deviation of every arm, and sparsely out to tails of e^-45."""
    width = np.sqrt(polygamma(1, a) + polygamma(1, b))
    middle = np.log(a / b)
    low = np.maximum(middle - np.maximum(10.0 * width, 45.0 / a), -700.0)
    high = np.minimum(middle + np.maximum(10.0 * width, 45.0 / b), 700.0)
    steps = (middle[:, None] + width[:, None] * np.arange(-10.0, 10.5)).ravel()
    cuts = np.unique(np.concatenate([steps, low, high, np.linspace(low.min(), high.max(), 60)]))
    cuts = cuts[(cuts >= low.min()) & (cuts <= high.max())]
    # Two cuts much closer than the narrowest density would only cost time.
    place = np.floor((cuts - cuts[0]) / (0.5 * width.min()))
    kept = np.concatenate([[True], place[1:] > place[:-1]])
    kept[-1] = True
    return np.asarray(cuts[kept], dtype=np.float64)


def slow_probability_best(a: FloatArray, b: FloatArray, *, nodes: int = 40) -> FloatArray:
    """Integrate P(best) [K] arm by arm over many panels, with the incomplete Beta function at every node.

    It shares no step with the code under test but the definition of the integral. The sum of the result is not
    normalised, so its distance from 1 tells how good it is.
    """
    x, w = leggauss(nodes)
    cuts = _cuts(a, b)
    half = 0.5 * np.diff(cuts)
    t = (0.5 * (cuts[1:] + cuts[:-1])[:, None] + half[:, None] * x).ravel()
    weights = (half[:, None] * w).ravel()
    best: FloatArray = (density(a, b, t) * _others(below(a, b, t))) @ weights
    return best


def adaptive_probability_best(a: FloatArray, b: FloatArray) -> FloatArray:
    """Integrate P(best) [K] by adaptive Gauss-Kronrod quadrature, as a check of the slow reference."""

    def integrand(t: float) -> FloatArray:
        points = np.array([t])
        return np.asarray((density(a, b, points) * _others(below(a, b, points)))[:, 0], dtype=np.float64)

    cuts = _cuts(a, b)
    best, _ = quad_vec(integrand, cuts[0], cuts[-1], epsabs=1e-12, epsrel=1e-12, points=cuts[1:-1:4], limit=2_000)
    return np.asarray(best, dtype=np.float64)
