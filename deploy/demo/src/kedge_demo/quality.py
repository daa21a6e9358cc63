"""Value what was served by the true scores, against what could have been served on the same turns."""

from dataclasses import dataclass

import numpy as np

from kedge_demo.arms import Part
from kedge_demo.datasets import Floats, Integers
from kedge_demo.world import World

NORMAL_95 = 1.959963984540054


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Hold a mean with its 95 % normal interval."""

    mean: float
    low: float
    high: float


def clustered(values: Floats, items: Integers) -> Estimate:
    """Average with an interval that counts the turns of one item as one observation.

    Cluster-robust normal interval for a mean (Liang and Zeger 1986, with the G/(G − 1) correction), G items: the same
    question asked five times tells less than five questions.

    >>> clustered(np.array([0.0, 1.0, 0.0, 1.0]), np.array([0, 1, 2, 3])).mean
    0.5
    """
    if not len(values):
        return Estimate(mean=float("nan"), low=float("nan"), high=float("nan"))
    mean = float(values.mean())
    _, cluster = np.unique(items, return_inverse=True)
    sums = np.bincount(cluster, weights=values - mean)
    groups = len(sums)
    error = np.sqrt(groups / max(1, groups - 1) * (sums**2).sum()) / len(values)
    return Estimate(mean=mean, low=mean - NORMAL_95 * float(error), high=mean + NORMAL_95 * float(error))


def take(table: Floats, turns: Integers, actions: Integers) -> Floats:
    """Read a (turns, actions) table along served turns."""
    return np.asarray(table[turns, actions], dtype=np.float64)


def best_single(world: World, turns: Integers) -> int:
    """Name the single action that the tenant is compared with on these turns.

    The one its world names, else the honest action of highest mean true score on these very turns (in hindsight).
    """
    if world.reference is not None:
        return world.reference
    honest = np.array(world.actions(Part.HONEST))
    return int(honest[world.truth.score[turns][:, honest].mean(axis=0).argmax()])


def oracle_actions(world: World, turns: Integers) -> Integers:
    """Choose for each turn the honest action that is best in its bucket, judged by other items.

    Cross-fitted, so that luck is not taken for skill (03 §8): for the turns of items with an even number the choice is
    made on the turns of items with an odd number, and the other way round; on all of the bucket where one half is
    empty.
    """
    honest = np.array(world.actions(Part.HONEST))
    score, bucket = world.truth.score[turns][:, honest], world.bucket_of[turns]
    half = world.truth.items[turns] % 2
    chosen = np.zeros(len(turns), dtype=np.int64)
    for name in np.unique(bucket):
        inside = bucket == name
        for side in (0, 1):
            learn_from = inside & (half != side)
            rows = learn_from if learn_from.any() else inside
            chosen[inside & (half == side)] = honest[score[rows].mean(axis=0).argmax()]
    return chosen


def bucket_values(world: World) -> Floats:
    """Average the true score per bucket and action over the whole stream, a tripped episode counted 0.

    Shape (buckets, actions). Expectations for plots; the figures use `take` on the very turns.
    """
    safe = np.where(world.truth.tripped, 0.0, world.truth.score)
    sums = np.zeros((len(world.bucket_names), len(world.action_keys)))
    np.add.at(sums, world.bucket_of, safe)
    counts = np.bincount(world.bucket_of, minlength=len(world.bucket_names))
    return np.asarray(sums / np.maximum(counts, 1)[:, None], dtype=np.float64)
