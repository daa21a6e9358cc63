"""Let Vowpal Wabbit and MABWiser play the same streams, where they are installed; nothing else needs them.

Each is used as its manual says, and helped where it can be: it learns an outcome when it comes and nothing before, with
the propensity that it decided by. It has no reward rule, so of several signals of an episode it takes the plain mean.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from kedge_bandit.domain.draw import pick
from kedge_bandit.entrypoints.scenarios.play import Player
from kedge_bandit.entrypoints.scenarios.stream import Signal

VW_OPTIONS = "--cb_explore_adf --bag 5 --quiet --random_seed {seed}"
BATCH = 10
"""Outcomes that MABWiser learns at once; its calls are slow."""


class VowpalWabbit:
    """A bag of five, over actions that are features of their own; cost = 1 − reward."""

    def __init__(self, seed: int) -> None:
        self._model: Any = import_module("vowpalwabbit").Workspace(VW_OPTIONS.format(seed=seed))
        self._draws = np.random.default_rng(seed)
        self._decided: dict[int, tuple[int, int, float]] = {}

    def decide(self, turn: int, arms: int) -> tuple[int, Sequence[float]]:
        """Pick by the model's probabilities."""
        shares: list[float] = self._model.predict("\n".join(f"| a{arm}" for arm in range(arms)))
        arm = pick(shares, float(self._draws.random()))
        self._decided[turn] = (arm, arms, shares[arm])
        return arm, shares

    def ended(self, turn: int, signals: Sequence[Signal]) -> None:
        """Learn what came with the log."""
        self.heard(turn, signals, turn)

    def heard(self, turn: int, signals: Sequence[Signal], now: int) -> None:
        """Learn what came later."""
        if signals:
            arm, arms, share = self._decided[turn]
            label = f"0:{1.0 - mean_of(signals):g}:{share:g} "
            self._model.learn("\n".join(f"{label if i == arm else ''}| a{i}" for i in range(arms)))


class MabWiser:
    """Thompson sampling without discount; a mean of several signals counts as success from a half on."""

    def __init__(self, seed: int) -> None:
        mab = import_module("mabwiser.mab")
        self._make: Callable[[int], Any] = lambda arms: mab.MAB(
            list(range(arms)), mab.LearningPolicy.ThompsonSampling(lambda _arm, reward: reward >= 0.5), seed=seed
        )
        self._model: Any = None
        self._draws = np.random.default_rng(seed)
        self._chosen: dict[int, int] = {}
        self._waiting: list[tuple[int, float]] = []
        self._arms = 0

    def decide(self, turn: int, arms: int) -> tuple[int, Sequence[float]]:
        """Let the model predict; at random until it has learned something."""
        if self._model is not None and arms > self._arms:
            self._model.add_arm(arms - 1, lambda _arm, reward: reward >= 0.5)
        self._arms = arms
        arm = int(self._draws.integers(arms)) if self._model is None else int(self._model.predict())
        self._chosen[turn] = arm
        return arm, [float(i == arm) for i in range(arms)]

    def ended(self, turn: int, signals: Sequence[Signal]) -> None:
        """Learn what came with the log."""
        self.heard(turn, signals, turn)

    def heard(self, turn: int, signals: Sequence[Signal], now: int) -> None:
        """Learn what came, some at a time."""
        if signals:
            self._waiting.append((self._chosen[turn], mean_of(signals)))
        if len(self._waiting) >= BATCH:
            arms, rewards = (np.array(part) for part in zip(*self._waiting, strict=True))
            if self._model is None:
                self._model = self._make(self._arms)
                self._model.fit(arms, rewards)
            else:
                self._model.partial_fit(arms, rewards)
            self._waiting = []


def mean_of(signals: Sequence[Signal]) -> float:
    """Give the plain mean of what is there."""
    return sum(signal.value for signal in signals) / len(signals)


PEERS: Mapping[str, tuple[str, Callable[[int], Player]]] = {
    "Vowpal Wabbit": ("vowpalwabbit", VowpalWabbit),
    "MABWiser": ("mabwiser", MabWiser),
}
"""Their module, and what makes a player of a seed."""


def installed() -> Mapping[str, Callable[[int], Player]]:
    """Name those that can play here."""
    return {name: make for name, (module, make) in PEERS.items() if find_spec(module) is not None}
