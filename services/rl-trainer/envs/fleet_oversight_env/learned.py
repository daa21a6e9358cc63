"""Play with a trained network: features from views alone, one move a step, the audit at the last."""

from collections.abc import Callable

import numpy as np

from fleet_oversight_env.features import Memory, possible
from fleet_oversight_env.laws import OVERSIGHT_STEPS, STATUSES, Status
from fleet_oversight_env.network import Network, forward, sample
from fleet_oversight_env.view import HOLD, NO_VERDICT, NOBODY, SUBMIT, Ints, Moves, Opening, Player, View

WAIT = 20
_CLOSED_FROM = STATUSES.index(Status.INTERVENED)
Maker = Callable[[Opening, np.random.Generator], Player]


def moves_of(choice: Ints) -> Moves:
    """Spell out choices 0..20: worker times four plus the kind, or to wait."""
    waits = choice == WAIT
    return Moves(
        kind=np.where(waits, HOLD, choice % 4),
        worker=np.where(waits, NOBODY, choice // 4),
        verdicts=np.full((len(choice), 5), NO_VERDICT),
    )


def closing(memory: Memory, view: View) -> Moves:
    """Submit the audit: workers whose fault was resolved are blamed with their most conspicuous excess."""
    episodes = len(view.governance)
    return Moves(
        kind=np.full(episodes, SUBMIT),
        worker=np.full(episodes, NOBODY),
        verdicts=np.where(view.status >= _CLOSED_FROM, memory.suspicion() + 1, 0),
    )


def learned(network: Network, *, greedy: bool = True, temperature: float = 1.0) -> Maker:
    """Make a player of `network`: the likeliest move, or one drawn at `temperature`."""

    def make(opening: Opening, rng: np.random.Generator) -> Player:
        memory = Memory(opening)
        last: list[Moves | None] = [None]

        def play(view: View) -> Moves:
            features = memory.see(view, last[0])
            if view.k == OVERSIGHT_STEPS:
                return closing(memory, view)
            logs = forward(network, features, possible(view)).log_probabilities
            choice = logs.argmax(axis=1) if greedy else sample(logs / np.float32(temperature), rng)
            moves = moves_of(choice)
            last[0] = moves
            return moves

        return play

    return make
