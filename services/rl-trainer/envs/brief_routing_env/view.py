"""What a player sees: the brief that is asked for, the file as it came in, and what the experts have said so far."""

from collections.abc import Sequence
from typing import TypedDict

from brief_routing_env.reports import Brief
from brief_routing_env.tasks import EXPERTS, QUESTIONS, Expert
from brief_routing_env.world import Event, World

PREVIEW = 3
"""Rows of the file that everybody sees."""


class View(TypedDict):
    """An observation; never a reward, a grade, what is right, or whether somebody lies."""

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
    expert_reports: dict[str, dict[str, object]]
    current_brief: Brief | None
    data_quality_score: float | None
    issues: list[str]
    history: list[str]
    last_event: str
    last_action_error: str


def view(world: World, history: Sequence[str], last: tuple[Event | None, str]) -> View:
    """Show an office.

    Args:
        world: The office.
        history: Actions so far, as JSON.
        last: What became of the last action, and why it did nothing; None at the start.
    """
    case, (event, why) = world.case, last
    orders = case.orders
    books = world.held.get(Expert.ANALYST)
    quality = books.report.metrics.get("data_quality_score") if books else None
    found = [f"{expert}: {issue}" for expert, one in world.held.items() for issue in one.report.issues]
    return View(
        task_name=case.task.name,
        task_difficulty=case.task.difficulty,
        instruction=f"{case.task.instruction} For: {case.task.audience}. Subject: {case.task.title}.",
        rag_enabled=case.switches.rag,
        eval_mode=case.switches.eval_mode,
        profile=str(case.switches.profile),
        tenant_id=case.switches.tenant,
        file_rows=len(orders),
        file_preview=[list(order) for order in orders[:PREVIEW]],
        max_steps=case.task.max_steps,
        step_count=world.steps,
        available_experts=[str(expert) for expert in EXPERTS],
        sub_questions={} if case.compat else {str(expert): list(QUESTIONS[expert]) for expert in EXPERTS},
        consulted_experts=[str(expert) for expert in world.held],
        expert_reports={str(expert): one.report.shown() for expert, one in world.held.items()},
        current_brief=world.brief,
        data_quality_score=float(quality) if quality is not None else None,
        issues=found if world.held else ["no expert was consulted"],
        history=list(history),
        last_event=str(event or ""),
        last_action_error=why,
    )
