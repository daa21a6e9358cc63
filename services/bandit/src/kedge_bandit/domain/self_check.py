"""Compare what was drawn with what was logged, so that a wrong propensity cannot go on unseen.

Over randomised first-of-episode decisions t with published vector p_t and chosen action A_t:

    d = Σ (1[A_t = a] − p_t(a))    V = Σ (diag p_t − p_t p_tᵀ)    dᵀ V⁻¹ d ~ χ²(K − 1)

Actions with Σp < 5 are merged. The state is looked at each time the count passes 200·1.2^k, and alarms at p < 1e-5.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from scipy.special import gammaincc

from kedge_bandit.domain.arrays import FloatArray, IntArray

FIRST_LOOK = 200.0
LOOK_GROWTH = 1.2
ALARM_BELOW = 1e-5
LEAST_EXPECTED = 5.0
_RANK_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Finding:
    """Hold one look at the self-check.

    Attributes:
        p_value: probability of a discrepancy at least this large if all logged propensities are true; 0 when an
            action was chosen that had none.
    """

    decisions: int
    chi_square: float
    degrees_of_freedom: int
    p_value: float

    @property
    def alarm(self) -> bool:
        """Whether learning must hold until a person clears it."""
        return self.p_value < ALARM_BELOW


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SelfCheck:
    """Hold the sums of one policy over all its versions; actions are known by key, because they come and go.

    Attributes:
        keys: action keys [K] in canonical order.
        count: decisions added.
        expected: Σp [K].
        excess: d [K].
        variance: V [K, K].
        impossible: decisions whose chosen action had probability 0.
        looks: number k of the next look.
    """

    keys: tuple[str, ...]
    count: int
    expected: FloatArray
    excess: FloatArray
    variance: FloatArray
    impossible: int
    looks: int

    @classmethod
    def start(cls) -> "SelfCheck":
        """Begin with no decision.

        >>> SelfCheck.start().due
        False
        """
        none = np.zeros(0)
        return cls(keys=(), count=0, expected=none, excess=none, variance=np.zeros((0, 0)), impossible=0, looks=0)

    def add(self, keys: Sequence[str], p: FloatArray, chosen: IntArray) -> "SelfCheck":
        """Add a batch of decisions over the same actions.

        Args:
            keys: their action keys [K'], in the order of the columns of p.
            p: published vectors [T, K'], each summing to 1.
            chosen: column of the chosen action [T].
        """
        wide = self._over(keys)
        at = np.array([wide.keys.index(key) for key in keys], dtype=np.int64)
        hits = np.bincount(chosen, minlength=len(keys)).astype(np.float64)
        sums = p.sum(axis=0)
        expected, excess, variance = wide.expected.copy(), wide.excess.copy(), wide.variance.copy()
        expected[at] += sums
        excess[at] += hits - sums
        variance[np.ix_(at, at)] += np.diag(sums) - p.T @ p
        return SelfCheck(
            keys=wide.keys,
            count=self.count + chosen.size,
            expected=expected,
            excess=excess,
            variance=variance,
            impossible=self.impossible + int(np.count_nonzero(p[np.arange(chosen.size), chosen] <= 0.0)),
            looks=self.looks,
        )

    def _over(self, keys: Sequence[str]) -> "SelfCheck":
        """Give the same state over these keys as well."""
        if set(keys) <= set(self.keys):
            return self
        union = tuple(sorted({*self.keys, *keys}))
        at = np.array([union.index(key) for key in self.keys], dtype=np.int64)
        expected, excess = np.zeros(len(union)), np.zeros(len(union))
        variance = np.zeros((len(union), len(union)))
        expected[at], excess[at], variance[np.ix_(at, at)] = self.expected, self.excess, self.variance
        return SelfCheck(
            keys=union,
            count=self.count,
            expected=expected,
            excess=excess,
            variance=variance,
            impossible=self.impossible,
            looks=self.looks,
        )

    @property
    def due(self) -> bool:
        """Whether the count has passed the next look at 200·1.2^k."""
        return self.count >= FIRST_LOOK * LOOK_GROWTH**self.looks

    def look(self) -> "tuple[SelfCheck, Finding]":
        """Judge now, and set the next look beyond the present count."""
        passed = 0 if self.count < FIRST_LOOK else 1 + int(log(self.count / FIRST_LOOK) / log(LOOK_GROWTH) + 1e-9)
        after = SelfCheck(
            keys=self.keys,
            count=self.count,
            expected=self.expected,
            excess=self.excess,
            variance=self.variance,
            impossible=self.impossible,
            looks=max(self.looks, passed),
        )
        return after, self.finding()

    def finding(self) -> Finding:
        """Judge without using up a look, for display."""
        group = _groups(self.expected)
        d = group @ self.excess
        variance = group @ self.variance @ group.T
        scale = np.sqrt(np.maximum(np.diag(variance), 0.0))
        varied = scale > _RANK_TOLERANCE * max(1.0, float(scale.max(initial=0.0)))
        d, scale = d[varied], scale[varied]
        roots, axes = np.linalg.eigh(variance[np.ix_(varied, varied)] / np.outer(scale, scale))
        real = roots > _RANK_TOLERANCE * max(1, d.size)
        along = axes.T[real] @ (d / scale)
        degrees = int(np.count_nonzero(real))
        chi_square = float(np.sum(along * along / roots[real]))
        p_value = float(gammaincc(degrees / 2.0, chi_square / 2.0)) if degrees else 1.0
        return Finding(self.count, chi_square, degrees, 0.0 if self.impossible else p_value)


def _groups(expected: FloatArray) -> FloatArray:
    """Build the matrix [G, K] that adds up actions with Σp < 5, and with them the rarest others until 5 are reached."""
    order = np.argsort(expected, kind="stable")
    running = np.cumsum(expected[order])
    rare = int(np.count_nonzero(expected < LEAST_EXPECTED))
    merged = 0 if rare == 0 else max(rare, int(np.count_nonzero(running < LEAST_EXPECTED)) + 1)
    merged = min(merged, expected.size)
    rows = np.identity(expected.size)[order]
    if merged <= 1:
        return rows
    return np.concatenate([rows[:merged].sum(axis=0, keepdims=True), rows[merged:]], axis=0)
