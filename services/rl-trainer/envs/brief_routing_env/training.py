"""Train the routing network by REINFORCE (Williams 1992) on train seeds, in the regime that every claim is made in.

Top to bottom: play a batch with one episode of each task, turn rewards into discounted returns to go, standardise them
over the whole batch so that good episodes are told from bad ones, take one clipped gradient step with a small entropy
bonus. A value, where the recipe has one, is a ridge regression on what was seen. Left out: a value network, several
passes over a batch, retrieval during training.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from brief_routing_env.episode import Episode
from brief_routing_env.features import COMPAT_INPUTS, MOVES, NAMES, features, numbered
from brief_routing_env.network import Adam, Floats, Ints, Network, backward, forward, sample
from brief_routing_env.scenarios import PLAIN, SPLITS, Profile, case_of
from brief_routing_env.tasks import AUDIT

COMPAT_TASKS: Final = tuple(name for name in PLAIN if name != AUDIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Every setting of a training run.

    Args:
        profile: Whose rules are trained on; decides tasks and inputs.
        seed: Of weights, moves and data.
        episodes: In all; a batch has one of each task.
        rate, discount, most: Adam's step, discount of returns, largest gradient norm.
        entropy: Bonus on the entropy of the moves, first and last; it falls linearly.
        memory: How much of earlier batches a regression of the value keeps; None for no value, as published.
        shuffled: Give every step the advantage of another: a control that must learn nothing.
    """

    profile: Profile
    seed: int = 1
    episodes: int = 600
    rate: float = 0.003
    discount: float = 0.97
    most: float = 5.0
    entropy: tuple[float, float] = (0.01, 0.01)
    memory: float | None = None
    shuffled: bool = False

    @property
    def tasks(self) -> tuple[str, ...]:
        """Tasks of a batch."""
        return COMPAT_TASKS if self.profile is Profile.COMPAT else PLAIN

    @property
    def inputs(self) -> tuple[int, ...]:
        """Places of the features that the network reads."""
        return COMPAT_INPUTS if self.profile is Profile.COMPAT else tuple(range(len(NAMES)))

    @property
    def updates(self) -> int:
        """Gradient steps; the last batch is a whole one."""
        return -(-self.episodes // len(self.tasks))


PUBLISHED: Final = Recipe(profile=Profile.COMPAT)
OURS: Final = Recipe(profile=Profile.V2, episodes=1200, rate=0.01, entropy=(0.3, 0.0), memory=0.9)
"""Prerequisites and the worth of a summary take more exploration, and a value that knows how far a route has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """A batch's steps in one row each: inputs [N, F], choices [N], discounted returns to go [N], grades [B]."""

    inputs: Floats
    choices: Ints
    to_go: Floats
    grades: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point of the curve: means over a batch of sampled episodes."""

    update: int
    grade: float
    steps: float
    entropy: float


def roll(network: Network, recipe: Recipe, seeds: list[int], rng: np.random.Generator) -> Rollout:
    """Play one episode of each task side by side, with sampled moves."""
    names = [f"{task}-compat" if recipe.profile is Profile.COMPAT else task for task in recipe.tasks]
    episodes = [Episode(case_of(name, seed)) for name, seed in zip(names, seeds, strict=True)]
    inputs: list[list[Floats]] = [[] for _ in episodes]
    choices: list[list[int]] = [[] for _ in episodes]
    rewards: list[list[float]] = [[] for _ in episodes]
    while playing := [place for place, episode in enumerate(episodes) if not episode.over]:
        seen = [episodes[place].observe() for place in playing]
        rows = np.array([features(one)[list(recipe.inputs)] for one in seen], np.float64)
        for place, view, row, choice in zip(
            playing, seen, rows, sample(forward(network, rows).logs, rng).tolist(), strict=True
        ):
            turn = episodes[place].step(numbered(choice, view))
            inputs[place].append(row)
            choices[place].append(choice)
            rewards[place].append(turn.reward)
    return Rollout(
        inputs=np.array([row for one in inputs for row in one]),
        choices=np.array([choice for one in choices for choice in one]),
        to_go=np.concatenate([discounted(one, recipe.discount) for one in rewards]),
        grades=np.array([episode.metrics()["grade"] for episode in episodes]),
    )


def discounted(rewards: list[float], discount: float) -> Floats:
    """Give the discounted return to go of every step.

    >>> discounted([1.0, 0.0, 4.0], 0.5).tolist()
    [2.0, 2.0, 4.0]
    """
    found, running = np.zeros(len(rewards)), 0.0
    for place in reversed(range(len(rewards))):
        found[place] = running = rewards[place] + discount * running
    return found


def slope_of(logs: Floats, choices: Ints, advantage: Floats, entropy: float) -> Floats:
    """Give the slope of the loss, entropy bonus included, with respect to the logits, [N, A]."""
    odds = np.exp(logs)
    pull = odds * advantage[:, None]
    pull[np.arange(len(choices)), choices] -= advantage
    surprise = -(odds * logs).sum(axis=1, keepdims=True)
    found: Floats = (pull + entropy * odds * (logs + surprise)) / len(choices)
    return found


class Value:
    """Expect the return to go from what is seen: a ridge regression over past batches, older ones counting less.

    It reads products of inputs too: what a summary is worth hangs on whether everybody has reported.
    """

    def __init__(self, inputs: int, memory: float) -> None:
        size = _terms(np.zeros((1, inputs))).shape[1]
        self._memory = memory
        self._gram = np.eye(size)
        self._sums = np.zeros(size)

    def expect(self, inputs: Floats) -> Floats:
        """Give the expected return of each row, before the rows themselves are learned from."""
        expected: Floats = _terms(inputs) @ np.linalg.solve(self._gram, self._sums)
        return expected

    def learn(self, inputs: Floats, to_go: Floats) -> None:
        """Take a batch in."""
        rows = _terms(inputs)
        self._gram = self._memory * self._gram + rows.T @ rows
        self._sums = self._memory * self._sums + rows.T @ to_go


def _terms(inputs: Floats) -> Floats:
    """Add products of two inputs, and a one."""
    first, second = np.triu_indices(inputs.shape[1], 1)
    return np.concatenate([inputs, inputs[:, first] * inputs[:, second], np.ones((len(inputs), 1))], axis=1)


def train(recipe: Recipe) -> Iterator[tuple[Point, Network]]:
    """Run a recipe; after every update give its point of the curve and the network. Same recipe, same networks."""
    rng = np.random.default_rng([recipe.seed, 8])
    network = Network.drawn(len(recipe.inputs), len(MOVES), rng)
    adam = Adam.over(network, rate=recipe.rate, most=recipe.most)
    value = None if recipe.memory is None else Value(len(recipe.inputs), recipe.memory)
    first, last = recipe.entropy
    for update in range(recipe.updates):
        seeds = rng.integers(SPLITS["train"].start, SPLITS["train"].stop, len(recipe.tasks)).tolist()
        rollout = roll(network, recipe, seeds, rng)
        advantage = rollout.to_go - (value.expect(rollout.inputs) if value else 0.0)
        if value:
            value.learn(rollout.inputs, rollout.to_go)
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        if recipe.shuffled:
            advantage = rng.permutation(advantage)
        done = forward(network, rollout.inputs)
        entropy = first + (last - first) * update / recipe.updates
        network = adam.step(network, backward(network, done, slope_of(done.logs, rollout.choices, advantage, entropy)))
        yield (
            Point(
                update=update,
                grade=float(rollout.grades.mean()),
                steps=len(rollout.choices) / len(recipe.tasks),
                entropy=float(-(np.exp(done.logs) * done.logs).sum(axis=1).mean()),
            ),
            network,
        )
