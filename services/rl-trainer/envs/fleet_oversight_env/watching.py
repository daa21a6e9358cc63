"""What a person who watches an episode is told beside what its player sees; no player may import this."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from fleet_oversight_env.laws import PLANNING_STEPS, PRICES, WORKERS
from fleet_oversight_env.luck import luck_of
from fleet_oversight_env.scenarios import begin, task_of
from fleet_oversight_env.telemetry import deploy

SWITCHES: Final[Mapping[str, str]] = MappingProxyType({})
"""A reset takes nothing beside the task's name."""

_PRICES: Final = {str(kind): price for kind, price in PRICES.items()}


def told(task: str, seed: int) -> dict[str, object]:
    """Tell which workers are faulty, and the steps at which that begins and shows; no plan changes it.

    >>> sorted(told("nexacrm_hard", 1_000_003)["faults"])
    ['worker_1', 'worker_4']
    """
    luck = luck_of(seed)
    workers = deploy(begin(task_of(task, seed), luck), luck).workers
    return {
        "faults": {
            name: {
                "kind": str(worker.fault),
                "begins": PLANNING_STEPS + worker.active_from,
                "shows": PLANNING_STEPS + worker.shows_from,
            }
            for name, worker in zip(WORKERS, workers, strict=True)
            if worker.fault
        }
    }


def price(action: Mapping[str, object]) -> int | None:
    """Say what a move costs of the governance budget; None for what is no move.

    >>> price({"action_type": "monitor", "worker": "worker_1"}) is not None, price({})
    (True, None)
    """
    return _PRICES.get(str(action.get("action_type")))
