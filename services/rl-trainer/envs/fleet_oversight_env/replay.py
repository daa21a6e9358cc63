"""Play recorded actions in a batch and show every step as JSON: what proves that a batch and its episodes are one."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import cast

import numpy as np

from fleet_oversight_env.actions import read
from fleet_oversight_env.batch import Batch
from fleet_oversight_env.fleet import Move, World
from fleet_oversight_env.laws import (
    LOG_LENGTH,
    OPERATIONS,
    PLANNING_STEPS,
    RESULTS,
    STATUSES,
    WORKERS,
    MoveKind,
    Result,
    Status,
)
from fleet_oversight_env.luck import luck_of
from fleet_oversight_env.observation import FINISHED, OVERSIGHT, Oversight, Probed, Shown, observe
from fleet_oversight_env.results import results
from fleet_oversight_env.scenarios import TASKS, begin
from fleet_oversight_env.seat import Json
from fleet_oversight_env.starts import starts
from fleet_oversight_env.view import MOVES, NO_RESULT, NO_VERDICT, NOBODY, VERDICTS, Moves, View
from fleet_oversight_env.world import refusal, step

Replayed = tuple[list[Json], list[float]]


class _Log:
    """Keep an episode's last operations per worker, from its results alone."""

    def __init__(self) -> None:
        self.entries: list[list[list[str]]] = [[] for _ in WORKERS]
        self.progress = [0] * len(WORKERS)

    def add(self, results_now: Sequence[int]) -> None:
        for worker, result in enumerate(results_now):
            if result != NO_RESULT:
                operation = OPERATIONS[worker][self.progress[worker] % len(OPERATIONS[worker])]
                self.entries[worker] = [*self.entries[worker], [operation, str(RESULTS[result])]][-LOG_LENGTH:]
                self.progress[worker] += RESULTS[result] is Result.OK


def replay_batch(task: str, seeds: Sequence[int], actions: Sequence[Sequence[Json]]) -> list[Replayed]:
    """Replay one list of actions per seed in one batch; give each episode's observations and rewards.

    Planning is one world's affair, so the scalar world plays it and the batch starts from its plan.
    """
    worlds, shown = [], []
    for seed, played in zip(seeds, actions, strict=True):
        world, seen = _planned(task, seed, played)
        worlds.append(world)
        shown.append(seen)
    plans = iter([[worker.config for worker in world.workers] for world in worlds])
    batch = Batch(starts(task, seeds, lambda _: next(plans)))
    batch.invalid_moves += np.array([world.invalid_moves for world in worlds])
    logs = [_Log() for _ in worlds]
    totals = results(batch).total
    rewards = [[0.0] * (PLANNING_STEPS - 1) + [float(paid)] for paid in totals]
    for episode, world in enumerate(worlds):
        logs[episode].add(batch.result[episode].tolist())
        shown[episode].append(_shown(batch, batch.view(), episode, world, logs[episode], world.error))
    for now in zip_longest(*(played[PLANNING_STEPS:] for played in actions)):
        view, live = batch.view(), batch.live.copy()
        moves = [read(action) if going else None for action, going in zip(now, live, strict=True)]
        batch.step(_arrays(moves))
        after, before, totals = batch.view(), totals, results(batch).total
        for episode, move in enumerate(moves):
            if move is None:
                continue
            over = not batch.live[episode]
            if not over:
                logs[episode].add(batch.result[episode].tolist())
            error = _refused(move, view, episode)
            at = view if over else after
            shown[episode].append(_shown(batch, at, episode, worlds[episode], logs[episode], error))
            rewards[episode].append(float(totals[episode] - before[episode]))
    return list(zip(shown, rewards, strict=True))


def _planned(task: str, seed: int, played: Sequence[Json]) -> tuple[World, list[Json]]:
    """Play the planning; give the world at its first oversight step and what was shown before it."""
    luck = luck_of(seed)
    world = begin(TASKS[task], luck)
    shown: list[Json] = []
    for action in played[:PLANNING_STEPS]:
        shown.append(dict(observe(world)))
        world = step(world, read(action), luck)
    return world, shown


def _arrays(moves: Sequence[Move | None]) -> Moves:
    """Write moves as arrays; what could not be read becomes a monitor of nobody, which is refused just so."""
    kinds, workers, verdicts = [], [], []
    for move in moves:
        readable = move is not None and move.kind in MOVES
        kinds.append(MOVES.index(move.kind) if move is not None and readable else MOVES.index(MoveKind.MONITOR))
        aims = move is not None and readable and move.worker is not None
        workers.append(move.worker if move is not None and aims else NOBODY)
        said = move.verdicts if move is not None else (None,) * len(WORKERS)
        verdicts.append([NO_VERDICT if word is None else VERDICTS.index(word) for word in said])
    return Moves(kind=np.array(kinds), worker=np.array(workers), verdicts=np.array(verdicts))


def _refused(move: Move, view: View, episode: int) -> str | None:
    worker = move.worker or 0
    return refusal(
        move,
        closed=STATUSES[view.status[episode, worker]] in {Status.INTERVENED, Status.ESCALATED},
        targetable=bool(view.targetable[episode, worker]),
        governance=int(view.governance[episode]),
    )


def _shown(batch: Batch, seen: View, episode: int, world: World, log: _Log, error: str | None) -> Json:
    """Show one episode as `observation.observe` shows its world.

    Args:
        seen: The view of the step that the episode is at: an ended one stays at its last.
    """
    over = not batch.live[episode]
    probed = int(batch.probed[episode])
    probe = Probed(worker=WORKERS[probed], quality=float(batch.quality[episode]), zero_reward=bool(batch.zero[episode]))
    planned = cast("Oversight", observe(world))["workers"]
    return {
        "phase": FINISHED if over else OVERSIGHT,
        "step": seen.k + PLANNING_STEPS,
        "governance_budget": int(batch.governance[episode]),
        "workers": {
            name: Shown(
                budget_remaining=int(batch.budget[episode, index]),
                flag=int(batch.flag[episode, index]),
                last_actions=log.entries[index],
                status=str(STATUSES[batch.status[episode, index]]),
                targetable=bool(
                    batch.status[episode, index] < STATUSES.index(Status.INTERVENED)
                    and seen.k > batch.locked_until[episode, index]
                ),
                config=planned[name]["config"],
            )
            for index, name in enumerate(WORKERS)
        },
        "probe": None if over or probed == NOBODY else probe,
        "invalid_actions": int(batch.invalid_moves[episode]),
        "error": error,
    }
