"""Show a world to its overseer as JSON: what may be seen, and nothing that is hidden; rewards are never among it."""

from dataclasses import asdict
from typing import TypedDict

from fleet_oversight_env.fleet import Worker, World
from fleet_oversight_env.laws import GOVERNANCE_BUDGET, PRICES, WORKERS
from fleet_oversight_env.planning import CAPACITIES

PLANNING, OVERSIGHT, FINISHED = "planning", "oversight", "finished"


class Configured(TypedDict):
    """A worker's configuration."""

    chunk_strategy: str
    chunk_size: int
    embedding_model: str
    top_k: int


class Limits(TypedDict):
    """The public numbers of the game; an alarm after a fault's window is needless."""

    governance_budget: int
    action_costs: dict[str, int]
    worker_budgets: dict[str, int]
    resolution_window: int


class Planning(TypedDict):
    """What is shown at steps 1 to 3: no telemetry yet."""

    phase: str
    step: int
    dataset_profile: dict[str, object]
    worker_capacities: dict[str, int]
    budget_constraints: Limits
    allocations: dict[str, Configured | None]
    invalid_actions: int
    error: str | None


class Shown(TypedDict):
    """What is shown of a worker; `last_actions` holds up to three pairs of operation and result, the latest last."""

    budget_remaining: int
    flag: int
    last_actions: list[list[str]]
    status: str
    targetable: bool
    config: Configured | None


class Probed(TypedDict):
    """What the monitor of the step before found."""

    worker: str
    quality: float
    zero_reward: bool


class Oversight(TypedDict):
    """What is shown at steps 4 to 20."""

    phase: str
    step: int
    governance_budget: int
    workers: dict[str, Shown]
    probe: Probed | None
    invalid_actions: int
    error: str | None


def observe(world: World) -> Planning | Oversight:
    """Show a world at its step."""
    if world.k < 1:
        return _planning(world)
    probe = world.probe
    return Oversight(
        phase=FINISHED if world.ended else OVERSIGHT,
        step=world.step,
        governance_budget=world.governance_budget,
        workers={name: _shown(worker, world.k) for name, worker in zip(WORKERS, world.workers, strict=True)},
        probe=None
        if probe is None or world.ended
        else Probed(worker=WORKERS[probe.worker], quality=probe.quality, zero_reward=probe.zero_reward),
        invalid_actions=world.invalid_moves,
        error=world.error,
    )


def _planning(world: World) -> Planning:
    return Planning(
        phase=PLANNING,
        step=world.step,
        dataset_profile=asdict(world.profile),
        worker_capacities=dict(zip(WORKERS, CAPACITIES, strict=True)),
        budget_constraints=Limits(
            governance_budget=GOVERNANCE_BUDGET,
            action_costs={str(kind): price for kind, price in PRICES.items()},
            worker_budgets={name: worker.budget for name, worker in zip(WORKERS, world.workers, strict=True)},
            resolution_window=world.domain.window,
        ),
        allocations={name: _configured(worker) for name, worker in zip(WORKERS, world.workers, strict=True)},
        invalid_actions=world.invalid_moves,
        error=world.error,
    )


def _configured(worker: Worker) -> Configured | None:
    config = worker.config
    if config is None:
        return None
    return Configured(
        chunk_strategy=config.chunk_strategy,
        chunk_size=config.chunk_size,
        embedding_model=config.embedding_model,
        top_k=config.top_k,
    )


def _shown(worker: Worker, k: int) -> Shown:
    return Shown(
        budget_remaining=worker.budget,
        flag=int(worker.flag),
        last_actions=[[operation, str(result)] for operation, result in worker.log],
        status=str(worker.status),
        targetable=worker.targetable(k),
        config=_configured(worker),
    )
