"""The office as text for a language model, and the way back from its answer. Part of the environment's version."""

import json
from collections.abc import Mapping
from typing import cast

from brief_routing_env.actions import FIELDS
from brief_routing_env.answer import find_action
from brief_routing_env.scenarios import Profile, read_name
from brief_routing_env.tasks import EXPERTS, QUESTIONS
from brief_routing_env.view import View
from brief_routing_env.world import Verb


def instructions(task: str) -> str:
    """Tell the rules of the game and the form of an answer; nothing in it says who is needed."""
    known, switches = read_name(task)
    asks = "; ".join(f"{expert}: {', '.join(QUESTIONS[expert])}" for expert in EXPERTS)
    ours = (
        "An expert works from the reports there are, so the order matters. ask puts a sub_question_id to an expert "
        f"who has reported ({asks}). An expert may be wrong, and a report may rest on one that has changed since.\n"
    )
    published = "ask is the same as consult.\n"
    return (
        "You are the chief of staff. Read what is asked for, have the right experts report, put their reports together "
        f"and submit the brief. The experts are {', '.join(EXPERTS)}. You have {known.max_steps} actions; each costs, "
        "turning to somebody without need costs more, and a brief that lacks an expert it needs is worth little.\n"
        + (published if switches.profile is Profile.COMPAT else ours)
        + f"action_type is one of: {', '.join(Verb)}. consult and ask name an expert_id. "
        "Quote no other house's memory.\n"
        "Answer with one JSON object and nothing else: "
        '{"action_type": "...", "expert_id": "...", "sub_question_id": "..."}'
    )


def render(observation: Mapping[str, object]) -> str:
    """Write an observation, one fact a line."""
    seen = cast("View", observation)
    lines = [
        f"Brief {seen['task_name']} ({seen['task_difficulty']}), step {seen['step_count']} of {seen['max_steps']}",
        seen["instruction"],
        f"Memory of {seen['tenant_id']} is {'at hand' if seen['rag_enabled'] else 'not at hand'}.",
        f"The file has {seen['file_rows']} rows, such as: {json.dumps(seen['file_preview'])}",
        f"Consulted: {', '.join(seen['consulted_experts']) or 'nobody'}",
    ]
    for name, report in seen["expert_reports"].items():
        bullets = cast("list[str]", report["bullet_points"])
        sections = cast("dict[str, str]", report["sections"])
        lines.append(f"{name} reports: {report['summary']} {' '.join(bullets)}")
        lines += [f"{name} on {question}: {text}" for question, text in sections.items()]
        lines += [f"{name} cites {', '.join(cast('list[str]', report['memory_citations']))}"] * bool(
            report["memory_citations"]
        )
        if report["memo"]:
            lines.append("The memo:\n" + str(report["memo"]))
    lines.append(f"Issues: {', '.join(seen['issues']) or 'none'}")
    lines.append(f"A brief is {'there' if seen['current_brief'] else 'not there yet'}.")
    if seen["history"]:
        lines.append("Done so far: " + ", ".join(seen["history"]))
        why = f" ({seen['last_action_error']})" if seen["last_action_error"] else ""
        lines.append(f"The last action was {seen['last_event']}{why}.")
    return "\n".join(lines)


def parse(text: str) -> dict[str, object]:
    """Read the first JSON object of an answer that has an `action_type`.

    >>> parse('Numbers first: {"action_type": "consult", "expert_id": "analyst"}')
    {'action_type': 'consult', 'expert_id': 'analyst'}
    >>> parse("ask the analyst")
    {'action_type': 'unreadable'}
    """
    found = find_action(text)
    return {name: found[name] for name in FIELDS if isinstance(found.get(name), str)}
