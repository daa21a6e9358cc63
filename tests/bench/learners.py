"""Measure the learners against each other where each is said to be right, and whether `auto` picks well.

Rewards are Bernoulli unless said otherwise. A ratio is that of mean regrets over the same worlds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from kedge_bandit.domain.arrays import FloatArray
from kedge_bandit.domain.learners import LEARNERS
from tests.bench.beta_regret import INSTANCES
from tests.bench.figures import Bar, Report, Row, Setting
from tests.bench.thompson import (
    Read,
    Rewards,
    bernoulli,
    disagreement,
    play,
    read_anova,
    read_beta,
    read_gaussian,
    read_linear,
    spread,
)

SEED = 20260502
RUNS = 100
FEWER_RUNS = 40  # of the worlds with 64 buckets
STEPS = 20_000
SMALL_SPREAD = 0.05
AUTO_BAR = Bar(at_most=1.5)
AUTO_MEAN_BAR = Bar(at_most=1.1)
SPREAD_BAR = Bar(at_most=0.25)
LINEAR_BAR = Bar(at_most=0.6)
AGREEMENT_BAR = Bar(at_most=5.0)
CHECKED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Means to learn, and the two learners that are compared on them.

    Attributes:
        means: [R, B, K].
        actions, buckets: names, from which learners know what is alike.
    """

    name: str
    means: FloatArray
    actions: tuple[str, ...]
    buckets: tuple[str, ...] = ("",)
    rewards: Rewards = bernoulli
    learner: str
    against: str = "beta"
    bar: Bar = Bar()


def _crossed(rng: np.random.Generator, models: int, prompts: int) -> tuple[FloatArray, tuple[str, ...]]:
    """Give effects of models and prompts within .1 and of pairs with a deviation of .06."""
    means = 0.4 + rng.uniform(0.0, 0.1, (RUNS, models, 1)) + rng.uniform(0.0, 0.1, (RUNS, 1, prompts))
    means = np.clip(means + rng.normal(0.0, 0.06, (RUNS, models, prompts)), 0.02, 0.98)
    return means.reshape(RUNS, 1, -1), tuple(f"m{m}|p{p}" for m, p in product(range(models), range(prompts)))


def _alone(rng: np.random.Generator, low: float, high: float, size: int) -> tuple[FloatArray, tuple[str, ...]]:
    """Give arms of one dimension with means in a range."""
    return rng.uniform(low, high, (RUNS, 1, size)), tuple(f"m{i}" for i in range(size))


def few_actions(rng: np.random.Generator) -> Iterator[World]:
    """Give worlds of up to 6 actions, where `auto` is `beta`."""
    for instance in INSTANCES:
        means = np.tile(np.array(instance.means), (RUNS, 1, 1))
        yield World(
            name=f"5 arms, {instance.name}", means=means, actions=tuple("abcde"), learner="beta", against="anova"
        )
    for models, prompts in ((2, 2), (2, 3)):
        means, actions = _crossed(rng, models, prompts)
        yield World(name=f"{models} x {prompts}", means=means, actions=actions, learner="beta", against="anova")


def many_actions(rng: np.random.Generator) -> Iterator[World]:
    """Give worlds of more than 6 actions, where `auto` is `anova`."""
    for name, (means, actions) in {
        "3 x 4": _crossed(rng, 3, 4),
        "6 x 6": _crossed(rng, 6, 6),
        "12 arms": _alone(rng, 0.3, 0.8, 12),
        "12 arms under .12": _alone(rng, 0.02, 0.12, 12),
        "12 arms over .8": _alone(rng, 0.8, 0.98, 12),
    }.items():
        yield World(name=name, means=means, actions=actions, learner="anova")


