"""Say what every learner takes and gives, so that a new one is one file and one line in the registry."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kedge_bandit.domain.arrays import BoolArray, FloatArray
from kedge_bandit.domain.errors import NumericalFailure

SUM_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class EvidenceTable:
    """Hold the discounted sums of one policy, all at one policy time, and the names of their rows and columns.

    Attributes:
        n: weights [B, K], buckets by actions in canonical order; 0 where nothing was seen.
        s: sums of rewards [B, K], 0 ≤ s ≤ n.
        s2: sums of squared rewards [B, K], 0 ≤ s2 ≤ s.
        buckets: names [B] as `context.bucket` makes them: which features two buckets share. Empty: nothing is known.
        actions: keys [K], arm ids joined by "|": which arms two actions share. Empty: nothing is known.

    Raises:
        ValueError: the shapes differ, or a value is negative or not finite.
    """

    n: FloatArray
    s: FloatArray
    s2: FloatArray
    buckets: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse sums that no evidence can have."""
        if self.n.ndim != 2 or not self.n.shape == self.s.shape == self.s2.shape:
            raise ValueError(
                f"evidence must be three equal [B, K], got {self.n.shape}, {self.s.shape}, {self.s2.shape}"
            )
        if len(self.buckets) not in (0, self.n.shape[0]) or len(self.actions) not in (0, self.n.shape[1]):
            raise ValueError(f"{len(self.buckets)} buckets and {len(self.actions)} actions name {self.n.shape} sums")
        if not all(np.isfinite(sums).all() and (sums >= 0.0).all() for sums in (self.n, self.s, self.s2)):
            raise ValueError("evidence must be finite and non-negative")

    @classmethod
    def empty(cls, buckets: tuple[str, ...], actions: tuple[str, ...]) -> "EvidenceTable":
        """Start with nothing seen.

        >>> EvidenceTable.empty(("long", "short"), ("a", "b", "c")).n.shape
        (2, 3)
        """
        n, s, s2 = np.zeros((3, len(buckets), len(actions)))
        return cls(n, s, s2, buckets, actions)

    def own(self, bucket: int | None) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Read the sums n, s, s2 [K] of one bucket; zeros for None."""
        if bucket is None:
            nothing = np.zeros(self.n.shape[1])
            return nothing, nothing, nothing
        return self.n[bucket], self.s[bucket], self.s2[bucket]

    def others(self, bucket: int | None) -> tuple[FloatArray, FloatArray]:
        """Add up n and s [K] of all buckets but one; 0 ≤ s ≤ n.

        >>> table = EvidenceTable(np.array([[2.0], [5.0]]), np.array([[1.0], [4.0]]), np.array([[1.0], [4.0]]))
        >>> [part.tolist() for part in table.others(0)], [part.tolist() for part in table.others(None)]
        ([[5.0], [4.0]], [[7.0], [5.0]])
        """
        n_own, s_own, _ = self.own(bucket)
        n = np.maximum(self.n.sum(axis=0) - n_own, 0.0)
        return n, np.minimum(np.maximum(self.s.sum(axis=0) - s_own, 0.0), n)


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """Hold what a learner believes about one bucket.

    Attributes:
        q: P(action is the best of the eligible) [K]; 0 off the eligible set, sums to 1 on it.
        mean: posterior mean reward [K] in [0, 1], of ineligible actions too.
    """

    q: FloatArray
    mean: FloatArray


class Posterior(Protocol):
    """Hold the joint belief about the mean rewards of all actions of a bucket."""

    @property
    def mean(self) -> FloatArray:
        """Posterior mean [K]; a Gaussian one may lie outside [0, 1]."""
        ...

    def best(self, eligible: BoolArray, seed: int) -> FloatArray:
        """Give P(action is the best) over the eligible actions alone [E], in order.

        Args:
            eligible: mask [K], at least one True.
            seed: for those that integrate by drawing; others ignore it.

        Raises:
            NumericalFailure: it cannot be computed.
        """
        ...

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Draw mean rewards [size, K], for benches and tests; its argmax has the law of `best`."""
        ...


class Learner(Protocol):
    """Turn evidence into belief. Pure: the same arguments give the same bits, and nothing is kept between calls."""

    @property
    def name(self) -> str:
        """Name in policies and in the registry."""
        ...

    def posterior(self, evidence: EvidenceTable, *, bucket: int | None, strength: float) -> Posterior:
        """Read the belief about one bucket.

        Args:
            evidence: of the whole policy.
            bucket: row of the evidence; None for a bucket without evidence, which still learns from the others (the
                cold belief).
            strength: how many episodes the other buckets may count for, at least 0; 6 is the vetted default.

        Raises:
            NumericalFailure: the belief cannot be computed.
        """
        ...


def believe(
    learner: Learner,
    evidence: EvidenceTable,
    *,
    bucket: int | None,
    eligible: BoolArray,
    strength: float = 6.0,
    seed: int = 0,
) -> Belief:
    """Read what is published of a belief, and refuse what is no belief.

    Args:
        eligible: mask [K], at least one True.
        seed: for learners that integrate by drawing; others ignore it.

    Raises:
        NumericalFailure: the belief cannot be computed; nothing may be published from it.
    """
    posterior = learner.posterior(evidence, bucket=bucket, strength=strength)
    q = np.zeros(eligible.size)
    q[eligible] = posterior.best(eligible, seed)
    total, least = float(q.sum()), float(q.min())
    if not (abs(total - 1.0) <= SUM_TOLERANCE and least >= 0.0):
        raise NumericalFailure("sum of the probabilities of being best", total)
    mean = posterior.mean
    if not np.isfinite(mean).all():
        raise NumericalFailure("smallest mean of a belief", float(mean.min()))
    return Belief(q, np.clip(mean, 0.0, 1.0))
