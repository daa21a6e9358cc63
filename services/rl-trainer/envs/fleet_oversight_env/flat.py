"""One observation as a flat vector, and its numbered actions, for small policies without memory. Part of VERSION."""

from collections.abc import Mapping
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from fleet_oversight_env.actions import spell
from fleet_oversight_env.features import WORKER_MOVES, possible
from fleet_oversight_env.fleet import Move
from fleet_oversight_env.laws import (
    FLEET,
    GOVERNANCE_BUDGET,
    LAST_STEP,
    RESULTS,
    START_BUDGET,
    STATUSES,
    WORKERS,
    MoveKind,
)
from fleet_oversight_env.observation import OVERSIGHT, PLANNING, Oversight, Planning
from fleet_oversight_env.planning import best_plan
from fleet_oversight_env.seat import profile_of, view_of
from fleet_oversight_env.view import MOVES

WAIT, SUBMIT, PLAN, NO_PLAN = (len(WORKER_MOVES) * FLEET + place for place in range(4))
ACTIONS: Final = NO_PLAN + 1
_PER_WORKER: Final = 3 + len(STATUSES) + len(RESULTS)
WIDTH: Final = 7 + FLEET * _PER_WORKER


def features(observation: Mapping[str, object]) -> npt.NDArray[np.float32]:
    """Encode one observation, shape [WIDTH]; what planning does not show is 0. A memory is the policy's own affair."""
    values = np.zeros(WIDTH, dtype=np.float32)
    values[0] = int(str(observation["step"])) / LAST_STEP
    values[1] = observation["phase"] == PLANNING
    if observation["phase"] == PLANNING:
        profile = cast("Planning", observation)["dataset_profile"]
        values[2:5] = (
            float(str(profile["text_density"])),
            np.log10(float(str(profile["vocabulary_size"]))) / 5.0,
            np.log10(float(str(profile["document_count"]))) / 5.0,
        )
        return values
    seen = cast("Oversight", observation)
    values[5] = seen["governance_budget"] / GOVERNANCE_BUDGET
    values[6] = seen["probe"]["quality"] if seen["probe"] else 0.0
    for index, name in enumerate(WORKERS):
        worker = seen["workers"][name]
        recent = [result for _, result in worker["last_actions"]]
        row = [worker["flag"], worker["budget_remaining"] / START_BUDGET[1]]
        row += [bool(seen["probe"] and seen["probe"]["worker"] == name and seen["probe"]["zero_reward"])]
        row += [worker["status"] == status for status in STATUSES]
        row += [recent.count(result) for result in RESULTS]
        start = 7 + index * _PER_WORKER
        values[start : start + _PER_WORKER] = row
    return values


def mask(observation: Mapping[str, object]) -> npt.NDArray[np.bool_]:
    """Say which numbered actions are possible now, shape [ACTIONS]."""
    marked = np.zeros(ACTIONS, dtype=np.bool_)
    if observation["phase"] == PLANNING:
        marked[[PLAN, NO_PLAN]] = True
    elif observation["phase"] == OVERSIGHT:
        marked[: WAIT + 1] = possible(view_of(cast("Oversight", observation)))[0]
        marked[SUBMIT] = True
    return marked


def numbered(index: int, observation: Mapping[str, object]) -> dict[str, object]:
    """Spell a numbered action: four per worker, wait, submit (blaming nobody), allocate the best plan or nothing.

    >>> numbered(5, {})
    {'action_type': 'intervene', 'worker': 'worker_2'}
    """
    if index == PLAN:
        plan = best_plan(profile_of(cast("Planning", observation)).needs)
        return spell(Move(kind=MoveKind.ALLOCATE, allocation=tuple(enumerate(plan))))
    if index == NO_PLAN:
        return spell(Move(kind=MoveKind.ALLOCATE))
    if index == SUBMIT:
        return spell(Move(kind=MoveKind.SUBMIT, verdicts=("healthy",) * FLEET))
    if index == WAIT:
        return spell(Move(kind=MoveKind.HOLD))
    worker, kind = divmod(index, len(WORKER_MOVES))
    return spell(Move(kind=MOVES[WORKER_MOVES[kind]], worker=worker))
