"""Observations as vectors and actions as numbers, for small policies. Part of the environment's version."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from brief_routing_env.actions import spell
from brief_routing_env.refine import GAP
from brief_routing_env.scenarios import PLAIN, Profile
from brief_routing_env.tasks import EXPERTS, QUESTIONS, TASKS, Expert
from brief_routing_env.view import View
from brief_routing_env.world import Move, Verb

VERSION: Final = "brief-features-1"
NAMES: Final = (
    *(f"task:{name}" for name in PLAIN),
    *(f"consulted:{expert}" for expert in EXPERTS),
    *(f"reported:{expert}" for expert in EXPERTS),
    "brief", "time", "quality",
    *(f"again:{expert}" for expert in EXPERTS),
)  # fmt: skip
COMPAT_INPUTS: Final = tuple(
    place for place, name in enumerate(NAMES) if name != f"task:{PLAIN[-1]}" and not name.startswith("again:")
)
"""The 17 that the published policy had, and a bit for the brief."""

MOVES: Final = (
    *(Move(Verb.CONSULT, expert) for expert in EXPERTS),
    *(Move(Verb.ASK, expert) for expert in EXPERTS),
    Move(Verb.SUMMARIZE), Move(Verb.SUBMIT), Move(Verb.NOOP),
)  # fmt: skip
Floats = npt.NDArray[np.float32]


def features(observation: Mapping[str, object]) -> Floats:
    """Encode an observation, shape [22].

    An expert counts as reported when the task requires it and its report lacks no input; `again` says that it was
    turned to more than once.
    """
    seen = cast("View", observation)
    task, reports = TASKS[seen["task_name"]], seen["expert_reports"]
    turned = Counter(str(json.loads(one).get("expert_id", "")).strip().lower() for one in seen["history"])
    values: list[float] = [name == task.name for name in PLAIN]
    values += [str(expert) in reports for expert in EXPERTS]
    values += [expert in task.required and str(expert) in reports and not _lacks(seen, expert) for expert in EXPERTS]
    values += [seen["current_brief"] is not None, seen["step_count"] / seen["max_steps"]]
    values += [seen["data_quality_score"] or 0.0]
    values += [turned[str(expert)] > 1 for expert in EXPERTS]
    return np.array(values, dtype=np.float32)


def _lacks(seen: View, expert: Expert) -> bool:
    return any(issue.startswith(f"{expert}: missing_input:") for issue in seen["issues"])


def mask(observation: Mapping[str, object]) -> npt.NDArray[np.bool_]:
    """Mark the possible ones of the 11 actions, shape [11]: our rules answer no question before there is a report."""
    seen = cast("View", observation)
    marked = np.ones(len(MOVES), dtype=np.bool_)
    if seen["profile"] != Profile.COMPAT:
        asks = slice(len(EXPERTS), 2 * len(EXPERTS))
        marked[asks] = [str(expert) in seen["expert_reports"] for expert in EXPERTS]
    return marked


def numbered(index: int, observation: Mapping[str, object]) -> dict[str, object]:
    """Spell an action of the mask; an `ask` takes the next question that its expert has not answered.

    >>> numbered(8, {})
    {'action_type': 'summarize'}
    """
    move = MOVES[index]
    seen = cast("View", observation)
    if move.verb is not Verb.ASK or move.expert is None or seen["profile"] == Profile.COMPAT:
        return spell(move)
    return spell(Move(Verb.ASK, move.expert, _next_question(seen, move.expert)))


def _next_question(seen: View, expert: Expert) -> str:
    answered = cast("Mapping[str, str]", seen["expert_reports"].get(str(expert), {}).get("sections", {}))
    first, *_ = asked = QUESTIONS[expert]
    if expert is Expert.ANALYST and f"{Expert.FINANCE}: {GAP}" in seen["issues"]:
        return first
    return next((question for question in asked if question not in answered), first)
