"""Play one stream by anybody: decide, see what comes with the log, and hear the rest when it comes."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kedge_bandit.domain.arrays import FloatArray, IntArray
from kedge_bandit.domain.identifiers import EpisodeId
from kedge_bandit.domain.policy import PolicySpec
from kedge_bandit.entrypoints.scenarios.served import Served
from kedge_bandit.entrypoints.scenarios.stream import Signal, Stream, late_turns, time_of

PASS_TURNS = 10
"""Turns between two passes of the worker."""


class Player(Protocol):
    """Chooses arms and learns; arms are numbered, and new ones come last."""

    def decide(self, turn: int, arms: int) -> tuple[int, Sequence[float]]:
        """Choose one of so many arms; gives it, and the share that each had of what may be chosen freely."""

    def ended(self, turn: int, signals: Sequence[Signal]) -> None:
        """Take the log of a turn's episode, and what was observed with it."""

    def heard(self, turn: int, signals: Sequence[Signal], now: int) -> None:
        """Take what was observed later, of the episode of a turn."""


@dataclass(frozen=True, slots=True)
class Played:
    """What a player did with a stream.

    Attributes:
        chosen: arm of each turn [T].
        free: share of each arm [T, K] in the traffic that neither the floor nor the uniform slice holds.
    """

    stream: Stream
    chosen: IntArray
    free: FloatArray

    @property
    def regret(self) -> float:
        """Success that the free traffic is expected to miss against the best arm, over all turns."""
        return float((self.free * self.stream.gaps).sum())

    @property
    def whole_regret(self) -> float:
        """Success missed by what was served, floor and slice included."""
        return float(self.stream.gaps[np.arange(self.stream.turns), self.chosen].sum())

    @property
    def late_share(self) -> float:
        """Share of the best arm in the free traffic of the last fifth."""
        late = np.array(list(late_turns(self.stream.turns)))
        return float(self.free[late, self.stream.best[late]].mean())

    def share_of(self, arm: int, turns: range) -> float:
        """Share of an arm in the free traffic of some turns."""
        return float(self.free[turns.start : turns.stop, arm].mean())


def play(stream: Stream, player: Player) -> Played:
    """Play a stream to its end."""
    chosen = np.zeros(stream.turns, dtype=np.int64)
    free = np.zeros(stream.means.shape)
    coming: defaultdict[int, list[int]] = defaultdict(list)
    for turn in range(stream.turns):
        for earlier in coming.pop(turn, ()):
            player.heard(earlier, [stream.verdict(earlier, int(chosen[earlier]))], turn)
        arms = stream.arms_at(turn)
        arm, shares = player.decide(turn, arms)
        chosen[turn], free[turn, :arms] = arm, shares
        player.ended(turn, stream.at_once(turn, arm))
        wait = int(stream.delay[turn, arm])
        if wait > 0:
            coming[turn + wait].append(turn)
    return Played(stream, chosen, free)


class ServicePlayer:
    """Play by the service's own code.

    Args:
        specs: configuration by number of arms; where arms are added, the next one is put in force.
        times: how often each message is sent.
    """

    def __init__(self, name: str, specs: dict[int, PolicySpec], *, times: int = 1) -> None:
        self._specs, self._times = specs, times
        self.served = Served.start(name, specs[min(specs)])

    def decide(self, turn: int, arms: int) -> tuple[int, Sequence[float]]:
        """Choose as `Decide` does; where a pass is due, what the worker publishes is there before."""
        now = time_of(turn)
        if len(self.served.policy.spec.actions) < arms:
            self.served.configure(self._specs[arms], now)
        elif turn % PASS_TURNS == 0:
            self.served.publish(now)
        choice = self.served.decide(_episode(turn), now)
        allocation = self.served.allocation
        return choice.index, allocation.q if allocation is not None else ()

    def ended(self, turn: int, signals: Sequence[Signal]) -> None:
        """Log the episode."""
        self._hear(turn, signals, turn, ended=True)

    def heard(self, turn: int, signals: Sequence[Signal], now: int) -> None:
        """Record outcomes."""
        self._hear(turn, signals, now, ended=False)

    def _hear(self, turn: int, signals: Sequence[Signal], now: int, *, ended: bool) -> None:
        self.served.hear(_episode(turn), signals, time_of(now), ended=ended, times=self._times)


def _episode(turn: int) -> EpisodeId:
    return EpisodeId(f"e{turn}")
