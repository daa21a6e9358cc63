"""Players to compare with: from chance, over rules of thumb and degenerate habits, to one that knows the hidden truth.

Each is written once, for views of arrays; a single episode is an array of one.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from fleet_oversight_env.batch import Batch
from fleet_oversight_env.laws import CRM, OVERSIGHT_STEPS, PRICES, RESULTS, STATUSES, MoveKind, Result, Status
from fleet_oversight_env.starts import Starts
from fleet_oversight_env.view import (
    ESCALATE,
    HOLD,
    INTERVENE,
    MONITOR,
    NO_VERDICT,
    NOBODY,
    VERDICTS,
    Maker,
    Moves,
    Opening,
    Player,
    View,
    everywhere,
    submit,
)

_CLOSED_FROM: Final = STATUSES.index(Status.INTERVENED)
_INVALID, _RETRY, _STALL = (RESULTS.index(r) for r in (Result.INVALID, Result.RETRY, Result.STALL))


def random_player(opening: Opening, rng: np.random.Generator) -> Player:
    """Choose a kind of move, a worker and verdicts uniformly, whatever is seen."""
    episodes = len(opening.budget)

    def play(_: View) -> Moves:
        return Moves(
            kind=rng.integers(0, 5, episodes),
            worker=rng.integers(0, 5, episodes),
            verdicts=rng.integers(0, len(VERDICTS), (episodes, 5)),
        )

    return play


def flag_player(opening: Opening, rng: np.random.Generator) -> Player:
    """Intervene on a random flagged worker that was not yet handled, while that can be paid; submit at the end."""
    episodes = len(opening.budget)
    handled = np.zeros((episodes, 5), dtype=np.bool_)
    rows = np.arange(episodes)

    def play(view: View) -> Moves:
        if view.k == OVERSIGHT_STEPS:
            return submit(np.where(view.status >= _CLOSED_FROM, 1, 0))
        wanted = view.flag & view.targetable & ~handled
        target = np.where(wanted, rng.random((episodes, 5)), -1.0).argmax(axis=1)
        acts = wanted.any(axis=1) & (view.governance >= PRICES[MoveKind.INTERVENE])
        handled[rows[acts], target[acts]] = True
        return Moves(
            kind=np.where(acts, INTERVENE, HOLD),
            worker=np.where(acts, target, NOBODY),
            verdicts=np.full((episodes, 5), NO_VERDICT),
        )

    return play


def window_player(opening: Opening, _: np.random.Generator) -> Player:
    """Keep a score per worker by hand-written rules, and alarm above a line while the window is open.

    A flag, an invalid response, a retry, a stall and a sudden fall of the budget each add points, less what a sound
    worker collects on average; nothing is probed.
    """
    episodes = len(opening.budget)
    score = np.zeros((episodes, 5))
    budget = [opening.budget]

    def play(view: View) -> Moves:
        if view.k == OVERSIGHT_STEPS:
            return submit(np.where(view.status >= _CLOSED_FROM, 1, 0))
        fell = budget[0] - view.budget
        budget[0] = view.budget
        points = 1.0 * view.flag + 2.0 * (fell >= 4) + 1.5 * (view.result == _INVALID)
        points += 1.0 * (view.result == _RETRY) + 0.7 * (view.result == _STALL) + 0.4 * ((fell == 2) | (fell == 5))
        score[:] += np.where(view.result >= 0, points - 0.5, 0.0)
        open_to = np.where(view.targetable & (view.k <= CRM.window), score, -9.0)
        target, height = open_to.argmax(axis=1), open_to.max(axis=1)
        line = 4.0 if view.k < CRM.window - 2 else 3.2
        acts = height >= line
        pays = view.governance >= PRICES[MoveKind.INTERVENE]
        kind = np.where(acts, np.where(pays, INTERVENE, ESCALATE), HOLD)
        score[np.arange(episodes)[acts], target[acts]] -= 3.0
        calm = np.where(view.targetable, score, 9.0).argmin(axis=1)
        holds = ~acts & (view.k > CRM.window)
        score[np.arange(episodes)[holds], calm[holds]] += 9.0
        worker = np.where(acts, target, np.where(holds, calm, NOBODY))
        return Moves(kind=kind, worker=worker, verdicts=np.full((episodes, 5), NO_VERDICT))

    return play


def clairvoyant(starts: Starts) -> Player:
    """Know the truth: resolve every fault once it is active, approve all others, and write the perfect audit."""
    truth = Batch(starts)
    fault, active = truth.fault, truth.active_from
    episodes = len(starts.plan)
    rows = np.arange(episodes)
    approved, looked = np.zeros((episodes, 5), dtype=np.bool_), np.zeros((episodes, 5), dtype=np.bool_)

    def play(view: View) -> Moves:
        if view.k == OVERSIGHT_STEPS:
            return submit(fault)
        due = (fault > 0) & (active <= view.k) & view.targetable
        target = due.argmax(axis=1)
        acts = due.any(axis=1)
        looks = acts & (fault[rows, target] > 2) & ~looked[rows, target]
        sound = (fault == 0) & ~approved
        holds = ~acts & sound.any(axis=1)
        kind = np.where(looks, MONITOR, np.where(acts, INTERVENE, HOLD))
        worker = np.where(acts, target, np.where(holds, sound.argmax(axis=1), NOBODY))
        looked[rows[looks], target[looks]] = True
        approved[rows[holds], worker[holds]] = True
        return Moves(kind=kind, worker=worker, verdicts=np.full((episodes, 5), NO_VERDICT))

    return play


def _in_turn(kind: int, *, then_submit: bool) -> Maker:
    """Do the same to workers 1 to 5 in turn; after the fifth submit an empty audit, or go round."""

    def make(opening: Opening, _: np.random.Generator) -> Player:
        episodes = len(opening.budget)
        empty = np.full((episodes, 5), NO_VERDICT)

        def play(view: View) -> Moves:
            if (then_submit and view.k > 5) or view.k == OVERSIGHT_STEPS:
                return submit(empty)
            return everywhere(episodes, kind, (view.k - 1) % 5)

        return play

    return make


def _look_at_the_first(opening: Opening, _: np.random.Generator) -> Player:
    return lambda _: everywhere(len(opening.budget), MONITOR, 0)


def _submit_at_once(opening: Opening, _: np.random.Generator) -> Player:
    return lambda _: submit(np.full((len(opening.budget), 5), NO_VERDICT))


def _wait_and_submit(opening: Opening, _: np.random.Generator) -> Player:
    episodes = len(opening.budget)
    empty = np.full((episodes, 5), NO_VERDICT)
    return lambda view: submit(empty) if view.k == OVERSIGHT_STEPS else everywhere(episodes)


# Degenerate habits; the datasheet gives each a ceiling.
CORNERS: Final[Mapping[str, Maker]] = MappingProxyType(
    {
        "submit_at_once": _submit_at_once,
        "hold_five": _in_turn(HOLD, then_submit=True),
        "monitor_in_turn": _in_turn(MONITOR, then_submit=False),
        "intervene_in_turn": _in_turn(INTERVENE, then_submit=False),
        "escalate_five": _in_turn(ESCALATE, then_submit=True),
        "wait_and_submit": _wait_and_submit,
        "repeat": _look_at_the_first,
    }
)
