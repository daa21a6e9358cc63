"""Play many runs of a bandit at once, drawing from beliefs that are renewed as the service renews them.

A belief is renewed when evidence grew by 2 %, at least one episode, as `application/publish.py` does; between two
renewals choices do not depend on each other, so they are made together. Drawing from a belief instead of from its
integrated P(best) leaves the law of a run as it is. Beliefs are computed by the learners' own functions, which take
runs as leading axes; `disagreement` checks the arrangement against the service's own P(best).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kedge_bandit.application.publish import GROWTH
from kedge_bandit.domain.arrays import FloatArray, IntArray
from kedge_bandit.domain.learners.anova import DRAWS, kernel, noise_of
from kedge_bandit.domain.learners.beta import beta_shapes
from kedge_bandit.domain.learners.gaussian import COIN_WORTH, students
from kedge_bandit.domain.learners.learner import EvidenceTable, Learner, believe
from kedge_bandit.domain.learners.linear import features, weights
from kedge_bandit.domain.learners.pooled import MOST_VARIANCE, pooled_mean, pooled_variance, within
from kedge_bandit.domain.learners.regression import regress

Sums = tuple[FloatArray, FloatArray, FloatArray]
"""Weights, rewards and squared rewards [R, B, K] of runs, buckets and actions."""
Draw = Callable[[np.random.Generator, int], FloatArray]
"""Draws mean rewards [size, R, B, K]."""
Read = Callable[[Sums], Draw]
Rewards = Callable[[np.random.Generator, FloatArray], FloatArray]
"""Draws rewards of the given means."""
CHECKED_DRAWS = 20_000


@dataclass(frozen=True, slots=True)
class Played:
    """What came of it.

    Attributes:
        regret: by step and run [T, R], each step against the best action of its bucket.
        late: how often each action was served in the last tenth [R, B, K].
        sums: all evidence at the end.
    """

    regret: FloatArray
    late: FloatArray
    sums: Sums

    @property
    def total(self) -> FloatArray:
        """Regret of each run [R]."""
        return np.asarray(self.regret.sum(axis=0))


def bernoulli(rng: np.random.Generator, mean: FloatArray) -> FloatArray:
    """Draw rewards that are 0 or 1."""
    return (rng.random(mean.shape) < mean).astype(np.float64)


def spread(deviation: float) -> Rewards:
    """Draw rewards that spread little around their means, as a composite of many signals does."""
    return lambda rng, mean: np.clip(mean + rng.normal(0.0, deviation, mean.shape), 0.0, 1.0)


def play(means: FloatArray, read: Read, rewards: Rewards, *, steps: int, seed: int) -> Played:
    """Play all runs to the end; buckets come evenly and at random, the same in every run.

    Args:
        means: mean rewards [R, B, K].
    """
    rng = np.random.default_rng(seed)
    runs, buckets, _ = means.shape
    sums = (np.zeros(means.shape), np.zeros(means.shape), np.zeros(means.shape))
    gaps = means.max(axis=2, keepdims=True) - means
    regret, late = np.zeros((steps, runs)), np.zeros(means.shape)
    begin = 0
    while begin < steps:
        end = min(steps, begin + max(1, round(GROWTH * begin)))
        bucket = rng.integers(0, buckets, end - begin)
        cell = (np.arange(runs), bucket[:, None], _choose(read(sums), rng, bucket))
        reward = rewards(rng, means[cell])
        for total, more in zip(sums, (np.ones(reward.shape), reward, reward * reward), strict=True):
            np.add.at(total, cell, more)
        if end > steps - steps // 10:
            np.add.at(late, cell, 1.0)
        regret[begin:end] = gaps[cell]
        begin = end
    return Played(regret, late, sums)


def _choose(draw: Draw, rng: np.random.Generator, bucket: IntArray) -> IntArray:
    """Choose for each step and run the best action [m, R] of its bucket in a draw."""
    drawn = draw(rng, bucket.size)
    best: IntArray = drawn[np.arange(bucket.size), :, bucket].argmax(axis=2)
    return best


def disagreement(learner: Learner, names: tuple[tuple[str, ...], tuple[str, ...]], read: Read, sums: Sums) -> float:
    """Compare how often a read's draws find each action best with the service's P(best), in standard errors.

    Args:
        names: of buckets and of actions.
        sums: of a few runs; bucket 0 of each is compared.
    """
    draw = read(sums)(np.random.default_rng(1), CHECKED_DRAWS)[:, :, 0]
    worst = 0.0
    for run, parts in enumerate(zip(*sums, strict=True)):
        evidence = EvidenceTable(*parts, *names)
        q = believe(learner, evidence, bucket=0, eligible=np.ones(len(names[1]), bool), seed=run).q
        often = np.bincount(draw[:, run].argmax(axis=1), minlength=q.size) / CHECKED_DRAWS
        middle = np.clip(0.5 * (q + often), 1.0 / DRAWS, 1.0 - 1.0 / DRAWS)
        error = np.sqrt(middle * (1.0 - middle) * (1.0 / CHECKED_DRAWS + 1.0 / DRAWS))
        worst = max(worst, float((np.abs(q - often) / error).max()))
    return worst


def read_beta(sums: Sums) -> Draw:
    """Read Betas; runs and actions stand side by side in one table, since the belief is made action by action."""
    runs, buckets, actions = sums[0].shape
    n, s, s2 = (part.transpose(1, 0, 2).reshape(buckets, -1) for part in sums)
    flat = EvidenceTable(n, s, s2)
    shapes = np.array([beta_shapes(flat, bucket) for bucket in range(buckets)])
    a, b = shapes.reshape(buckets, 2, runs, actions).transpose(1, 2, 0, 3)
    return lambda rng, size: rng.beta(a, b, (size, *a.shape))


def _levels(n: FloatArray, s: FloatArray) -> FloatArray:
    """Give every run's own level [R, 1, 1]."""
    return np.array([pooled_mean(*run) for run in zip(n, s, strict=True)])[:, None, None]


