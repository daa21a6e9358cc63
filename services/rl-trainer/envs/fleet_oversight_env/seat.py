"""Let a player of arrays play one episode from observation JSON alone, in process or over the wire."""

from collections.abc import Callable, Mapping
from typing import cast

import numpy as np

from fleet_oversight_env.actions import spell
from fleet_oversight_env.fleet import Move
from fleet_oversight_env.laws import FLEET, PLANNING_STEPS, RESULTS, STATUSES, WORKERS, MoveKind, Status
from fleet_oversight_env.observation import PLANNING, Configured, Oversight, Planning, Shown
from fleet_oversight_env.planning import DEFAULT, Config, Profile, alignment
from fleet_oversight_env.starts import Planner
from fleet_oversight_env.view import MOVES, NO_RESULT, NOBODY, VERDICTS, Maker, Moves, Opening, Player, View

Json = Mapping[str, object]
Policy = Callable[[Json], dict[str, object]]
_OF_STATUS = {str(status): index for index, status in enumerate(STATUSES)}
_OF_RESULT = {str(result): index for index, result in enumerate(RESULTS)}


class Seat:
    """One episode's player of JSON. The plan is made at the first step; oversight is the array player's.

    Args:
        planner: Makes the plan from the profile.
        make: Makes the array player once oversight starts.
        rng: What the player draws from.
    """

    def __init__(self, planner: Planner, make: Maker, rng: np.random.Generator) -> None:
        self._planner = planner
        self._make = make
        self._rng = rng
        self._first: Planning | None = None
        self._player: Player | None = None

    def __call__(self, observation: Json) -> dict[str, object]:
        """Answer an observation with an action."""
        if observation["phase"] == PLANNING:
            return spell(self._plan(cast("Planning", observation)))
        seen = cast("Oversight", observation)
        if self._player is None:
            if self._first is None:
                raise ValueError("a seat plays an episode from its first step: it has not seen the planning")
            self._player = self._make(opening_of(self._first, seen), self._rng)
        return spell(move_of(self._player(view_of(seen))))

    def _plan(self, seen: Planning) -> Move:
        if self._first is not None:
            return Move(kind=MoveKind.ALLOCATE)
        self._first = seen
        plan = self._planner(profile_of(seen))
        return Move(kind=MoveKind.ALLOCATE, allocation=tuple((w, c) for w, c in enumerate(plan) if c is not None))


def profile_of(seen: Planning) -> Profile:
    """Read the data's profile off a planning observation."""
    return Profile(**cast("dict[str, int]", seen["dataset_profile"]))  # type: ignore[arg-type]  # checked by field


def opening_of(planned: Planning, seen: Oversight) -> Opening:
    """Combine the budgets and the profile of planning with the configurations that were accepted."""
    needs = profile_of(planned).needs
    shown = [seen["workers"][name] for name in WORKERS]
    suits = [alignment(_config(worker["config"]), index, needs) for index, worker in enumerate(shown)]
    budgets = planned["budget_constraints"]["worker_budgets"]
    return Opening(budget=np.array([[budgets[name] for name in WORKERS]]), alignment=np.array([suits]))


def _config(configured: Configured | None) -> Config:
    return Config(**configured) if configured else DEFAULT


def _result(worker: Shown) -> int:
    """Read the step's log entry; a paused worker has none."""
    if worker["status"] == Status.PAUSED or not worker["last_actions"]:
        return NO_RESULT
    return _OF_RESULT[worker["last_actions"][-1][1]]


def view_of(seen: Oversight) -> View:
    """Read an observation as arrays of one episode."""
    shown = [seen["workers"][name] for name in WORKERS]
    probe = seen["probe"]
    return View(
        k=seen["step"] - PLANNING_STEPS,
        governance=np.array([seen["governance_budget"]]),
        budget=np.array([[worker["budget_remaining"] for worker in shown]]),
        flag=np.array([[bool(worker["flag"]) for worker in shown]]),
        result=np.array([[_result(worker) for worker in shown]]),
        status=np.array([[_OF_STATUS[worker["status"]] for worker in shown]]),
        targetable=np.array([[worker["targetable"] for worker in shown]]),
        probed=np.array([WORKERS.index(probe["worker"]) if probe else NOBODY]),
        quality=np.array([probe["quality"] if probe else 0.0]),
        zero=np.array([bool(probe and probe["zero_reward"])]),
    )


def move_of(moves: Moves) -> Move:
    """Read the move of an array of one episode."""
    worker = int(moves.worker[0])
    said = [int(verdict) for verdict in moves.verdicts[0]]
    return Move(
        kind=MOVES[int(moves.kind[0])],
        worker=worker if 0 <= worker < FLEET else None,
        verdicts=tuple(VERDICTS[verdict] if verdict >= 0 else None for verdict in said),
    )
