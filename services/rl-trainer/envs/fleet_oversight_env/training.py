"""Train the small policy by clipped policy gradient on CRM episodes of the train split.

Top to bottom: play a batch of fresh episodes, turn rewards into advantages over what a regression expected, take a few
clipped gradient steps. The return is R_oversight minus a price on the episode's share of needless alarms; the price
rises while that share exceeds its target. No hidden label is used. Left out: a value network, discounting, reuse of old
episodes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np

from fleet_oversight_env.batch import Batch
from fleet_oversight_env.features import FEATURES, Memory, possible
from fleet_oversight_env.laws import CRM, FLEET, OVERSIGHT_STEPS
from fleet_oversight_env.learned import closing, moves_of
from fleet_oversight_env.network import Network, Pass, Singles, backward, forward, sample
from fleet_oversight_env.results import Results, results
from fleet_oversight_env.rubric import OVERSIGHT_PRICES, priced
from fleet_oversight_env.scenarios import TRAIN_SEEDS
from fleet_oversight_env.starts import Starts, draw
from fleet_oversight_env.view import Bools, Floats, Ints, Moves

ACTING: Final = OVERSIGHT_STEPS - 1
CHOICES: Final = 21


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Every setting of a training run.

    Args:
        seed: Of weights, moves and the order of episodes.
        updates, episodes: Gradient rounds, and fresh episodes in each.
        passes, pieces: How often a round's episodes are gone through, and in how many pieces.
        clip: How far a probability ratio may move before its gradient stops (Schulman et al. 2017, eq. 7).
        rate: Adam's step size, first and last; it falls geometrically.
        entropy: Bonus on the entropy of the moves, first and last; it falls linearly.
        target: Share of needless alarms that the price aims at.
        price_step, price_limit: How fast the price moves, and how far.
        trace, ridge: How far surprises travel back in time, 1 for all the way; penalty of the value's regression.
        alignments: How well an episode's plan suits its data; drawn per episode.
        shuffled: Give every episode another's returns: a control that must learn nothing.
    """

    seed: int = 1
    updates: int = 200
    episodes: int = 400
    passes: int = 3
    pieces: int = 2
    clip: float = 0.2
    rate: tuple[float, float] = (3e-3, 3e-4)
    entropy: tuple[float, float] = (0.01, 0.0)
    target: float = 0.07
    price_step: float = 0.5
    price_limit: float = 3.0
    hidden: int = 48
    trace: float = 0.95
    ridge: float = 10.0
    alignments: tuple[float, ...] = (1.0, 1.0, 0.917, 0.917, 0.8, 0.6)
    shuffled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """A round's episodes: E episodes, 16 acting steps.

    Args:
        features, possible: What each choice was made from, [16, E, 5, F] and [16, E, 21].
        choice, log: Moves taken, and their log-probabilities, [16, E].
        rewards: What each step paid, [16, E]; what the end pays counts for the last.
    """

    features: Singles
    possible: Bools
    choice: Ints
    log: Singles
    rewards: Floats
    results: Results

    def only(self, episodes: Ints) -> Self:
        """Keep some of the episodes, as far as a gradient needs them."""
        return replace(
            self,
            features=self.features[:, episodes],
            possible=self.possible[:, episodes],
            choice=self.choice[:, episodes],
            log=self.log[:, episodes],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One point of the curve: means over the round's sampled episodes, and the price in force."""

    update: int
    detection: float
    needless: float
    oversight: float
    price: float
    entropy: float


def training_starts(recipe: Recipe, rng: np.random.Generator) -> Starts:
    """Draw fresh CRM episodes of the train split, with plans of mixed quality."""
    seeds = rng.integers(TRAIN_SEEDS.start, TRAIN_SEEDS.stop, recipe.episodes)
    scenario, start, telemetry = draw([int(seed) for seed in seeds])
    aligned = np.repeat(rng.choice(recipe.alignments, recipe.episodes)[:, None], FLEET, axis=1)
    return Starts(
        domain=CRM, scenario=scenario, start=start, telemetry=telemetry, alignment=aligned, plan=aligned.mean(axis=1)
    )


def roll(network: Network, starts: Starts, rng: np.random.Generator) -> Rollout:
    """Play one round with sampled moves and keep what the gradient needs."""
    batch, memory = Batch(starts), Memory(starts.opening)
    episodes = len(starts.plan)
    features = np.empty((ACTING, episodes, FLEET, FEATURES), np.float32)
    masks = np.empty((ACTING, episodes, CHOICES), np.bool_)
    choice = np.empty((ACTING, episodes), np.int64)
    log = np.empty((ACTING, episodes), np.float32)
    rewards = np.empty((ACTING, episodes))
    last: Moves | None = None
    paid = priced(list(batch.tally), OVERSIGHT_PRICES)
    for t in range(ACTING):
        view = batch.view()
        features[t], masks[t] = memory.see(view, last), possible(view)
        logs = forward(network, features[t], masks[t]).log_probabilities
        choice[t] = sample(logs, rng)
        log[t] = np.take_along_axis(logs, choice[t][:, None], axis=1)[:, 0]
        last = moves_of(choice[t])
        batch.step(last)
        now = priced(list(batch.tally), OVERSIGHT_PRICES)
        rewards[t], paid = now - paid, now
    view = batch.view()
    memory.see(view, last)
    batch.step(closing(memory, view))
    rewards[-1] += priced(list(batch.tally), OVERSIGHT_PRICES) - paid
    return Rollout(features=features, possible=masks, choice=choice, log=log, rewards=rewards, results=results(batch))


def advantages(network: Network, rollout: Rollout, recipe: Recipe, *, price: float, order: Ints) -> Singles:
    """Say how much better than expected each move turned out, in units of its spread, [16, E].

    Generalised advantages (Schulman et al. 2016, eq. 16, no discount) over a value that a ridge regression reads off
    what was seen: the mean and the largest of each feature over the workers.

    Args:
        price: What an episode's share of needless alarms costs, charged at its end.
        order: Whose rewards each episode gets: its own, or in the control another's.
    """
    rewards = rollout.rewards[:, order].copy()
    rewards[-1] -= price * rollout.results.needless[order]
    to_go = np.cumsum(rewards[::-1], axis=0)[::-1]
    inputs = (rollout.features - network.centre) / network.scale
    steps, episodes = to_go.shape
    seen = np.concatenate([inputs.mean(axis=2), inputs.max(axis=2), np.ones((steps, episodes, 1), np.float32)], axis=2)
    rows = seen.reshape(steps * episodes, -1).astype(np.float64)
    gram = rows.T @ rows + recipe.ridge * np.eye(rows.shape[1])
    values = (rows @ np.linalg.solve(gram, rows.T @ to_go.reshape(-1))).reshape(steps, episodes)
    after = np.concatenate([values[1:], np.zeros((1, episodes))])
    surprise = rewards + after - values
    found, running = np.empty_like(surprise), np.zeros(episodes)
    for t in reversed(range(steps)):
        running = surprise[t] + recipe.trace * running
        found[t] = running
    found -= found.mean()
    return np.asarray(found / (found.std() + 1e-6), np.float32)


@dataclass(slots=True)
class Adam:
    """Adam (Kingma and Ba 2015) with running means by weight name."""

    mean: dict[str, Singles]
    square: dict[str, Singles]
    count: int = 0

    def step(self, network: Network, slopes: dict[str, Singles], rate: float) -> Network:
        """Move the weights against their slopes."""
        self.count += 1
        moved = {}
        for name, slope in slopes.items():
            self.mean[name] = 0.9 * self.mean[name] + 0.1 * slope
            self.square[name] = 0.999 * self.square[name] + 0.001 * slope * slope
            mean, square = self.mean[name] / (1 - 0.9**self.count), self.square[name] / (1 - 0.999**self.count)
            moved[name] = (network.trained[name] - rate * mean / (np.sqrt(square) + 1e-8)).astype(np.float32)
        return replace(network, **moved)


def slope_of(done: Pass, choice: Ints, log: Singles, advantage: Singles, clip: float, entropy: float) -> Singles:
    """Give the slope of the clipped loss (and the entropy bonus) with respect to the logits, [N, 21]."""
    logs = done.log_probabilities
    probabilities = np.exp(logs)
    rows = np.arange(len(choice))
    ratio = np.exp(logs[rows, choice] - log)
    stopped = np.where(advantage > 0, ratio > 1 + clip, ratio < 1 - clip)
    weight = np.where(stopped, 0.0, ratio * advantage).astype(np.float32)
    slope = probabilities * weight[:, None]
    slope[rows, choice] -= weight
    surprise = np.where(probabilities > 0, logs, 0.0)
    spread = -(probabilities * surprise).sum(axis=1, keepdims=True)
    slope += np.float32(entropy) * probabilities * (surprise + spread)
    return (slope / np.float32(len(choice))).astype(np.float32)


def first_network(recipe: Recipe, rng: np.random.Generator) -> Network:
    """Draw a network whose inputs are centred on what a drawn one meets."""
    raw = Network.drawn(np.zeros(FEATURES, np.float32), np.ones(FEATURES, np.float32), recipe.hidden, rng)
    met = roll(raw, training_starts(recipe, rng), rng).features.reshape(-1, FEATURES)
    return replace(raw, centre=met.mean(axis=0), scale=met.std(axis=0) + np.float32(0.1))


def train(recipe: Recipe) -> Iterator[tuple[Round, Network]]:
    """Run a recipe; after every update give its point of the curve and the network. Same recipe, same networks."""
    rng = np.random.default_rng(recipe.seed)
    network = first_network(recipe, rng)
    adam = Adam(_zeros(network), _zeros(network))
    price = 0.0
    for update in range(recipe.updates):
        done = update / max(1, recipe.updates - 1)
        rate = recipe.rate[0] * (recipe.rate[1] / recipe.rate[0]) ** done
        entropy = recipe.entropy[0] + (recipe.entropy[1] - recipe.entropy[0]) * done
        rollout = roll(network, training_starts(recipe, rng), rng)
        order = rng.permutation(recipe.episodes) if recipe.shuffled else np.arange(recipe.episodes)
        advantage = advantages(network, rollout, recipe, price=price, order=order)
        for _ in range(recipe.passes):
            for piece in np.array_split(rng.permutation(recipe.episodes), recipe.pieces):
                part, gain = rollout.only(piece), advantage[:, piece]
                network = improved(network, adam, part, gain, recipe=recipe, rate=rate, entropy=entropy)
        got = rollout.results
        needless = float(got.needless.mean())
        yield (
            Round(
                update=update,
                detection=float(got.detection.mean()),
                needless=needless,
                oversight=float(got.oversight.mean()),
                price=price,
                entropy=float(-rollout.log.mean()),
            ),
            network,
        )
        price = min(recipe.price_limit, max(0.0, price + recipe.price_step * (needless - recipe.target)))


def _zeros(network: Network) -> dict[str, Singles]:
    return {name: np.zeros_like(value) for name, value in network.trained.items()}


def improved(
    network: Network, adam: Adam, rollout: Rollout, advantage: Singles, *, recipe: Recipe, rate: float, entropy: float
) -> Network:
    """Take one gradient step on a piece of a round's episodes."""
    done = forward(network, rollout.features.reshape(-1, FLEET, FEATURES), rollout.possible.reshape(-1, CHOICES))
    choice, log = rollout.choice.reshape(-1), rollout.log.reshape(-1)
    slope = slope_of(done, choice, log, advantage.reshape(-1), recipe.clip, entropy)
    return adam.step(network, backward(network, done, slope), rate)