def special(rng: np.random.Generator) -> Iterator[World]:
    """Give the worlds that a learner other than the default is for, and what it costs where it is not."""
    rewards = spread(SMALL_SPREAD)
    means, actions = _alone(rng, 0.6, 0.7, 5)
    yield World(
        name=f"5 arms, spread {SMALL_SPREAD}",
        means=means,
        actions=actions,
        rewards=rewards,
        learner="gaussian",
        bar=SPREAD_BAR,
    )
    means, actions = _alone(rng, 0.3, 0.8, 5)
    yield World(name="5 arms", means=means, actions=actions, learner="gaussian")
    means, actions = _crossed(rng, 3, 4)
    yield World(
        name=f"3 x 4, spread {SMALL_SPREAD}",
        means=means,
        actions=actions,
        rewards=rewards,
        learner="anova",
        bar=SPREAD_BAR,
    )
    for name, deviation, bar in (("additive", 0.0, LINEAR_BAR), ("with combinations", 0.08, Bar())):
        means, buckets = _featured(rng, deviation)
        yield World(
            name=f"64 buckets, {name}", means=means, actions=tuple("abcd"), buckets=buckets, learner="linear", bar=bar
        )


def _featured(rng: np.random.Generator, deviation: float) -> tuple[FloatArray, tuple[str, ...]]:
    """Give 4 actions whose means depend on three features of 4 classes, and on their combination by a deviation."""
    effects = [rng.normal(0.0, 0.08, (FEWER_RUNS, *shape, 4)) for shape in ((4, 1, 1), (1, 4, 1), (1, 1, 4))]
    means = 0.5 + sum(effects) + rng.normal(0.0, deviation, (FEWER_RUNS, 4, 4, 4, 4))
    names = tuple(f"a={a}|b={b}|c={c}" for a, b, c in product(range(4), repeat=3))
    return np.clip(means.reshape(FEWER_RUNS, 64, 4), 0.02, 0.98), names


def learners(setting: Setting) -> Report:
    """Compare the default with the other on either side of six actions, then the learners made for a purpose."""
    rng = np.random.default_rng(SEED)
    few = [_ratio(world, setting) for world in few_actions(rng)]
    many = [_ratio(world, setting) for world in many_actions(rng)]
    made_for = [_ratio(world, setting) for world in special(rng)]
    rows = [
        *(row for row, _ in (*few, *many, *made_for)),
        *_summed("up to 6 actions: beta / anova", [row.value for row, _ in few]),
        *_summed("above 6 actions: anova / beta", [row.value for row, _ in many]),
        Row(
            name="bench's beliefs - service's, standard errors",
            value=max(off for _, off in (*few, *many, *made_for)),
            bar=AGREEMENT_BAR,
        ),
    ]
    notes = [
        f"regret over regret, means of {RUNS} runs ({FEWER_RUNS} with 64 buckets), T = {STEPS:,}, the same worlds for"
        " both; Bernoulli rewards unless a spread is named"
    ]
    return Report(rows=rows, notes=notes, seeds=[SEED])


def _summed(name: str, ratios: list[float]) -> list[Row]:
    return [
        Row(name=f"{name}, largest", value=max(ratios), bar=AUTO_BAR),
        Row(name=f"{name}, mean", value=float(np.mean(ratios)), bar=AUTO_MEAN_BAR),
    ]


def _ratio(world: World, setting: Setting) -> tuple[Row, float]:
    """Play a world with both learners; answers the row and how far the bench's beliefs are from the service's."""
    regret: list[float] = []
    off = 0.0
    for name in (world.learner, world.against):
        setting.say(f"{world.name}: {name}")
        read = _read(name, world)
        played = play(world.means, read, world.rewards, steps=STEPS, seed=SEED)
        regret.append(float(played.total.mean()))
        few = (played.sums[0][:CHECKED], played.sums[1][:CHECKED], played.sums[2][:CHECKED])
        off = max(off, disagreement(LEARNERS[name], (world.buckets, world.actions), read, few))
    row = Row(name=f"{world.name}: {world.learner} / {world.against}", value=regret[0] / regret[1], bar=world.bar)
    return row, off


def _read(name: str, world: World) -> Read:
    match name:
        case "anova":
            return read_anova(world.actions)
        case "gaussian":
            return read_gaussian
        case "linear":
            return read_linear(world.buckets)
        case _:
            return read_beta
