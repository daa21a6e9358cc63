"""Believe in a normal reward of unknown mean and variance per bucket and action: a Normal-Gamma, so means are Student.

    κ = κ₀ + N,  m = (κ₀·m₀ + S)/κ,  α = α₀ + N/2,  β = α₀·v₀ + ½·(S2 − S²/N) + ½·κ₀·N·(S/N − m₀)²/κ
    θ ~ m + sqrt(β/(α·κ))·Student(2α)

(Murphy, Conjugate Bayesian analysis of the Gaussian distribution, 2007, eq. 85-100.) m₀ is what `beta` borrows from the
action's other buckets. v₀ is the variance within cells, pooled over the whole policy and started at that of a coin, and
κ₀ = 4·v₀·s′: the prior counts for s′ episodes of a coin and so for fewer where rewards spread less, because how far
apart actions are has nothing to do with how much one action's rewards spread.
"""

from dataclasses import dataclass

import numpy as np

from kedge_bandit.domain.arrays import BoolArray, FloatArray
from kedge_bandit.domain.best_student import probability_best_student
from kedge_bandit.domain.learners.beta import borrowed
from kedge_bandit.domain.learners.learner import EvidenceTable, Posterior
from kedge_bandit.domain.learners.pooled import LEAST_VARIANCE, MOST_VARIANCE, pooled_variance, within

COIN_WORTH = 2.0
"""Episodes that the start of v₀ counts for."""
SHAPE = 2.0
"""α₀: v₀ counts for 2·α₀ episodes of each cell."""


@dataclass(frozen=True, slots=True, eq=False)
class Students:
    """Hold independent Students: centre, scale and degrees of freedom [K]; infinite degrees are normals."""

    centre: FloatArray
    scale: FloatArray
    degrees: FloatArray

    @property
    def mean(self) -> FloatArray:
        """Means [K]."""
        return self.centre

    def best(self, eligible: BoolArray, seed: int = 0) -> FloatArray:
        """Integrate P(best) exactly; `seed` is not used."""
        return probability_best_student(self.centre[eligible], self.scale[eligible], self.degrees[eligible])

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Draw means [size, K]."""
        shape = (size, self.centre.size)
        if np.isinf(self.degrees).all():
            return self.centre + self.scale * rng.standard_normal(shape)
        return self.centre + self.scale * rng.standard_t(self.degrees, shape)


def students(
    n: FloatArray, s: FloatArray, squares: FloatArray, *, mean: FloatArray, worth: FloatArray, variance: FloatArray
) -> Students:
    """Read the belief of cells; every argument [..., K].

    Args:
        squares: sums of squares around the cells' means.
        mean: m₀.
        worth: s′, episodes of a coin.
        variance: v₀.
    """
    prior = 4.0 * variance * np.maximum(worth, 1.0)
    weight = prior + n
    centre = (prior * mean + s) / weight
    away = np.divide(s, n, out=np.array(mean, dtype=np.float64), where=n > 0.0) - mean
    shape = SHAPE + 0.5 * n
    rate = SHAPE * variance + 0.5 * (squares + prior * n * away * away / weight)
    return Students(centre, np.sqrt(np.maximum(rate / shape, LEAST_VARIANCE) / weight), 2.0 * shape)


@dataclass(frozen=True, slots=True)
class GaussianLearner:
    """Believe in independent Students and integrate P(best) exactly; for rewards that spread little."""

    name: str = "gaussian"

    def posterior(self, evidence: EvidenceTable, *, bucket: int | None, strength: float = 6.0) -> Posterior:
        """Read the belief about one bucket.

        >>> evidence = EvidenceTable(np.array([[4.0, 4.0]]), np.array([[4.0, 0.0]]), np.array([[4.0, 0.0]]))
        >>> GaussianLearner().posterior(evidence, bucket=0).mean.round(3).tolist()
        [0.944, 0.056]
        """
        mean, worth = borrowed(evidence, bucket, strength)
        n, s, s2 = evidence.own(bucket)
        squares = within(evidence.n, evidence.s, evidence.s2)
        variance = pooled_variance(evidence.n, squares, start=MOST_VARIANCE, worth=COIN_WORTH)
        return students(n, s, within(n, s, s2), mean=mean, worth=worth, variance=np.full(n.size, variance))
