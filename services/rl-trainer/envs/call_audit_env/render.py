"""The audit as text for a language model, and the way back from its answer. Part of the environment's version."""

import json
from collections.abc import Mapping
from typing import cast

from call_audit_env.answer import find_action
from call_audit_env.book import Book, default
from call_audit_env.moves import CHUNK, PER_TURN, PRICES, SCHEMA, Tool
from call_audit_env.view import View

_KNOWN = frozenset(cast("Mapping[str, object]", SCHEMA["properties"]))


def instructions(task: str, book: Book | None = None) -> str:
    """Tell the rules, the tools with their prices, the rubric and the form of an answer."""
    rubric = book or default()
    policies = "\n".join(
        f"- {one.name} ({one.group}): {one.breach} Not a breach: {one.allowed}" for one in rubric.policies.values()
    )
    dearest = sorted(PRICES.items(), key=lambda one: -one[1])
    prices = ", ".join(f"{tool} costs {price}" for tool, price in dearest)
    return (
        "You audit a recorded support call against a rubric. Everything costs units of a budget: "
        f"{prices}, and {Tool.READ} {PER_TURN} for each turn. A reading takes start_turn and end_turn, both included, "
        f"at most {CHUNK} turns; {Tool.ANALYZE} takes turn_index and, if you like, policy_hypothesis; {Tool.FLAG} "
        "takes violation_type, violation_severity (high, medium or low) and, if you like, turn_index and a note "
        f"without personal data; {Tool.SUBMIT} takes compliance_pass and ends the audit.\n"
        "Flag each policy that is broken once, and only if you opened a turn that proves it. What you leave unspent "
        "counts for you; running out of budget ends the audit and counts against you. A call passes if nothing is "
        "broken; to pass one, open the first turn and at least half of the others. Moods and summaries may mislead.\n"
        f"Rubric:\n{policies}\n"
        'Answer with one JSON object and nothing else, such as {"action_type": "read_transcript_chunk", '
        '"start_turn": 0, "end_turn": 1}'
    )


def render(observation: Mapping[str, object]) -> str:
    """Write an observation: what the last tool gave, the findings so far, and the budget."""
    seen = cast("View", observation)
    check = seen["checklist"]
    lines = [
        f"Call {seen['call_id']}, {seen['department']}, {seen['turns']} turns (0 to {seen['turns'] - 1})",
        f"Budget: {check['budget_remaining_units']} of {check['total_budget']} units",
        "Opened: " + (_ranges([int(str(turn["turn_index"])) for turn in seen["opened"]]) or "nothing"),
    ]
    for finding in seen["findings"]:
        place = "" if finding["turn_index"] is None else f" at turn {finding['turn_index']}"
        lines.append(f"Flagged: {finding['violation_type']}, {finding['violation_severity']}{place}")
    if seen["error"]:
        lines.append(f"Refused: {seen['error']}")
    lines += _result(seen["result"])
    if seen["system_feedback"]:
        lines.append(seen["system_feedback"])
    return "\n".join(lines)


def _result(result: Mapping[str, object]) -> list[str]:
    """Write turns as dialogue, anything else as JSON."""
    found = result.get("turns", result.get("window"))
    if not isinstance(found, list):
        return [json.dumps(result)] if result else []
    turns = cast("list[Mapping[str, object]]", found)
    lines = [
        f"[{one['turn_index']}] {one['timestamp_start']}-{one['timestamp_end']} s {one['speaker']}: {one['text']}"
        for one in turns
    ]
    rest = {key: value for key, value in result.items() if key not in {"turns", "window"}}
    return [*lines, json.dumps(rest)] if rest else lines


def _ranges(indices: list[int]) -> str:
    """Join neighbors.

    >>> _ranges([0, 3, 4, 5])
    '0, 3-5'
    """
    found: list[tuple[int, int]] = []
    for index in indices:
        if found and index == found[-1][1] + 1:
            found[-1] = (found[-1][0], index)
        else:
            found.append((index, index))
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def parse(text: str) -> dict[str, object]:
    """Read the first JSON object of an answer that has an `action_type`.

    >>> parse('Next: {"action_type": "get_call_metadata"} please')
    {'action_type': 'get_call_metadata'}
    >>> parse("read the first turn")["action_type"]
    'unreadable'
    """
    return {key: value for key, value in find_action(text).items() if key in _KNOWN}
