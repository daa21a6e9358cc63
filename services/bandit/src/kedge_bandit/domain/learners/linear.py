"""Believe in a linear model per action: the mean reward is a level and one weight for each class of each feature.

    θ_a(x) = m + x·w_a,  w_a ~ N(0, v/λ·I),  A_a = λI + Σ_b N_ba·x_b x_bᵀ
    w_a | evidence ~ N(A_a⁻¹ Σ_b (S_ba − N_ba·m)·x_b, v·A_a⁻¹)

(Agrawal and Goyal, Thompson sampling for contextual bandits with linear payoffs, 2013, on centred rewards.) x_b is 1
for the level and 1 for each class in the bucket's name, so what was seen in one bucket is believed of every bucket that
shares a class with it. It needs nothing but the fold: evidence of a bucket is evidence at its x. m is the mean of all
rewards. Given x the actions are independent normals, so P(best) is one exact integral.
"""

from dataclasses import dataclass

import numpy as np

from kedge_bandit.domain.arrays import FloatArray
from kedge_bandit.domain.learners.gaussian import Students
from kedge_bandit.domain.learners.learner import EvidenceTable, Posterior
from kedge_bandit.domain.learners.pooled import MOST_VARIANCE, pooled_mean
from kedge_bandit.domain.learners.regression import regress

PENALTY = 1.0
"""λ."""
NOISE = MOST_VARIANCE
"""v."""


def classes_of(bucket: str) -> list[tuple[str, str]]:
    """Read the features and classes in a bucket's name, which `context.bucket` made.

    >>> classes_of("task=math|words=2"), classes_of("")
    ([('task', 'math'), ('words', '2')], [])
    """
    parts = [part.partition("=") for part in bucket.split("|")] if bucket else []
    return [(name, value) for name, _, value in parts]


def features(buckets: tuple[str, ...]) -> FloatArray:
    """Give x [B, 1 + C] of every bucket: the level, then all classes that occur, sorted.

    >>> features(("task=code|words=0", "task=math|words=0")).tolist()
    [[1.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 1.0]]
    """
    classes = [classes_of(bucket) for bucket in buckets]
    column = {name: 1 + i for i, name in enumerate(sorted({each for own in classes for each in own}))}
    x = np.zeros((len(buckets), 1 + len(column)))
    x[:, 0] = 1.0
    for row, own in zip(x, classes, strict=True):
        row[[column[each] for each in own]] = 1.0
    return x


def weights(x: FloatArray, n: FloatArray, residuals: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Give mean [..., F] and root [..., F, F] of the weights of every action.

    Args:
        x: features [B, F].
        n, residuals: N and S − N·m [..., B] of the actions along leading axes.
    """
    prior = np.sqrt(NOISE / PENALTY)
    mean, root = regress(x * prior, n, residuals, noise=NOISE)
    return mean * prior, root * prior


@dataclass(frozen=True, slots=True)
class LinearLearner:
    """Believe in a linear model per action and integrate P(best) exactly; for many buckets of several features."""

    name: str = "linear"

    def posterior(self, evidence: EvidenceTable, *, bucket: int | None, strength: float = 6.0) -> Posterior:
        """Read the belief about one bucket; `strength` is not used, λ is the prior's.

        The cold belief is that of a bucket whose classes were all never seen.

        >>> n = np.array([[9.0, 9.0], [0.0, 0.0]])
        >>> evidence = EvidenceTable(n, n * [0.2, 0.8], n, buckets=("task=math|words=1", "task=math|words=2"))
        >>> LinearLearner().posterior(evidence, bucket=1).mean.round(2).tolist()
        [0.31, 0.69]
        """
        buckets, actions = evidence.n.shape
        names = evidence.buckets or tuple(map(str, range(buckets)))
        level = pooled_mean(evidence.n, evidence.s)
        x = features(names)
        mean, root = weights(x, evidence.n.T, (evidence.s - evidence.n * level).T)
        if bucket is not None:
            at, unseen = x[bucket], 0
        else:
            at, unseen = np.identity(x.shape[1])[0], max((len(classes_of(name)) for name in names), default=0)
        variance = ((at @ root) ** 2).sum(axis=-1) + unseen * NOISE / PENALTY
        return Students(level + mean @ at, np.sqrt(variance), np.full(actions, np.inf))