def read_anova(actions: tuple[str, ...]) -> Read:
    """Read correlated Gaussians of one bucket."""
    root = np.asarray(np.linalg.cholesky(kernel(actions)))

    def read(sums: Sums) -> Draw:
        n, s, _ = sums
        level = _levels(n, s)
        noise = np.array([noise_of(*run) for run in zip(*sums, strict=True)])[:, None]
        mean, half = regress(root, n[:, 0], (s - n * level)[:, 0], noise=noise)
        centre, turned = level + (mean @ root.T)[:, None], (root @ half).swapaxes(1, 2)

        def draw(rng: np.random.Generator, size: int) -> FloatArray:
            drawn = centre + rng.standard_normal((centre.shape[0], size, centre.shape[2])) @ turned
            return np.asarray(drawn.swapaxes(0, 1)[:, :, None])

        return draw

    return read


def read_gaussian(sums: Sums) -> Draw:
    """Read Students of one bucket."""
    n, s, s2 = sums
    squares = within(n, s, s2)
    pairs = zip(n, squares, strict=True)
    variances = [pooled_variance(*run, start=MOST_VARIANCE, worth=COIN_WORTH) for run in pairs]
    variance = np.array(variances)[:, None, None]
    belief = students(n, s, squares, mean=np.full(n.shape, 0.5), worth=np.full(n.shape, 2.0), variance=variance)
    return lambda rng, size: belief.centre + belief.scale * rng.standard_t(belief.degrees, (size, *n.shape))


def read_linear(buckets: tuple[str, ...]) -> Read:
    """Read linear models of buckets with these names."""
    x = features(buckets)

    def read(sums: Sums) -> Draw:
        n, s, _ = sums
        level = _levels(n, s)
        mean, root = weights(x, n.swapaxes(1, 2), (s - n * level).swapaxes(1, 2))
        centre = level + (mean @ x.T).swapaxes(1, 2)
        deviation = np.sqrt(((x @ root) ** 2).sum(axis=-1)).swapaxes(1, 2)
        return lambda rng, size: centre + deviation * rng.standard_normal((size, *centre.shape))

    return read
