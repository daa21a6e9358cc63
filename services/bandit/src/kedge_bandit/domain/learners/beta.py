"""Believe in a Beta per bucket and action, with the action's other buckets as prior.

    Beta(s′·m + S, s′·(1 − m) + N − S),  m = (1 + S_o)/(2 + N_o),  s′ = min(s, 2 + N_o)

N, S are the bucket's own discounted sums and N_o, S_o those of the same action in the *other* buckets. The own bucket
is left out because counting it twice makes beliefs too sharp and locks runs in. One bucket is exactly Beta(1, 1) plus
its evidence. Rewards in [0, 1] that are not 0 or 1 are wider apart in this belief than in truth, never narrower.
"""

from dataclasses import dataclass

import numpy as np

from kedge_bandit.domain.arrays import BoolArray, FloatArray
from kedge_bandit.domain.best_arm import probability_best
from kedge_bandit.domain.learners.learner import EvidenceTable, Posterior

SMALLEST_SHAPE = 0.5


def borrowed(evidence: EvidenceTable, bucket: int | None, strength: float) -> tuple[FloatArray, FloatArray]:
    """Give m and s′ [K]: what an action's other buckets say about its mean, and for how many episodes that counts."""
    n, s = evidence.others(bucket)
    return (1.0 + s) / (2.0 + n), np.minimum(strength, 2.0 + n)


def beta_shapes(evidence: EvidenceTable, bucket: int | None, strength: float = 6.0) -> tuple[FloatArray, FloatArray]:
    """Give the shapes a, b [K] of every action's belief in a bucket (None: one without evidence of its own).

    >>> a, b = beta_shapes(EvidenceTable.empty(("",), ("a", "b")), 0)
    >>> a.tolist(), b.tolist()
    ([1.0, 1.0], [1.0, 1.0])
    """
    n, s, _ = evidence.own(bucket)
    mean, worth = borrowed(evidence, bucket, strength)
    a = worth * mean + s
    b = worth * (1.0 - mean) + np.maximum(n - s, 0.0)
    return np.maximum(a, SMALLEST_SHAPE), np.maximum(b, SMALLEST_SHAPE)


@dataclass(frozen=True, slots=True, eq=False)
class Betas:
    """Hold independent Betas with shapes a, b [K]."""

    a: FloatArray
    b: FloatArray

    @property
    def mean(self) -> FloatArray:
        """Means [K]."""
        return self.a / (self.a + self.b)

    def best(self, eligible: BoolArray, seed: int = 0) -> FloatArray:
        """Integrate P(best) exactly; `seed` is not used."""
        return probability_best(self.a[eligible], self.b[eligible])

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Draw means [size, K]."""
        return rng.beta(self.a, self.b, (size, self.a.size))


@dataclass(frozen=True, slots=True)
class BetaLearner:
    """Believe in independent Betas and integrate P(best) exactly; the default up to six actions."""

    name: str = "beta"

    def posterior(self, evidence: EvidenceTable, *, bucket: int | None, strength: float = 6.0) -> Posterior:
        """Read the belief about one bucket.

        >>> evidence = EvidenceTable(np.array([[4.0, 4.0]]), np.array([[4.0, 0.0]]), np.array([[4.0, 0.0]]))
        >>> BetaLearner().posterior(evidence, bucket=0).mean.round(3).tolist()
        [0.833, 0.167]
        """
        return Betas(*beta_shapes(evidence, bucket, strength))
