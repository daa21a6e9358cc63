"""Action, observation and state on the wire: what OpenEnv's server reads and writes.

Plain models with the fields of the classes that OpenEnv has for them, so that a client needs no OpenEnv.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class BriefAction(BaseModel):
    """One action. What is no action of the environment is answered by it, not by the wire."""

    model_config = ConfigDict(extra="forbid")

    action_type: str = Field(default="", max_length=200, description="consult, ask, summarize, submit or noop")
    expert_id: str | None = Field(default=None, max_length=200, description="whom consult and ask turn to")
    sub_question_id: str | None = Field(default=None, max_length=200, description="what ask wants to know")
    notes: str | None = Field(default=None, max_length=2000, description="free text; looked through for citations")
    metadata: dict[str, Any] = Field(default_factory=dict, description="ignored")


class BriefObservation(BaseModel):
    """What a player sees, and OpenEnv's envelope around it."""

    model_config = ConfigDict(extra="forbid")

    task_name: str
    task_difficulty: str
    instruction: str
    rag_enabled: bool
    eval_mode: bool
    profile: str
    tenant_id: str
    file_rows: int
    file_preview: list[list[str | int | float | None]]
    max_steps: int
    step_count: int
    available_experts: list[str]
    sub_questions: dict[str, list[str]]
    consulted_experts: list[str]
    expert_reports: dict[str, dict[str, Any]]
    current_brief: dict[str, Any] | None
    data_quality_score: float | None
    issues: list[str]
    history: list[str]
    last_event: str
    last_action_error: str
    done: bool = False
    reward: float | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)


class GradeRequest(BaseModel):
    """Which finished episode to grade; there is no task to name."""

    model_config = ConfigDict(extra="forbid")

    episode_id: str = Field(max_length=255)


class BriefState(BaseModel):
    """What a session may ask about itself: nothing that the observation hides."""

    episode_id: str | None = None
    step_count: int = 0
    task: str | None = None
    finished: bool = False
