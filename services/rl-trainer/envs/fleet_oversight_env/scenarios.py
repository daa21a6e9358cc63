"""Turn a task and a seed into a world at its first planning step, and keep the test domain out of training's reach."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from fleet_oversight_env.fleet import Worker, World
from fleet_oversight_env.laws import BANKING, CRM, FLEET, GOVERNANCE_BUDGET, START_BUDGET, Domain
from fleet_oversight_env.luck import (
    BUDGET,
    PROFILE_DENSITY,
    PROFILE_DOCUMENTS,
    PROFILE_KIND,
    PROFILE_VOCABULARY,
    Luck,
)
from fleet_oversight_env.planning import DEFAULT, Profile, alignment

TRAIN_SEEDS: Final = range(1_000_000)
DEV_SEEDS: Final = range(1_000_000, 1_100_000)
TEST_SEEDS: Final = range(2_000_000, 2_100_000)

EASY: Final = Profile(
    label="crm",
    document_count=500,
    vocabulary_size=6_000,
    text_density=0.30,
    missing_rate=0.05,
    duplicate_rate=0.02,
    inconsistency_rate=0.10,
    outlier_rate=0.02,
    complexity="low",
    chunk_hint="medium",
)
HARD: Final = Profile(
    label="crm",
    document_count=3_000,
    vocabulary_size=18_000,
    text_density=0.75,
    missing_rate=0.15,
    duplicate_rate=0.08,
    inconsistency_rate=0.25,
    outlier_rate=0.08,
    complexity="high",
    chunk_hint="small",
)
BANKING_FAQ: Final = Profile(
    label="banking",
    document_count=1_200,
    vocabulary_size=32_000,
    text_density=0.85,
    missing_rate=0.08,
    duplicate_rate=0.05,
    inconsistency_rate=0.18,
    outlier_rate=0.04,
    complexity="high",
    chunk_hint="small",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A named kind of episode.

    Args:
        profile: The data; None where each seed brings its own (training).
        test_only: Whether seeds outside the test split are refused.
    """

    name: str
    title: str
    domain: Domain
    profile: Profile | None
    test_only: bool = False


TASKS: Final[Mapping[str, Task]] = {
    task.name: task
    for task in (
        Task(name="nexacrm_easy", title="CRM data that is clean and plain", domain=CRM, profile=EASY),
        Task(name="nexacrm_hard", title="CRM data that is dense and dirty", domain=CRM, profile=HARD),
        Task(name="nexacrm_mixed", title="CRM data of a kind the seed chooses", domain=CRM, profile=None),
        Task(
            name="banking_faq",
            title="Banking data, never trained on: faults start late and show at once",
            domain=BANKING,
            profile=BANKING_FAQ,
            test_only=True,
        ),
    )
}


class SeedRefused(ValueError):
    """A seed outside the test split was asked of a task that exists for testing alone."""

    def __init__(self, task: str, seed: int) -> None:
        super().__init__(
            f"{task} is for testing: take a seed from {TEST_SEEDS.start} to {TEST_SEEDS.stop - 1}, not {seed}"
        )


class UnknownTask(ValueError):
    """No task has the name that was asked for."""

    def __init__(self, task: str) -> None:
        super().__init__(f"no task is called {task!r}; there are {', '.join(TASKS)}")


def task_of(name: str, seed: int) -> Task:
    """Look up a task and check that `seed` may play it.

    Raises:
        UnknownTask: No such name.
        SeedRefused: The task is for testing and the seed is not a test seed.
    """
    if name not in TASKS:
        raise UnknownTask(name)
    task = TASKS[name]
    if task.test_only and seed not in TEST_SEEDS:
        raise SeedRefused(name, seed)
    return task


def profile_of(task: Task, luck: list[float]) -> Profile:
    """Give the task's data, or the data that the seed chooses: half near a known profile, half anywhere.

    Args:
        luck: The five scenario numbers of `luck.py`.
    """
    if task.profile is not None:
        return task.profile
    density, vocabulary, documents = luck[PROFILE_DENSITY], luck[PROFILE_VOCABULARY], luck[PROFILE_DOCUMENTS]
    kind = luck[PROFILE_KIND]
    if kind < 0.5:
        near = EASY if kind < 0.25 else HARD
        return replace(
            near,
            text_density=round(min(1.0, near.text_density * (0.85 + 0.3 * density)), 3),
            vocabulary_size=round(near.vocabulary_size * (0.85 + 0.3 * vocabulary)),
            document_count=round(near.document_count * (0.85 + 0.3 * documents)),
        )
    return replace(
        EASY if density < 0.5 else HARD,
        text_density=round(0.2 + 0.7 * density, 3),
        vocabulary_size=round(4_000.0 * 10.0**vocabulary),
        document_count=round(100.0 * 50.0**documents),
    )


def begin(task: Task, luck: Luck) -> World:
    """Make the world at its first planning step: budgets known, nothing allocated, no fault drawn yet."""
    profile = profile_of(task, luck.scenario)
    low, high = START_BUDGET
    workers = tuple(
        Worker(
            budget=low + int(luck.start[worker][BUDGET] * (high - low + 1)),
            alignment=alignment(DEFAULT, worker, profile.needs),
        )
        for worker in range(FLEET)
    )
    return World(domain=task.domain, profile=profile, step=1, governance_budget=GOVERNANCE_BUDGET, workers=workers)
