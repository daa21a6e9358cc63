"""The registry: environments by name, found when they are asked for. A new one is a folder and a line here."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import cast

from kedge_trainer.application.gym import Watching
from kedge_trainer.application.ports import Episode, Ground
from kedge_trainer.domain.errors import NotInstalled, UnknownEnvironment, UnknownTask
from kedge_trainer.domain.splits import TrainingSplit, seed_of

GROUNDS: Mapping[str, str] = MappingProxyType(
    {
        "brief_routing_env": "brief_routing_env.ground",
        "call_audit_env": "call_audit_env.ground",
        "fleet_oversight_env": "fleet_oversight_env.ground",
        "relocation_env": "relocation_env.ground",
    }
)
"""Module of the ground, by name."""


def load(name: str) -> Ground:
    """Import an environment's ground.

    Raises:
        UnknownEnvironment: the registry has no such name.
        NotInstalled: its distribution is missing.
    """
    if name not in GROUNDS:
        raise UnknownEnvironment(name, GROUNDS)
    try:
        return cast("Ground", import_module(GROUNDS[name]))
    except ModuleNotFoundError as missing:
        if missing.name != name:
            raise
        raise NotInstalled(name, f"install {distribution(name)}") from missing


def watching(name: str) -> Watching:
    """Import what a person who watches an environment is told; only the Gym asks."""
    return cast("Watching", import_module(f"{name}.watching"))


def distribution(name: str) -> str:
    """Name what is installed to have an environment.

    >>> distribution("relocation_env")
    'kedge-relocation-env'
    """
    return f"kedge-{name.replace('_', '-')}"


@dataclass(frozen=True, slots=True)
class TrainingGround:
    """All of an environment that training code gets: episodes by split and index, and no split but train and dev."""

    _ground: Ground

    @property
    def tasks(self) -> tuple[str, ...]:
        """Tasks that may be trained on."""
        return tuple(task for task in self._ground.TASKS if task not in self._ground.TEST_ONLY)

    def start(self, task: str, split: TrainingSplit, index: int) -> Episode:
        """Begin an episode.

        Raises:
            UnknownTask: the environment has no such task, or it is for testing alone.
            SeedOutOfSplit: the split has no such index.
        """
        if task not in self.tasks:
            raise UnknownTask(task, self.tasks)
        return self._ground.start(task, seed_of(TrainingSplit(split), index))


def for_training(name: str) -> TrainingGround:
    """Open an environment to training code.

    Raises:
        UnknownEnvironment: the registry has no such name.
    """
    return TrainingGround(load(name))
