"""What the outside plays: tasks, players and episodes of relocation cases, as the trainer's registry expects them."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from relocation_env.baselines import ORACLE, POLICIES, PRIVILEGED, policy
from relocation_env.episode import Episode
from relocation_env.features import features, mask, numbered
from relocation_env.render import instructions, parse, render
from relocation_env.rules import COUNTRIES, MAX_STEPS, Verb
from relocation_env.scenarios import BLIND, GENERATED, SPLITS, Event, case_of

__all__ = [
    "ACTION_SCHEMA", "CANARIES", "FLOOR_GAP", "FLOOR_TASK", "MAXIMUM", "METRICS", "NAME", "ORACLE", "POLICIES", "PORT",
    "PRIVILEGED", "REFUSAL", "SPLITS", "SUMMARY", "TASKS", "TEST_ONLY", "VERSION", "Twin", "features", "instructions",
    "mask", "numbered", "parse", "policy", "render", "start", "twins",
]  # fmt: skip

NAME = "relocation_env"
VERSION = "1.0.0"
SUMMARY = "Relocate an employee under country rules that conflict, one of which changes on the way."
PORT = 7860

_OPEN: Mapping[str, str] = {
    GENERATED: "a case drawn from the rule table: one or two countries, half of them with a change of rules",
    "easy": "Germany, HR alone",
    "medium": "Singapore, with data protection and shadow payroll",
    "hard": "Germany and UAE, whose tax rules conflict; a single payroll, and a trap",
    "crisis": "Germany; the visa is struck before the eighth action",
}
_BLINDLY = "; neither requirements nor possible actions are listed"
TASKS: Mapping[str, str] = MappingProxyType(
    {**_OPEN, **{task + BLIND: text + _BLINDLY for task, text in _OPEN.items()}}
)

_PERFECT = {GENERATED: 0.95, "easy": 0.95, "medium": 0.80, "hard": 0.65, "crisis": 0.75}
MAXIMUM: Mapping[str, float] = MappingProxyType({task: _PERFECT[task.removesuffix(BLIND)] for task in TASKS})
TEST_ONLY: frozenset[str] = frozenset()
"""Every task may be trained on."""
FLOOR_TASK = GENERATED + BLIND
FLOOR_GAP = 0.80
CANARIES: Mapping[str, float] = MappingProxyType(
    {"empty": 0.01, "repeat": 0.01, "finalizer": 0.01, "approver": 0.25, "collector": 0.35, "setter": 0.25}
)
METRICS = ("grade", "success", "steps", "steps_over_optimum", "return", "violations", "junk", "invalid")
REFUSAL = "last_action_error"

ACTION_SCHEMA: Mapping[str, object] = MappingProxyType(
    {
        "type": "object",
        "properties": {
            "action_type": {"type": "string", "enum": [str(verb) for verb in Verb]},
            "target": {"type": "string", "description": "a document, a country, or empty"},
        },
        "required": ["action_type"],
        "additionalProperties": False,
    }
)


def start(task: str, seed: int) -> Episode:
    """Begin an episode.

    Raises:
        KeyError: there is no such task.
    """
    return Episode(task, case_of(task, seed))


class Twin(NamedTuple):
    """An episode whose hidden state was changed, and the steps through which nobody may see that."""

    changed: str
    episode: Episode
    steps: int


def twins(task: str, seed: int) -> list[Twin]:
    """Change each hidden field in turn: the coming event, the weights, the optimum, the announcements to come."""
    case = case_of(task, seed)
    other = replace(case.weights, document=case.weights.document / 2, finalized=case.weights.finalized * 2)
    found = [
        Twin("weights", Episode(task, replace(case, weights=other)), MAX_STEPS),
        Twin("optimum", Episode(task, replace(case, optimum=case.optimum + 1)), MAX_STEPS),
        Twin("announcements", Episode(task, replace(case, decoys=((MAX_STEPS, "later"),))), _quiet(case.decoys)),
    ]
    if case.event:
        later = replace(case.event, step=case.event.step + 1, text="Another text.")
        found.append(Twin("no event", Episode(task, replace(case, event=None)), case.event.step - 2))
        found.append(Twin("event later", Episode(task, replace(case, event=later)), case.event.step - 2))
    else:
        country = case.countries[0]
        (struck, replacement), (identifier, text) = COUNTRIES[country].permit, COUNTRIES[country].notice
        if struck in case.documents:
            event = Event(9, struck, replacement, identifier, text)
            found.append(Twin("an event", Episode(task, replace(case, event=event)), 7))
    return found


def _quiet(decoys: tuple[tuple[int, str], ...]) -> int:
    """Count the steps before the first announcement."""
    return min((after for after, _ in decoys), default=MAX_STEPS) - 1
