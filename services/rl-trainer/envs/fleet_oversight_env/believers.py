"""Act on the posterior: alarm on the all but surely faulty, approve the all but surely sound, look at the doubtful."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from fleet_oversight_env.belief import Belief, Filter
from fleet_oversight_env.laws import OVERSIGHT_STEPS, PRICES, Domain, MoveKind
from fleet_oversight_env.view import (
    ESCALATE,
    HOLD,
    INTERVENE,
    MONITOR,
    NO_VERDICT,
    NOBODY,
    SUBMIT,
    Bools,
    Ints,
    Maker,
    Moves,
    Opening,
    Player,
    View,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """When a believer acts.

    Args:
        late: From which k the late values hold.
        intervene, escalate: Act above these, before and from `late`.
        hold: Approve below this, from k = `hold_from`.
        doubtful: Look at a worker while its probability is at least this far from 0 and from 1.
    """

    intervene: tuple[float, float] = (0.99, 0.90)
    escalate: tuple[float, float] = (0.99, 0.70)
    late: int = 11
    hold: float = 0.05
    hold_from: int = 10
    doubtful: float = 0.15


VETTED: Final = Thresholds()


def believer(domain: Domain, thresholds: Thresholds = VETTED, *, memory: bool = True) -> Maker:
    """Make a player that acts on the posterior under `domain`'s laws."""

    def make(opening: Opening, _: np.random.Generator) -> Player:
        episodes = len(opening.budget)
        filtered = Filter(domain, opening, memory=memory)
        approved = np.zeros((episodes, 5), dtype=np.bool_)
        rows = np.arange(episodes)
        last: list[Moves | None] = [None]
        monitored = np.full((episodes, 5), -9)

        def play(view: View) -> Moves:
            belief = filtered.see(view, last[0])
            if view.k == OVERSIGHT_STEPS:
                moves = Moves(
                    kind=np.full(episodes, SUBMIT),
                    worker=np.full(episodes, NOBODY),
                    verdicts=np.where(belief.faulty > 0.5, belief.kinds.argmax(axis=2) + 1, 0),
                )
            else:
                moves = _decide(view, belief, thresholds, approved, monitored)
            last[0] = moves
            holds = (moves.kind == HOLD) & (moves.worker != NOBODY)
            approved[rows[holds], moves.worker[holds]] = True
            looks = moves.kind == MONITOR
            monitored[rows[looks], moves.worker[looks]] = view.k
            return moves

        return play

    return make


def _decide(view: View, belief: Belief, at: Thresholds, approved: Bools, monitored: Ints) -> Moves:
    """Prefer an alarm, then an approval, then a look at the most doubtful worker; else wait."""
    episodes = len(view.governance)
    late = int(view.k >= at.late)
    open_now = np.where(view.targetable, belief.open, -1.0)
    suspect = open_now.argmax(axis=1)
    height = open_now.max(axis=1)
    intervenes = (height > at.intervene[late]) & (view.governance >= PRICES[MoveKind.INTERVENE])
    escalates = ~intervenes & (height > at.escalate[late]) & (view.governance >= PRICES[MoveKind.ESCALATE])
    calm = np.where(view.targetable & ~approved, -belief.faulty, -9.0)
    cleared = calm.argmax(axis=1)
    approves = (calm.max(axis=1) > -at.hold) & (view.k >= at.hold_from)
    doubt = np.where(view.targetable & (view.k - monitored > 2), np.minimum(belief.faulty, 1.0 - belief.faulty), -1.0)
    unclear = doubt.argmax(axis=1)
    looks = (doubt.max(axis=1) > at.doubtful) & (view.governance >= PRICES[MoveKind.MONITOR])
    choices = [intervenes, escalates, approves, looks]
    kind = np.select(choices, [INTERVENE, ESCALATE, HOLD, MONITOR], HOLD)
    worker = np.select(choices, [suspect, suspect, cleared, unclear], NOBODY)
    return Moves(kind=kind, worker=worker, verdicts=np.full((episodes, 5), NO_VERDICT))
