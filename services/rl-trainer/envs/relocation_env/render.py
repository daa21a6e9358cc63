"""The case as text for a language model, and the way back from its answer. Part of the environment's version."""

from collections.abc import Mapping
from typing import cast

from relocation_env.answer import find_action
from relocation_env.rules import COUNTRIES, DOCUMENTS, MAX_STEPS, SETS, Verb
from relocation_env.scenarios import BLIND
from relocation_env.view import View


def instructions(task: str) -> str:
    """Tell the rules of the game and the form of an answer; the example names nothing that a case needs."""
    verbs = ", ".join(Verb)
    hint = "" if task.endswith(BLIND) else " available_actions lists what is possible, traps included."
    return (
        "You relocate an employee from India. Get the documents of the case requested and then verified, the right "
        "departments to approve, and what the countries' rules require set; resolve a conflict of rules, acknowledge a "
        f"change of rules, then finalize. Every action costs a day; there are at most {MAX_STEPS}. Actions beside the "
        f"point and against a country's rules cost points.{hint}\n"
        f"action_type is one of: {verbs}.\n"
        f"target is a document ({', '.join(DOCUMENTS)}) to request or verify, a country ({', '.join(COUNTRIES)}) for "
        f"{', '.join(SETS)}, else empty.\n"
        'Answer with one JSON object and nothing else: {"action_type": "...", "target": "..."}'
    )


def render(observation: Mapping[str, object]) -> str:
    """Write an observation, one fact a line."""
    seen = cast("View", observation)
    employee = seen["employee"]
    family = "with dependents" if employee["has_dependents"] else "without dependents"
    way = f"{employee['origin']} to {' and '.join(seen['countries'])}"
    lines = [
        f"Case {seen['case_id']}, {employee['role']} {family}, {way}",
        f"Day {seen['steps_taken']}, {seen['deadline_days']} left, {seen['status']}",
        "Documents: " + _pairs(seen["documents"]),
        "Approved: " + _chosen(seen["departments"]),
        "Set: " + _chosen(seen["compliance"]),
        "Still open: " + _pairs(seen["open_parts"]),
    ]
    for conflict in seen["conflicts"]:
        state = "resolved" if conflict["resolved"] else "open"
        lines.append(f"Conflict ({state}) of {' and '.join(conflict['countries'])}: {conflict['text']}")
    for notice in seen["announcements"]:
        ask = " (to be acknowledged)" if notice["needs_acknowledgement"] else ""
        lines.append(f"Announced on day {notice['step']}: {notice['text']}{ask}")
    if "available_actions" in seen:
        lines.append("Needed approvals: " + ", ".join(seen["required_departments"]))
        lines.append("Needed settings: " + ", ".join(seen["required_compliance"]))
        lines.append("Blockers: " + (", ".join(seen["current_blockers"]) or "none"))
        lines.append("Possible actions: " + ", ".join(seen["available_actions"]))
    if seen["previous_actions"]:
        why = f" ({seen['last_action_error']})" if seen["last_action_error"] else ""
        lines.append("Done so far: " + ", ".join(seen["previous_actions"]))
        lines.append(f"Last action: {seen['last_action_result']}{why}")
    return "\n".join(lines)


def _pairs(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items()) or "none"


def _chosen(values: Mapping[str, bool]) -> str:
    return ", ".join(name for name, chosen in values.items() if chosen) or "none"


def parse(text: str) -> dict[str, object]:
    """Read the first JSON object of an answer that has an `action_type`.

    >>> parse('I think: {"action_type": "approve_hr"} is best')
    {'action_type': 'approve_hr', 'target': ''}
    >>> parse("approve HR please")["action_type"]
    'unreadable'
    """
    found = find_action(text)
    target = found.get("target")
    return {"action_type": found["action_type"], "target": target if isinstance(target, str) else ""}
