"""What an auditor sees: what the tools gave, what was opened and found so far, and the budget. Nothing of the truth."""

from typing import TypedDict

from call_audit_env.moves import Tool
from call_audit_env.report import draft
from call_audit_env.world import LOW, Answer, Event, State, World, turn_json


class Checklist(TypedDict):
    """How far the audit has come."""

    metadata_reviewed: bool
    sentiment_checked: bool
    transcript_chunks_read: int
    turns_analyzed: int
    violations_flagged: int
    report_submitted: bool
    budget_remaining_pct: int
    budget_remaining_units: int
    total_budget: int


class Finding(TypedDict):
    """A finding of one's own."""

    violation_type: str
    violation_severity: str
    turn_index: int | None
    note: str


class View(TypedDict):
    """An observation."""

    call_id: str
    department: str
    turns: int
    policies: list[str]
    step: int
    result: dict[str, object]
    checklist: Checklist
    system_feedback: str
    error: str
    opened: list[dict[str, object]]
    findings: list[Finding]


def view(world: World, last: Answer) -> View:
    """Show an audit.

    Args:
        world: the audit.
        last: what the last tool gave.
    """
    call = world.call
    result = dict(last.body)
    if world.over:
        result["draft_incident_report"] = draft(world)
    return View(
        call_id=call.call_id,
        department=call.department,
        turns=len(call.turns),
        policies=list(world.book.policies),
        step=world.steps,
        result=result,
        checklist=Checklist(
            metadata_reviewed=Tool.METADATA in world.used,
            sentiment_checked=Tool.SENTIMENT in world.used,
            transcript_chunks_read=world.chunks,
            turns_analyzed=world.analyzed,
            violations_flagged=len(world.flags),
            report_submitted=world.over,
            budget_remaining_pct=round(100 * world.left / world.total) if world.total else 0,
            budget_remaining_units=world.left,
            total_budget=world.total,
        ),
        system_feedback=_feedback(world, last),
        error=last.error,
        opened=[turn_json(world, index) for index in sorted(world.shown)],
        findings=[
            Finding(violation_type=one.policy, violation_severity=one.severity, turn_index=one.turn, note=one.note)
            for one in world.flags
        ],
    )


def _feedback(world: World, last: Answer) -> str:
    """Say in words where the audit stands."""
    match world.state:
        case State.SUBMITTED:
            return "The report is in."
        case State.EXHAUSTED:
            return "The budget is exhausted; the report was handed in as it was."
        case State.CUT_OFF:
            return "There were too many steps; nothing was handed in."
        case State.OPEN:
            pass
    said = []
    if Event.EXPOSED in last.events:
        said.append("A note held personal data, which was taken out and reported.")
    if not world.steps:
        said.append(f"A call of {len(world.call.turns)} turns of {world.call.department}, {world.left} units.")
    if world.left < LOW:
        said.append(f"Only {world.left} units are left: submit.")
    return " ".join(said)
