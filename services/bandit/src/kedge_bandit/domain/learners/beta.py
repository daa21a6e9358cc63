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
from kedge_bandit.domain.learners.learner import Belief, EvidenceTable

SMALLEST_SHAPE = 0.5


def beta_shapes(evidence: EvidenceTable, bucket: int | None, strength: float = 6.0) -> tuple[FloatArray, FloatArray]:
    """Give the shapes a, b [K] of every action's belief in a bucket (None: one without evidence of its own).

    >>> a, b = beta_shapes(EvidenceTable.empty(1, 2), 0)
    >>> a.tolist(), b.tolist()
    ([1.0, 1.0], [1.0, 1.0])
    """
    actions = evidence.n.shape[1]
    n_own, s_own = (
        (np.zeros(actions), np.zeros(actions)) if bucket is None else (evidence.n[bucket], evidence.s[bucket])
    )
    n_others = np.maximum(evidence.n.sum(axis=0) - n_own, 0.0)
    s_others = np.minimum(np.maximum(evidence.s.sum(axis=0) - s_own, 0.0), n_others)
    mean = (1.0 + s_others) / (2.0 + n_others)
    worth = np.minimum(strength, 2.0 + n_others)
    a = worth * mean + s_own
    b = worth * (1.0 - mean) + np.maximum(n_own - s_own, 0.0)
    return np.maximum(a, SMALLEST_SHAPE), np.maximum(b, SMALLEST_SHAPE)


@dataclass(frozen=True, slots=True)
class BetaLearner:
    """Believe in independent Betas and integrate P(best) exactly; the default up to six live cells."""

    name: str = "beta"

    def believe(
        self, evidence: EvidenceTable, *, bucket: int | None, eligible: BoolArray, strength: float = 6.0, seed: int = 0
    ) -> Belief:
        """Read the belief about one bucket; `seed` is not used.

        >>> evidence = EvidenceTable(np.array([[4.0, 4.0]]), np.array([[4.0, 0.0]]), np.array([[4.0, 0.0]]))
        >>> BetaLearner().believe(evidence, bucket=0, eligible=np.array([True, True])).mean.round(3).tolist()
        [0.833, 0.167]
        """
        a, b = beta_shapes(evidence, bucket, strength)
        q = np.zeros(a.size)
        q[eligible] = probability_best(a[eligible], b[eligible])
        return Belief(q, a / (a + b))
