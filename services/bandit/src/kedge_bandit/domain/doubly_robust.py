"""Estimate off-policy with a model of the reward beside the weights: DR to check SNIPS by, SWITCH where tails are long.

With q̂(x, a) what the model expects, p(a|x) what the log drew from, and π(a|x) the target:

    DR      v = mean( Σ_a π(a|x) q̂(x, a) + w (r − q̂(x, a_logged)) )          Dudík, Langford and Li (2011), eq. 4
    SWITCH  the same with w·[w ≤ τ]: the model alone speaks where the weight is above τ   Wang, Agarwal and Dudík (2017)

DR is unbiased whatever the model says, since propensities are exact. SWITCH trades that for less variance: τ is where
variance plus the square of the largest possible bias, mean Σ_a π(a|x)·[π(a|x)/p(a|x) > τ] for rewards in [0, 1], is
least (eq. 9 there). The model is a mean by bucket and action, drawn towards the action's mean over all buckets; each
half of the rows is predicted from the other half, so that no reward predicts itself.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from kedge_bandit.domain.arrays import BoolArray, FloatArray, IntArray
from kedge_bandit.domain.off_policy import Estimate

_STRENGTH: Final = 6.0
"""Episodes that the wider mean counts for; the learners' default prior strength."""
_NEUTRAL: Final = 0.5


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Log:
    """Randomised decisions with their rewards, one row each; actions are places in the canonical order.

    Attributes:
        rewards: in [0, 1] [n].
        actions: the one that was drawn [n].
        buckets: place of the bucket [n].
        logged: p(a|x), what it was drawn from [n, K]; that of the drawn action is positive.
    """

    rewards: FloatArray
    actions: IntArray
    buckets: IntArray
    logged: FloatArray

    def weights(self, target: FloatArray) -> FloatArray:
        """Give w [n] of a target π [n, K]."""
        return self.of_drawn(target) / self.of_drawn(self.logged)

    def of_drawn(self, table: FloatArray) -> FloatArray:
        """Read the drawn action's column of a table [n, K]."""
        drawn: FloatArray = table[np.arange(len(self.actions)), self.actions]
        return drawn

    def out_of_reach(self, target: FloatArray) -> float:
        """Give the share of a target's probability that lies on actions the log could not have drawn."""
        return float(np.mean(np.sum(np.where(self.logged > 0.0, 0.0, target), axis=1)))


def expected_rewards(log: Log) -> FloatArray:
    """Predict q̂ [n, K] of each row from the rows of the other half.

    >>> log = Log(rewards=np.array([1.0, 1.0, 0.0, 0.0]), actions=np.array([0, 0, 1, 1]),
    ...           buckets=np.zeros(4, dtype=np.int64), logged=np.full((4, 2), 0.5))
    >>> expected_rewards(log).round(3).tolist()[0]
    [0.633, 0.367]
    """
    rows, actions = log.logged.shape
    predicted = np.empty((rows, actions))
    halves = np.arange(rows) % 2
    for half in (0, 1):
        predicted[halves == half] = _means(log, halves != half)[log.buckets[halves == half]]
    return predicted


def doubly_robust(log: Log, target: FloatArray, expected: FloatArray, switch: float = np.inf) -> Estimate:
    """Estimate a target's value by DR, or by SWITCH where weights above `switch` are left to the model.

    Args:
        target: π [n, K].
        expected: q̂ [n, K].
        switch: τ.

    >>> log = Log(rewards=np.array([1.0, 0.0]), actions=np.array([0, 1]), buckets=np.array([0, 0]),
    ...           logged=np.full((2, 2), 0.5))
    >>> doubly_robust(log, np.array([[1.0, 0.0], [1.0, 0.0]]), np.full((2, 2), 0.75)).value
    1.0
    """
    weights = log.weights(target)
    spoken = np.where(weights <= switch, weights, 0.0)
    terms = np.sum(target * expected, axis=1) + spoken * (log.rewards - log.of_drawn(expected))
    value = float(np.mean(terms))
    return Estimate(value, terms - value)


def switch_point(log: Log, target: FloatArray, expected: FloatArray) -> float:
    """Choose τ among powers of two; infinity, which is DR, where no weight is worth giving up.

    >>> log = Log(rewards=np.array([1.0, 0.0]), actions=np.array([0, 1]), buckets=np.array([0, 0]),
    ...           logged=np.full((2, 2), 0.5))
    >>> switch_point(log, log.logged, np.full((2, 2), 0.5))
    inf
    """
    reach = np.divide(target, log.logged, out=np.full_like(target, np.inf), where=log.logged > 0.0)
    largest = float(np.max(log.weights(target)))
    points = [np.inf, *(2.0**power for power in range(1, 31) if 2.0**power < largest)]

    def risk(point: float) -> float:
        bias = float(np.mean(np.sum(np.where(reach > point, target, 0.0), axis=1)))
        return doubly_robust(log, target, expected, point).standard_error ** 2 + bias**2

    return min(points, key=risk)


def _means(log: Log, told: BoolArray) -> FloatArray:
    """Give the means [B, K] that the told rows say, each drawn towards a wider one."""
    actions = log.logged.shape[1]
    shape = (int(log.buckets.max()) + 1, actions)
    place = log.buckets[told] * actions + log.actions[told]
    n = np.bincount(place, minlength=shape[0] * actions).reshape(shape).astype(np.float64)
    s = np.bincount(place, weights=log.rewards[told], minlength=shape[0] * actions).reshape(shape)
    overall = float(s.sum() / n.sum()) if n.sum() else _NEUTRAL
    wide = (s.sum(axis=0) + _STRENGTH * overall) / (n.sum(axis=0) + _STRENGTH)
    means: FloatArray = (s + _STRENGTH * wide) / (n + _STRENGTH)
    return means
