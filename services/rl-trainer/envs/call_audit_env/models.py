"""Action, observation and state on the wire: what OpenEnv's server reads and writes.

Plain models with the fields of the classes that OpenEnv has for them, so that a client needs no OpenEnv.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from call_audit_env.moves import LONGEST_NOTE


class AuditAction(BaseModel):
    """One tool call. What is no tool, turn or policy of the audit is answered by it, not by the wire."""

    model_config = ConfigDict(extra="forbid")

    action_type: str = Field(default="", max_length=200, description="one of the seven tools of the datasheet")
    turn_index: int | None = Field(default=None, description="analyze_turn, flag_violation")
    start_turn: int | None = Field(default=None, description="read_transcript_chunk")
    end_turn: int | None = Field(default=None, description="read_transcript_chunk: the last turn, included")
    violation_type: str | None = Field(default=None, max_length=200, description="a policy of the rubric")
    violation_severity: str | None = Field(default=None, max_length=20, description="high, medium or low")
    compliance_pass: bool | None = Field(default=None, description="submit_report: the verdict")
    policy_hypothesis: str | None = Field(default=None, max_length=200, description="analyze_turn: what to look up")
    note: str | None = Field(default=None, max_length=LONGEST_NOTE, description="flag_violation: no personal data")
    metadata: dict[str, Any] = Field(default_factory=dict, description="ignored")


class AuditObservation(BaseModel):
    """What an auditor sees, and OpenEnv's envelope around it."""

    model_config = ConfigDict(extra="forbid")

    call_id: str
    department: str
    turns: int
    policies: list[str]
    step: int
    result: dict[str, Any]
    checklist: dict[str, bool | int]
    system_feedback: str
    error: str
    opened: list[dict[str, Any]]
    findings: list[dict[str, Any]]
    done: bool = False
    reward: float | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)


class GradeRequest(BaseModel):
    """Which finished audit to grade; there is no task to name."""

    model_config = ConfigDict(extra="forbid")

    episode_id: str = Field(max_length=255)


class AuditState(BaseModel):
    """What a session may ask about itself: nothing that the observation hides."""

    episode_id: str | None = None
    step_count: int = 0
    task: str | None = None
    finished: bool = False
