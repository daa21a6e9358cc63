"""Say what every learner takes and gives, so that a new one is one file and one line in the registry."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kedge_bandit.domain.arrays import BoolArray, FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class EvidenceTable:
    """Hold the discounted sums of one policy, all at one policy time.

    Attributes:
        n: weights [B, K], buckets by actions in canonical order; 0 where nothing was seen.
        s: sums of rewards [B, K], 0 ≤ s ≤ n.
        s2: sums of squared rewards [B, K], 0 ≤ s2 ≤ s.

    Raises:
        ValueError: the shapes differ, or a value is negative or not finite.
    """

    n: FloatArray
    s: FloatArray
    s2: FloatArray

    def __post_init__(self) -> None:
        """Refuse sums that no evidence can have."""
        if self.n.ndim != 2 or not self.n.shape == self.s.shape == self.s2.shape:
            raise ValueError(
                f"evidence must be three equal [B, K], got {self.n.shape}, {self.s.shape}, {self.s2.shape}"
            )
        if not all(np.isfinite(sums).all() and (sums >= 0.0).all() for sums in (self.n, self.s, self.s2)):
            raise ValueError("evidence must be finite and non-negative")

    @classmethod
    def empty(cls, buckets: int, actions: int) -> "EvidenceTable":
        """Start with nothing seen.

        >>> EvidenceTable.empty(2, 3).n.shape
        (2, 3)
        """
        return cls(np.zeros((buckets, actions)), np.zeros((buckets, actions)), np.zeros((buckets, actions)))


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """Hold what a learner believes about one bucket.

    Attributes:
        q: P(action is the best of the eligible) [K]; 0 off the eligible set, sums to 1 on it.
        mean: posterior mean reward [K] in [0, 1], of ineligible actions too.
    """

    q: FloatArray
    mean: FloatArray


class Learner(Protocol):
    """Turn evidence into belief. Pure: the same arguments give the same bits, and nothing is kept between calls."""

    @property
    def name(self) -> str:
        """Name in policies and in the registry."""
        ...

    def believe(
        self, evidence: EvidenceTable, *, bucket: int | None, eligible: BoolArray, strength: float, seed: int
    ) -> Belief:
        """Read the belief about one bucket.

        Args:
            evidence: of the whole policy.
            bucket: row of the evidence; None for a bucket without evidence, which still learns from the others (the
                cold belief).
            eligible: mask [K], at least one True.
            strength: how many episodes the other buckets may count for, at least 0; 6 is the vetted default.
            seed: for learners that integrate by drawing; others ignore it.

        Raises:
            NumericalFailure: the belief cannot be computed.
        """
        ...
