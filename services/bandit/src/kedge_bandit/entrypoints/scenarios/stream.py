"""Draw, before anybody plays, everything that any choice would lead to, so that all players meet the same world."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np

from kedge_bandit.domain.arrays import BoolArray, FloatArray, IntArray
from kedge_bandit.domain.outcome import SignalKind

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
TURN = timedelta(minutes=1)
"""One decision a minute."""
HALF_LIFE_TURNS = 1386
"""Half-life of the benches' simulated clock: a turn's discount is .9995."""


class Signal(NamedTuple):
    """What is observed of an episode; HUMAN is 1 or 0 here, for a thumb up or down."""

    kind: SignalKind
    value: float


def time_of(turn: int) -> datetime:
    """Give the time of a turn.

    >>> time_of(90).isoformat()
    '2026-01-01T01:30:00+00:00'
    """
    return BEGIN + turn * TURN


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A world of T turns and K arms.

    Attributes:
        means: probability of success [T, K].
        success: whether each arm would succeed [T, K].
        delay: turns until that is known [T, K]; 0: with the episode's log; negative: it never is.
        kind: the signal that says it, TASK_SUCCESS or HUMAN.
        judge: what a judge would say of each arm [T, K]; None: there is no judge.
        begin: turn [K] from which an arm exists.
    """

    means: FloatArray
    success: BoolArray
    delay: IntArray
    kind: SignalKind = SignalKind.TASK_SUCCESS
    judge: FloatArray | None = None
    begin: IntArray

    @property
    def turns(self) -> int:
        """T."""
        return len(self.means)

    @property
    def best(self) -> IntArray:
        """Best arm [T] of those that exist."""
        there = np.where(np.arange(self.turns)[:, None] >= self.begin, self.means, -1.0)
        return np.asarray(there.argmax(axis=1), dtype=np.int64)

    def arms_at(self, turn: int) -> int:
        """Number of arms that exist; the later ones come last."""
        return int(np.count_nonzero(self.begin <= turn))

    def at_once(self, turn: int, arm: int) -> list[Signal]:
        """Give what is observed with the log."""
        said = [] if self.judge is None else [Signal(SignalKind.JUDGE, float(self.judge[turn, arm]))]
        return [*said, self.verdict(turn, arm)] if self.delay[turn, arm] == 0 else said

    def verdict(self, turn: int, arm: int) -> Signal:
        """Give the signal that says whether an arm succeeded."""
        return Signal(self.kind, float(self.success[turn, arm]))

    @property
    def gaps(self) -> FloatArray:
        """Success that each arm misses against the best one that exists [T, K]."""
        best = self.means[np.arange(self.turns), self.best]
        return np.asarray(best[:, None] - self.means, dtype=np.float64)

    @property
    def digest(self) -> str:
        """SHA-256 over everything that was drawn, in hex."""
        drawn = hashlib.sha256()
        for part in (self.means, self.success, self.delay, self.judge, self.begin):
            drawn.update(b"" if part is None else np.ascontiguousarray(part).tobytes())
        return drawn.hexdigest()


def drawn(seed: int, name: str, means: FloatArray) -> tuple[Stream, np.random.Generator]:
    """Draw the successes of a world; gives it, known at once, and the generator for the rest of it."""
    rng = np.random.default_rng([seed, *name.encode()])
    stream = Stream(
        means=means,
        success=rng.random(means.shape) < means,
        delay=np.zeros(means.shape, dtype=np.int64),
        begin=np.zeros(means.shape[1], dtype=np.int64),
    )
    return stream, rng


def steady(turns: int, means: tuple[float, ...]) -> FloatArray:
    """Give means [T, K] that do not change."""
    return np.tile(np.array(means), (turns, 1))


def late_turns(turns: int) -> Iterator[int]:
    """Name the last fifth of the turns, of which late shares are the mean.

    >>> list(late_turns(10))
    [8, 9]
    """
    yield from range(turns - turns // 5, turns)
