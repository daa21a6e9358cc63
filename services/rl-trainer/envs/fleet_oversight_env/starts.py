"""Set up many episodes at once, up to the point where planning ends: their luck, their data and their plans."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from fleet_oversight_env.fleet import affordable
from fleet_oversight_env.laws import FLEET, START_BUDGET, Domain
from fleet_oversight_env.luck import BUDGET, luck_arrays
from fleet_oversight_env.planning import DEFAULT, Config, Profile, alignment, best_plan
from fleet_oversight_env.scenarios import profile_of, task_of
from fleet_oversight_env.view import Floats, Opening

Plan = Sequence[Config | None]
Planner = Callable[[Profile], Plan]
_alignment = cache(alignment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """The luck and the plans of E episodes of one domain.

    Args:
        scenario, start, telemetry: The numbers of `luck.luck_arrays`, stacked: [E, 5], [E, 5, 7], [E, 17, 5, 6].
        alignment: Per worker, [E, 5].
        plan: R_plan, [E].
    """

    domain: Domain
    scenario: Floats
    start: Floats
    telemetry: Floats
    alignment: Floats
    plan: Floats

    @property
    def opening(self) -> Opening:
        """What an overseer knows before the first step."""
        low, high = START_BUDGET
        budget = low + (self.start[:, :, BUDGET] * (high - low + 1)).astype(np.int64)
        return Opening(budget=budget, alignment=self.alignment)


def optimal_plan(profile: Profile) -> Plan:
    """Plan by trying every configuration against the published scoring."""
    return best_plan(profile.needs)


def draw(seeds: Sequence[int]) -> tuple[Floats, Floats, Floats]:
    """Stack the luck of many episodes."""
    scenario, start, telemetry = zip(*(luck_arrays(seed) for seed in seeds), strict=True)
    return np.stack(scenario), np.stack(start), np.stack(telemetry)


def starts(task: str, seeds: Sequence[int], planner: Planner = optimal_plan) -> Starts:
    """Set up one episode of `task` per seed, planned by `planner`; what a worker cannot carry is not set.

    Raises:
        UnknownTask, SeedRefused: As `scenarios.task_of`.
    """
    tasks = [task_of(task, seed) for seed in seeds]
    scenario, start, telemetry = draw(seeds)
    profiles = [profile_of(one, row) for one, row in zip(tasks, scenario.tolist(), strict=True)]
    aligned, earned = np.empty((len(profiles), FLEET)), np.empty(len(profiles))
    for episode, profile in enumerate(profiles):
        aligned[episode], earned[episode] = _suits(planner(profile), profile.needs)
    return Starts(
        domain=tasks[0].domain, scenario=scenario, start=start, telemetry=telemetry, alignment=aligned, plan=earned
    )


def _suits(plan: Plan, needs: tuple[int, int, int]) -> tuple[list[float], float]:
    """Give each worker's alignment and the mean of what is earned, summed in the order of `fleet.plan_quality`."""
    runs = [config if config and affordable(config, worker) else None for worker, config in enumerate(plan)]
    suits = [_alignment(config or DEFAULT, worker, needs) for worker, config in enumerate(runs)]
    return suits, sum(suit if config else 0.0 for suit, config in zip(suits, runs, strict=True)) / FLEET
