"""Every registered environment and its tasks, for the tests that hold for all of them."""

import pytest

from kedge_trainer.adapters.environments import GROUNDS, load
from kedge_trainer.application.ports import Ground

SEED = 1_000_000
"""The first of the dev split: what is checked here is chosen by, never reported."""

every_ground = pytest.mark.parametrize("name", GROUNDS)
every_task = pytest.mark.parametrize(("name", "task"), [(name, task) for name in GROUNDS for task in load(name).TASKS])


def seeds_for(ground: Ground, task: str, count: int) -> range:
    """Take dev seeds, but for a task that only testing may play."""
    first = ground.SPLITS["test"][0] if task in ground.TEST_ONLY else SEED
    return range(first, first + count)


def own_policies(ground: Ground) -> list[str]:
    """Name the policies that see no more than a player does."""
    return [name for name in ground.POLICIES if name not in ground.PRIVILEGED]
