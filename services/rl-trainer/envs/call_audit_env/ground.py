"""What the outside plays: tasks, players and episodes of call audits, as the trainer's registry expects them."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from call_audit_env.baselines import ORACLE, POLICIES, PRIVILEGED, policy
from call_audit_env.calls import Call, Severity
from call_audit_env.episode import Episode
from call_audit_env.features import features, mask, numbered
from call_audit_env.moves import SCHEMA as ACTION_SCHEMA
from call_audit_env.render import instructions, parse, render
from call_audit_env.scenarios import AUDIT, SPLITS, TASKS, call_of, profile_of
from call_audit_env.world import STEPS

__all__ = [
    "ACTION_SCHEMA", "CANARIES", "FLOOR_GAP", "FLOOR_TASK", "MAXIMUM", "METRICS", "NAME", "ORACLE", "POLICIES", "PORT",
    "PRIVILEGED", "REFUSAL", "SPLITS", "SUMMARY", "TASKS", "TEST_ONLY", "VERSION", "Twin", "features", "instructions",
    "mask", "numbered", "parse", "policy", "render", "start", "twins",
]  # fmt: skip

NAME = "call_audit_env"
VERSION = "1.0.0"
SUMMARY = "Audit recorded support calls with priced tools: find what breaks the rubric, and submit in budget."
PORT = 8000

TEST_ONLY: frozenset[str] = frozenset()
"""Every task may be trained on."""
MAXIMUM: Mapping[str, float] = MappingProxyType(
    {"audit": 0.92, "easy": 0.91, "medium": 0.91, "hard": 0.92, "hero": 0.91, "base": 0.96, "compat": 0.96}
)
FLOOR_TASK = AUDIT
FLOOR_GAP = 0.80
CANARIES: Mapping[str, float] = MappingProxyType(
    dict.fromkeys(("empty", "repeat", "always_pass", "always_fail", "six_low", "constant", "clairvoyant"), 0.05)
)
METRICS = (
    "grade", "f1", "missed_high", "false_flags", "budget_left", "steps", "return", "exhausted", "refused", "exposed",
)  # fmt: skip
REFUSAL = "error"


def start(task: str, seed: int) -> Episode:
    """Begin an episode.

    Raises:
        KeyError: there is no such task.
    """
    return Episode(task, call_of(task, seed), profile=profile_of(task))


class Twin(NamedTuple):
    """An episode whose hidden state was changed, and the steps through which nobody may see that."""

    changed: str
    episode: Episode
    steps: int


def twins(task: str, seed: int) -> list[Twin]:
    """Change each hidden field in turn: the truth for ever, what tools give until a tool is used."""
    call, profile = call_of(task, seed), profile_of(task)
    longest = max(STEPS.values())
    severe = tuple(replace(one, severity=Severity.LOW) for one in call.breaches)
    told = tuple(replace(turn, text="Something else is said.") for turn in call.turns)
    changes: dict[str, tuple[Call, int]] = {
        "breaches": (replace(call, breaches=()), longest),
        "severities": (replace(call, breaches=severe), longest),
        "shape": (replace(call, shape="another", tier=next(iter({*type(call.tier)} - {call.tier}))), longest),
        "summary": (replace(call, summary="Another summary."), 0),
        "moods": (replace(call, shifts=()), 0),
        "words": (replace(call, turns=told), 0),
    }
    return [Twin(name, Episode(task, other, profile=profile), quiet) for name, (other, quiet) in changes.items()]
