"""Play streams of episodes and of holdout cases for many runs at once, and take them to the alarm's detectors.

Nothing is drawn that the alarm itself computes: an episode has a bucket, an action by its bucket's propensity, and a
quality; a case has an effect that stays, and two fresh answers at each check that asks it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kedge_bandit.domain.case_effects import sd_between
from kedge_bandit.domain.divergence import ALARM, CONFIRMED, LEAST_LIFT, POOL_FACTOR, USUAL
from kedge_bandit.domain.e_detector import begin, evidence, step

Array = NDArray[np.float64]
Path = Callable[[int], float]
"""Something that changes with the number of the check, from 0."""

POOL, EPISODES = 600, 600
_QUALITY = np.array([0.5, 0.7])
"""Of the baseline in either bucket; an episode has .1 or .9, so that one has a standard deviation of .4."""
_BASELINE_SHARE = np.array([0.6, 0.4])


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What happens: lifts of the learned part online and on the holdout, and how the cases differ.

    Attributes:
        paired: standard deviation of the difference of two answers to one case, the case's effect included.
        between: of the effects.
    """

    online: Path
    on_holdout: Path
    paired: float
    between: float


def steady(lift: float) -> Path:
    """Give the same lift at every check."""
    return lambda _check: lift


def rising(lift: float, checks: int) -> Path:
    """Give a lift that grows evenly for so many checks."""
    return lambda check: lift * min(1.0, (check + 1) / checks)


def first_alarms(world: World, *, runs: int, checks: int, seed: Sequence[int]) -> NDArray[np.int64]:
    """Give the check [runs], counted from 1, at which each run alarms; 0 where none does."""
    rng = np.random.default_rng(seed)
    effects = rng.normal(0.0, world.between, (runs, POOL))
    apart, gained = begin(runs), begin(runs)
    known = np.zeros((3, runs, POOL))
    found = np.zeros(runs, dtype=np.int64)
    for check in range(checks):
        reward, reward_error = online_lift(*episodes(rng, runs, world.online(check)))
        lifts, asked = answers(rng, effects, world, world.on_holdout(check))
        holdout, holdout_error = lifts.mean(axis=1), lifts.std(axis=1, ddof=1) / np.sqrt(POOL // 2)
        for power, sums in enumerate(known):
            np.put_along_axis(sums, asked, np.take_along_axis(sums, asked, 1) + lifts**power, 1)
        margin = USUAL.least + POOL_FACTOR * sd_between(*known) / np.sqrt(POOL)
        error = np.hypot(USUAL.eta * reward_error, holdout_error)
        apart = step(apart, (USUAL.eta * reward - holdout - margin) / error)
        gained = step(gained, (reward - LEAST_LIFT) / reward_error)
        alarms = (evidence(apart) >= ALARM) & (evidence(gained) >= CONFIRMED)
        found[alarms & (found == 0)] = check + 1
        if found.all():
            break
    return found


def episodes(rng: np.random.Generator, runs: int, lift: float) -> tuple[Array, Array, Array]:
    """Draw the settled episodes of one check: weights of the learned part, of the baseline, and qualities."""
    bucket = rng.integers(0, 2, (runs, EPISODES), dtype=np.int8)
    share = _BASELINE_SHARE[bucket]
    is_baseline = rng.random((runs, EPISODES), dtype=np.float32) < share
    mean = _QUALITY[bucket] + np.where(is_baseline, 0.0, lift)
    quality = np.where(rng.random((runs, EPISODES), dtype=np.float32) < (mean - 0.1) / 0.8, 0.9, 0.1)
    return np.where(is_baseline, 0.0, 1.0), np.where(is_baseline, (1 - share) / share, 0.0), quality


def online_lift(learned: Array, baseline: Array, quality: Array) -> tuple[Array, Array]:
    """Compute dR and its standard error for each run, over the last axis: `divergence.lift_between` of both sides."""
    value, variance = np.zeros((2, *quality.shape[:-1]))
    for sign, weights in ((1.0, learned), (-1.0, baseline)):
        total = weights.sum(axis=-1)
        mean = (weights * quality).sum(axis=-1) / total
        variance += ((weights * (quality - mean[..., np.newaxis])) ** 2).sum(axis=-1) / total**2
        value += sign * mean
    return value, np.sqrt(variance)


def answers(rng: np.random.Generator, effects: Array, world: World, lift: float) -> tuple[Array, NDArray[np.int64]]:
    """Ask a random half of the pool: each case's lift between two fresh answers, and which cases they are."""
    runs = len(effects)
    asked = rng.random((runs, POOL), dtype=np.float32).argpartition(POOL // 2, axis=1)[:, : POOL // 2]
    fresh = rng.normal(lift, np.sqrt(world.paired**2 - world.between**2), (runs, POOL // 2))
    return np.take_along_axis(effects, asked, 1) + fresh, asked
