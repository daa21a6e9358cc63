"""Action, observation and state on the wire: what OpenEnv's server reads and writes.

Plain models with the fields of the classes that OpenEnv has for them, so that a client needs no OpenEnv.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer


class RelocationAction(BaseModel):
    """One action. What is no action of the environment is answered by it, not by the wire."""

    model_config = ConfigDict(extra="forbid")

    action_type: str = Field(default="", max_length=200, description="one of the verbs of the datasheet")
    target: str = Field(default="", max_length=200, description="a document, a country, or empty")
    metadata: dict[str, Any] = Field(default_factory=dict, description="ignored")


class RelocationObservation(BaseModel):
    """What a player sees, and OpenEnv's envelope around it; open mode alone fills the last five fields of the view."""

    model_config = ConfigDict(extra="forbid")

    task: str
    case_id: str
    employee: dict[str, str | bool]
    countries: list[str]
    documents: dict[str, str]
    departments: dict[str, bool]
    compliance: dict[str, bool]
    conflicts: list[dict[str, Any]]
    announcements: list[dict[str, Any]]
    deadline_days: int
    steps_taken: int
    previous_actions: list[str]
    status: str
    last_action_result: str
    last_action_error: str
    open_parts: dict[str, int]
    progress: float | None = None
    required_departments: list[str] | None = None
    required_compliance: list[str] | None = None
    current_blockers: list[str] | None = None
    available_actions: list[str] | None = None
    done: bool = False
    reward: float | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)

    @model_serializer(mode="wrap")
    def _as_shown(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what a mode does not show, so that a player sees the same over the wire as in process."""
        written: dict[str, Any] = write(self)
        return {name: value for name, value in written.items() if name in self.model_fields_set}


class GradeRequest(BaseModel):
    """Which finished episode to grade; there is no task to name."""

    model_config = ConfigDict(extra="forbid")

    episode_id: str = Field(max_length=255)


class RelocationState(BaseModel):
    """What a session may ask about itself: nothing that the observation hides."""

    episode_id: str | None = None
    step_count: int = 0
    task: str | None = None
    finished: bool = False
