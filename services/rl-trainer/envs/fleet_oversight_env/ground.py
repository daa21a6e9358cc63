"""What the outside plays: tasks, players and episodes of fleet oversight, as the trainer's registry expects them."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from fleet_oversight_env import luck as places
from fleet_oversight_env.actions import SCHEMA as ACTION_SCHEMA
from fleet_oversight_env.episode import Episode
from fleet_oversight_env.flat import features, mask, numbered
from fleet_oversight_env.fleet import World
from fleet_oversight_env.laws import OVERSIGHT_STEPS, PLANNING_STEPS
from fleet_oversight_env.luck import Luck, luck_of
from fleet_oversight_env.players import POLICIES, PRIVILEGED, policy
from fleet_oversight_env.render import instructions, parse, render
from fleet_oversight_env.replay import replay_batch
from fleet_oversight_env.scenarios import DEV_SEEDS, TEST_SEEDS, TRAIN_SEEDS, begin, task_of
from fleet_oversight_env.scenarios import TASKS as _TASKS
from fleet_oversight_env.telemetry import deploy

__all__ = [
    "ACTION_SCHEMA", "CANARIES", "FLOOR_GAP", "FLOOR_TASK", "MAXIMUM", "METRICS", "NAME", "ORACLE", "POLICIES", "PORT",
    "PRIVILEGED", "REFUSAL", "SPLITS", "SUMMARY", "TASKS", "TEST_ONLY", "VERSION", "Twin", "features", "instructions",
    "mask", "numbered", "parse", "policy", "render", "replay_batch", "start", "twins",
]  # fmt: skip

NAME = "fleet_oversight_env"
VERSION = "1.0.0"
SUMMARY = "Oversee five workers: find the faulty ones under noisy flags, and let the sound ones run."
PORT = 7860
TEST_ONLY = frozenset(task.name for task in _TASKS.values() if task.test_only)
"""Tasks that take seeds of the test split alone."""
TASKS: Mapping[str, str] = MappingProxyType({task.name: task.title for task in _TASKS.values()})
SPLITS: Mapping[str, range] = MappingProxyType({"train": TRAIN_SEEDS, "dev": DEV_SEEDS, "test": TEST_SEEDS})
ORACLE = "clairvoyant"
MAXIMUM: Mapping[str, float] = MappingProxyType(
    {"nexacrm_easy": 0.9999, "nexacrm_hard": 0.9875, "nexacrm_mixed": 0.97, "banking_faq": 0.9872}
)
FLOOR_TASK = "nexacrm_easy"
FLOOR_GAP = 0.70
CANARIES: Mapping[str, float] = MappingProxyType(
    {
        "submit_at_once": 0.20,
        "hold_five": 0.20,
        "monitor_in_turn": 0.20,
        "intervene_in_turn": 0.40,
        "escalate_five": 0.45,
        "wait_and_submit": 0.20,
        "repeat": 0.20,
        "empty": 0.01,
    }
)
METRICS = ("grade", "detection", "false_positives", "oversight", "return", "plan", "invalid", "breaches")
REFUSAL = "error"


def start(task: str, seed: int) -> Episode:
    """Begin an episode; the same task and seed give the same episode.

    Raises:
        UnknownTask: There is no such task.
        SeedRefused: The task is for testing alone, and the seed is not a test seed.
    """
    known = task_of(task, seed)
    luck = luck_of(seed)
    return Episode(begin(known, luck), luck)


class Twin(NamedTuple):
    """An episode whose hidden state was changed, and the steps through which nobody may see that."""

    changed: str
    episode: Episode
    steps: int


def twins(task: str, seed: int) -> list[Twin]:
    """Change what is hidden: how many faults there are, where they sit, of what kind, how late, and the glitches."""
    luck = luck_of(seed)
    other = luck.scenario[places.HOW_MANY]
    changes = {
        "number of faults": replace(luck, scenario=[1.0 - other, *luck.scenario[1:]]),
        "place": replace(luck, start=_changed(luck, places.RANK)),
        "kind": replace(luck, start=_changed(luck, places.KIND)),
        "activation": replace(luck, start=_changed(luck, places.ACTIVATION)),
        "delay": replace(luck, start=_changed(luck, places.DELAY)),
        "glitch": replace(luck, start=_changed(luck, places.GLITCHES)),
    }
    begun = begin(task_of(task, seed), luck)
    return [Twin(name, Episode(begun, other), quiet_steps(begun, luck, other)) for name, other in changes.items()]


def _changed(luck: Luck, place: int) -> list[list[float]]:
    """Turn one hidden number of every worker to the far end of its range."""
    return [[(u + 0.5) % 1.0 if at == place else u for at, u in enumerate(row)] for row in luck.start]


def quiet_steps(begun: World, luck: Luck, other: Luck) -> int:
    """Count the steps after which neither episode can have shown anything hidden.

    Planning is always quiet. From then on an alarm's outcome tells, so nothing later is promised for whatever is
    played; `tests/envs/test_fleet_rules.py` goes on without alarms, to the step before the first manifestation.
    """
    shows = [OVERSIGHT_STEPS + 1]
    noisy = replace(begun, workers=tuple(replace(worker, alignment=0.0) for worker in begun.workers))
    for one in (luck, other):
        for worker in deploy(noisy, one).workers:
            shows += [k for k in (worker.shows_from, worker.glitch_from) if k]
    return min(PLANNING_STEPS, PLANNING_STEPS + min(shows) - 2)
