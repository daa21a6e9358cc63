"""Play fleets in tests: through the planning, to a given step, and with moves drawn for both kinds of world."""

from collections.abc import Sequence

import numpy as np

from fleet_oversight_env.fleet import Move, World
from fleet_oversight_env.laws import MoveKind
from fleet_oversight_env.luck import Luck, luck_of
from fleet_oversight_env.planning import Config, best_plan
from fleet_oversight_env.scenarios import TASKS, TEST_SEEDS, begin
from fleet_oversight_env.view import MOVES, VERDICTS, Moves
from fleet_oversight_env.world import step

WAIT = Move(kind=MoveKind.HOLD)
NOTHING = Move(kind=MoveKind.ALLOCATE)


def planned(task: str, seed: int, plan: Sequence[Config | None] | None = None) -> tuple[World, Luck]:
    """Give a world at its first oversight step, under the best plan unless another is given."""
    luck = luck_of(seed)
    world = begin(TASKS[task], luck)
    chosen = best_plan(world.profile.needs) if plan is None else plan
    pairs = tuple((worker, config) for worker, config in enumerate(chosen) if config is not None)
    world = step(world, Move(kind=MoveKind.ALLOCATE, allocation=pairs), luck)
    return step(step(world, NOTHING, luck), NOTHING, luck), luck


def waited(world: World, luck: Luck, k: int) -> World:
    """Wait until oversight step `k`."""
    while world.k < k:
        world = step(world, WAIT, luck)
    return world


def faulty(world: World) -> list[int]:
    return [index for index, worker in enumerate(world.workers) if worker.fault is not None]


def sound(world: World) -> list[int]:
    return [index for index, worker in enumerate(world.workers) if worker.fault is None]


def drawn_moves(rng: np.random.Generator, episodes: int) -> Moves:
    """Draw any moves, mostly ones that keep the episode going."""
    return Moves(
        kind=rng.choice(5, episodes, p=[0.3, 0.2, 0.25, 0.23, 0.02]),
        worker=rng.integers(-1, 5, episodes),
        verdicts=rng.integers(-1, 5, (episodes, 5)),
    )


def scalar(moves: Moves, episode: int) -> Move:
    """Read one episode's move out of an array of moves."""
    worker = int(moves.worker[episode])
    return Move(
        kind=MOVES[int(moves.kind[episode])],
        worker=None if worker < 0 else worker,
        verdicts=tuple(None if said < 0 else VERDICTS[said] for said in moves.verdicts[episode]),
    )


def seeds(count: int, start: int = 0) -> list[int]:
    return list(TEST_SEEDS[start : start + count])
