"""Action, observation and state on the wire: what OpenEnv's server reads and writes.

Plain models with the fields that OpenEnv's own base classes have: a client needs OpenEnv no more than the world does.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer


class FleetAction(BaseModel):
    """One action. What is no action of the environment is answered by it, not by the wire, and costs a step."""

    model_config = ConfigDict(extra="forbid")

    action_type: str = Field(
        default="", max_length=200, description="allocate, monitor, intervene, escalate, hold, ..."
    )
    worker: str | None = Field(default=None, max_length=200, description="worker_1 to worker_5")
    allocation: dict[str, Any] | None = Field(default=None, description="configuration per worker, while planning")
    report: dict[str, Any] | None = Field(default=None, description="verdict and reason per worker, with submit_audit")
    metadata: dict[str, Any] = Field(default_factory=dict, description="ignored")


class FleetObservation(BaseModel):
    """What an overseer sees, and OpenEnv's envelope around it; planning fills other fields than oversight."""

    model_config = ConfigDict(extra="forbid")

    phase: str
    step: int
    invalid_actions: int
    error: str | None = None
    dataset_profile: dict[str, Any] | None = None
    worker_capacities: dict[str, int] | None = None
    budget_constraints: dict[str, Any] | None = None
    allocations: dict[str, dict[str, Any] | None] | None = None
    governance_budget: int | None = None
    workers: dict[str, dict[str, Any]] | None = None
    probe: dict[str, Any] | None = None
    done: bool = False
    reward: float | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)

    @model_serializer(mode="wrap")
    def _as_shown(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what a phase does not show, so that a player sees the same over the wire as in process."""
        written: dict[str, Any] = write(self)
        return {name: value for name, value in written.items() if name in self.model_fields_set}

    def seen(self) -> dict[str, Any]:
        """Give what a policy may look at: the observation without the envelope."""
        return self.model_dump(exclude={"done", "reward", "metadata"})


class FleetState(BaseModel):
    """What a session may ask about itself: nothing that the observation hides."""

    episode_id: str | None = None
    step_count: int = 0
    task: str | None = None
    finished: bool = False
