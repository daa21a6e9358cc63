"""Show many fleets at once as arrays: what an overseer sees at a step and what it does. One episode is an array of one.

Policies are written against these shapes alone, so one implementation plays the batch, the scalar world and a remote
server.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fleet_oversight_env.laws import FAULTS, MoveKind

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MOVES: Final = (MoveKind.MONITOR, MoveKind.INTERVENE, MoveKind.ESCALATE, MoveKind.HOLD, MoveKind.SUBMIT)
MONITOR, INTERVENE, ESCALATE, HOLD, SUBMIT = range(5)
VERDICTS: Final = ("healthy", *FAULTS)
NO_VERDICT: Final = -1
NO_RESULT: Final = -1
NOBODY: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What is known when oversight starts; E episodes, five workers.

    Args:
        budget: Steps each worker may spend, [E, 5].
        alignment: How well each worker's configuration suits the data, [E, 5]; follows from the profile and the plan.
    """

    budget: Ints
    alignment: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is shown at oversight step k.

    Args:
        k: 1..17, the same for all episodes.
        governance: Governance budget left, [E].
        budget, flag: Per worker, [E, 5].
        result: Index into `laws.RESULTS` of this step's log entry, or NO_RESULT while paused, [E, 5].
        status: Index into `laws.STATUSES`, [E, 5].
        targetable: Whether a move may aim at the worker, [E, 5].
        probed: Worker that the last monitor read, or NOBODY, [E]; its quality and zero-reward bit, [E].
    """

    k: int
    governance: Ints
    budget: Ints
    flag: Bools
    result: Ints
    status: Ints
    targetable: Bools
    probed: Ints
    quality: Floats
    zero: Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """One move per episode.

    Args:
        kind: Index into `MOVES`, [E].
        worker: 0..4, or NOBODY (with HOLD: wait), [E].
        verdicts: The audit that goes with SUBMIT: index into `VERDICTS` or NO_VERDICT, [E, 5].
    """

    kind: Ints
    worker: Ints
    verdicts: Ints


Player = Callable[[View], Moves]
Maker = Callable[[Opening, np.random.Generator], Player]


def everywhere(episodes: int, kind: int = HOLD, worker: int = NOBODY) -> Moves:
    """Make the same move in every episode; to wait, if nothing is said."""
    return Moves(
        kind=np.full(episodes, kind),
        worker=np.full(episodes, worker),
        verdicts=np.full((episodes, 5), NO_VERDICT),
    )


def submit(verdicts: Ints) -> Moves:
    """Submit these audits, [E, 5]."""
    episodes = len(verdicts)
    return Moves(kind=np.full(episodes, SUBMIT), worker=np.full(episodes, NOBODY), verdicts=verdicts)
