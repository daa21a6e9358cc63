"""Believe in a Gaussian over joint actions in which actions that share arms are alike.

    cov(θ_a, θ_b) = s0² + s1²·#shared arms + s2²·#shared pairs of arms + s3²·[a = b]
    (s0, s1, s2, s3) = (.30, .08, .05, .02)

An analysis of variance as a prior: a level, an effect of every arm, one of every pair of arms, one of the action. So an
episode of one action says something about all that share an arm with it, and 36 actions are learned from little more
than their ten arms need, without the lock-in of a bandit per dimension, which cannot see that the best prompt depends
on the model.

Each reward adds noise. Its variance is measured: that within cells, pooled over the policy, which starts at .20 and
leaves it as episodes come (a fixed .20 learns ten times slower where rewards spread little).

The other buckets are one more Gaussian with the same kernel, correlated with the bucket's own: given all about them, an
action is still uncertain by a variance of .20/s, as if they had said s episodes' worth about it. The prior mean is
the mean of all rewards of the policy; s0 makes it matter little.
"""

from dataclasses import dataclass
from itertools import starmap
from operator import eq

import numpy as np

from kedge_bandit.domain.arrays import BoolArray, FloatArray
from kedge_bandit.domain.learners.learner import EvidenceTable, Posterior
from kedge_bandit.domain.learners.pooled import pooled_mean, pooled_variance, within
from kedge_bandit.domain.learners.regression import regress

LEVEL, ARM, PAIR, SELF = 0.30, 0.08, 0.05, 0.02
NOISE = 0.20
NOISE_WORTH = 20.0
"""Episodes that the start of the noise's variance counts for."""
DRAWS = 2_000


def kernel(actions: tuple[str, ...]) -> FloatArray:
    """Give the prior covariance [K, K] of actions by the arms that they share.

    >>> kernel(("a|x", "a|y", "b|x")).round(4).tolist()
    [[0.1057, 0.0964, 0.0964], [0.0964, 0.1057, 0.09], [0.0964, 0.09, 0.1057]]
    """
    arms = [action.split("|") for action in actions]
    shared = np.array([[sum(starmap(eq, zip(one, two, strict=True))) for two in arms] for one in arms], dtype=float)
    pairs = shared * (shared - 1.0) / 2.0
    return LEVEL**2 + ARM**2 * shared + PAIR**2 * pairs + SELF**2 * np.identity(len(actions))


def noise_of(n: FloatArray, s: FloatArray, s2: FloatArray) -> float:
    """Give the variance of rewards around their action's mean in a bucket, from the sums of all cells."""
    return pooled_variance(n, within(n, s, s2), start=NOISE, worth=NOISE_WORTH)


@dataclass(frozen=True, slots=True, eq=False)
class CorrelatedNormals:
    """Hold a joint normal: mean [K] and a root [K, F] of the covariance."""

    mean: FloatArray
    root: FloatArray

    def best(self, eligible: BoolArray, seed: int) -> FloatArray:
        """Count how often each eligible action is the best of 2,000 seeded draws."""
        drawn = self.draw(np.random.default_rng(seed), DRAWS)[:, eligible]
        return np.bincount(drawn.argmax(axis=1), minlength=drawn.shape[1]) / DRAWS

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Draw means [size, K], from the one triangular root whose diagonal is positive."""
        triangle = np.linalg.qr(self.root.T).R
        upright = triangle * np.where(np.diagonal(triangle) < 0.0, -1.0, 1.0)[:, None]
        drawn: FloatArray = self.mean + rng.standard_normal((size, self.mean.size)) @ upright
        return drawn


@dataclass(frozen=True, slots=True)
class AnovaLearner:
    """Believe in correlated actions and count seeded draws; the default above six actions."""

    name: str = "anova"

    def posterior(self, evidence: EvidenceTable, *, bucket: int | None, strength: float = 6.0) -> Posterior:
        """Read the belief about one bucket.

        >>> n = np.array([[9.0, 9.0, 0.0, 0.0]])  # the last two were never tried, and one shares arm b with the better
        >>> evidence = EvidenceTable(n, n * [0.2, 0.8, 0.0, 0.0], n, actions=("a|x", "b|x", "a|y", "b|y"))
        >>> AnovaLearner().posterior(evidence, bucket=0).mean.round(2).tolist()
        [0.42, 0.58, 0.45, 0.55]
        """
        n, s, _ = evidence.own(bucket)
        n_others, s_others = evidence.others(bucket)
        level, noise = pooled_mean(evidence.n, evidence.s), noise_of(evidence.n, evidence.s, evidence.s2)
        covariance = kernel(evidence.actions or tuple(map(str, range(n.size))))
        root = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
        apart = NOISE / strength if strength > 0.0 else np.inf
        alike = 1.0 - min(1.0, apart / covariance[0, 0])
        if alike == 0.0 or not n_others.any():
            weights, half = regress(root, n, s - n * level, noise=noise)
            return CorrelatedNormals(level + root @ weights, root @ half)
        blocks = _two_groups(alike, _concentration(evidence, bucket))
        rows = np.asarray(np.kron(blocks, root), dtype=np.float64)
        residuals = np.concatenate([s_others - n_others * level, s - n * level])
        weights, half = regress(rows, np.concatenate([n_others, n]), residuals, noise=noise)
        own = rows[n.size :]
        return CorrelatedNormals(level + own @ weights, own @ half)


def _concentration(evidence: EvidenceTable, bucket: int | None) -> float:
    """Give Σ share² of the other buckets' evidence: 1 where it is all in one of them, 1/B where B share it evenly."""
    weights = evidence.n.sum(axis=1)
    if bucket is not None:
        weights = np.delete(weights, bucket)
    shares = weights / weights.sum()
    return float(shares @ shares)


def _two_groups(alike: float, concentration: float) -> FloatArray:
    """Give the triangular root [2, 2] of the covariance between the mean of the other buckets and the bucket itself.

    Two buckets are correlated by `alike`; the more buckets a mean is taken of, the less of its own is left in it.

    >>> root = _two_groups(0.5, 0.2)
    >>> (root @ root.T).round(3).tolist()
    [[0.6, 0.5], [0.5, 1.0]]
    """
    others = np.sqrt(alike + (1.0 - alike) * concentration)
    common = alike / others
    return np.array([[others, 0.0], [common, np.sqrt(max(0.0, 1.0 - common * common))]])
