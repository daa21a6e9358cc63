"""What the outside plays: tasks, players and episodes of briefs, as the trainer's registry expects them."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from brief_routing_env.actions import SCHEMA as ACTION_SCHEMA
from brief_routing_env.baselines import ORACLE, POLICIES, PRIVILEGED, policy
from brief_routing_env.episode import Episode
from brief_routing_env.features import features, mask, numbered
from brief_routing_env.render import instructions, parse, render
from brief_routing_env.scenarios import NAMES, SPLITS, Case, Profile, case_of, read_name
from brief_routing_env.tasks import AUDIT

__all__ = [
    "ACTION_SCHEMA", "CANARIES", "FLOOR_GAP", "FLOOR_TASK", "HEADLINE", "MAXIMUM", "METRICS", "NAME", "ORACLE",
    "POLICIES", "PORT", "PRIVILEGED", "REFUSAL", "SPLITS", "SUMMARY", "TASKS", "TEST_ONLY", "VERSION", "Twin",
    "features", "instructions", "mask", "numbered", "parse", "policy", "render", "start", "switches", "twins",
]  # fmt: skip

NAME = "brief_routing_env"
VERSION = "1.0.0"
SUMMARY = "Route a brief through four specialists: whom to ask, in what order, and when enough is known."
PORT = 7860


def _described(name: str) -> str:
    task, switches = read_name(name)
    lie = "; in half of the episodes the analyst lies" if task.name == AUDIT else ""
    memory = ", memory at hand" if switches.rag else ""
    rules = "; the published rules and grader" if switches.profile is Profile.COMPAT else ""
    return f"{task.title}, for: {task.audience}{lie}{memory}{rules}"


TASKS: Mapping[str, str] = MappingProxyType({name: _described(name) for name in NAMES})
TEST_ONLY: frozenset[str] = frozenset()
"""Every task may be trained on."""

_COMPAT = {
    "easy_brief": (0.8659, 0.8802),
    "medium_brief": (0.8872, 0.8970),
    "hard_brief": (0.8827, 0.8970),
    "expert_brief": (0.8827, 0.8925),
    "risk_brief": (0.8839, 0.8948),
    "crisis_brief": (0.8805, 0.8914),
}


def _maximum(name: str) -> float:
    task, switches = read_name(name)
    if switches.profile is Profile.COMPAT:
        return _COMPAT[task.name][switches.rag]
    return 0.999 if switches.rag else 0.9083 if task.name == "easy_brief" else 0.9333


MAXIMUM: Mapping[str, float] = MappingProxyType({name: _maximum(name) for name in NAMES})
FLOOR_TASK = "hard_brief"
FLOOR_GAP = 0.60
CANARIES: Mapping[str, float] = MappingProxyType(
    {"empty": 0.01, "submitter": 0.01, "strategist": 0.10, "repeat": 0.26, "summarizer": 0.26, "asker": 0.26}
)
METRICS = (
    "grade", "coverage", "metrics", "memo", "strategy", "grounding", "path", "return", "steps", "repeats", "invalid",
    "breaches",
)  # fmt: skip
REFUSAL = "last_action_error"
HEADLINE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "policies": ("naive", "trained", ORACLE),
        "tasks": tuple(
            f"{task}{rules}{memory}"
            for rules in ("-compat", "")
            for task in ("hard_brief", "expert_brief", "crisis_brief")
            for memory in ("", "-rag")
        ),
    }
)
"""What `kedge-trainer envs headline` plays: published rules and ours, memory off and on."""


def start(task: str, seed: int, **switched: object) -> Episode:
    """Begin an episode.

    Args:
        task: Its name, modes included.
        seed: Keys the file and the lie.
        switched: `profile`, `rag`, `eval_mode` or `tenant`, where they shall differ from what the name says.

    Raises:
        KeyError: There is no such task.
        ValueError: The audit has no published rules, or the tenant is unknown.
    """
    return Episode(case_of(task, seed, **switched))


def switches(**asked: object) -> dict[str, object]:
    """Read switches as they come over a wire, None for what is not switched.

    Raises:
        ValueError: One has no such value.

    >>> switches(rag=True, eval_mode=None, profile="compat", tenant=None)
    {'rag': True, 'profile': <Profile.COMPAT: 'compat'>}
    """
    found = {name: value for name, value in asked.items() if value is not None}
    for name, value in found.items():
        if name in ("rag", "eval_mode") and not isinstance(value, bool):
            raise ValueError(f"{name} is true or false, not {value!r:.60}")
        if name in ("profile", "tenant") and not isinstance(value, str):
            raise ValueError(f"{name} is a name, not {value!r:.60}")
    if "profile" in found:
        found["profile"] = Profile(str(found["profile"]))
    return found


class Twin(NamedTuple):
    """An episode whose hidden state was changed, and the steps through which nobody may see that."""

    changed: str
    episode: Episode
    steps: int


class _Wrong(Case):
    """A case in which other numbers count as right."""

    @property
    def truth(self) -> Mapping[str, float | int | str]:
        """Numbers that nobody reported."""
        return MappingProxyType(dict.fromkeys(super().truth, "nothing"))


def twins(task: str, seed: int) -> list[Twin]:
    """Change each hidden field in turn: what counts as right, and, until somebody is asked, who lies and later rows."""
    case = case_of(task, seed)
    fields = {name: getattr(case, name) for name in ("name", "task", "seed", "switches", "lies", "index")}
    found = [Twin("what is right", Episode(_Wrong(**fields)), case.task.max_steps)]
    if not case.compat:
        found.append(Twin("who lies", Episode(replace(case, lies=not case.lies)), 0))
    return found
