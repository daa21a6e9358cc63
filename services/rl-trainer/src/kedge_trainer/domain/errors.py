"""What can go wrong in the trainer.

TrainerError
├── UnknownEnvironment
├── UnknownTask
├── UnknownPolicy
├── UnknownSplit
├── SeedOutOfSplit
├── SplitTooSmall
├── TaskForTesting
├── NotSwitched
├── NoHeadline
├── NotInstalled
├── CannotServe
├── CannotWrite
├── ServerRefused
└── ModelFailed
"""

from collections.abc import Iterable
from typing import ClassVar


class TrainerError(Exception):
    """An expected failure: a reason for machines, a sentence for people that says what to do."""

    reason: ClassVar[str] = "TRAINER_ERROR"


class _NotAmong(TrainerError):
    kind: ClassVar[str]

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = tuple(known)
        super().__init__(f"there is no {self.kind} {name!r}; choose one of {', '.join(self.known)}")


class UnknownEnvironment(_NotAmong):
    """No registry line has that name."""

    reason, kind = "UNKNOWN_ENVIRONMENT", "environment"


class UnknownTask(_NotAmong):
    """The environment has no such task."""

    reason, kind = "UNKNOWN_TASK", "task"


class UnknownPolicy(_NotAmong):
    """The environment ships no such policy."""

    reason, kind = "UNKNOWN_POLICY", "policy"


class UnknownSplit(_NotAmong):
    """There is no such split."""

    reason, kind = "UNKNOWN_SPLIT", "split"


class SeedOutOfSplit(TrainerError):
    """A split has no seed of that index."""

    reason = "SEED_OUT_OF_SPLIT"

    def __init__(self, split: str, index: int, size: int) -> None:
        self.split, self.index, self.size = split, index, size
        super().__init__(f"split {split} has seeds 0 to {size - 1} by index, not {index}")


class SplitTooSmall(TrainerError):
    """More seeds were asked of a split than it has."""

    reason = "SPLIT_TOO_SMALL"

    def __init__(self, split: str, asked: int, size: int) -> None:
        self.split, self.asked, self.size = split, asked, size
        super().__init__(f"split {split} has {size} seeds, not {asked}; ask for fewer")


class TaskForTesting(TrainerError):
    """A task that is for testing alone was to be played on other seeds."""

    reason = "TASK_FOR_TESTING"

    def __init__(self, task: str) -> None:
        self.task = task
        super().__init__(f"task {task} is for testing alone; play it by `evaluate` or `infer` on --split test")


class NotSwitched(TrainerError):
    """A task was asked for in modes that it does not have together."""

    reason = "NOT_SWITCHED"

    def __init__(self, task: str, modes: Iterable[str]) -> None:
        self.task, self.modes = task, tuple(modes)
        how = f"with {' and '.join(self.modes)}" if self.modes else "without a mode"
        super().__init__(f"task {task} is not played {how}; switch something off, or choose another task")


class NoHeadline(TrainerError):
    """The environment names no table that it is known by."""

    reason = "NO_HEADLINE"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"{name} has no headline; use `evaluate` with the policies and tasks that you want")


class NotInstalled(TrainerError):
    """Something that a command needs is missing."""

    reason = "NOT_INSTALLED"

    def __init__(self, what: str, remedy: str) -> None:
        self.what, self.remedy = what, remedy
        super().__init__(f"there is no {what}; {remedy}")


class CannotServe(TrainerError):
    """An environment's server cannot be started as it was asked for."""

    reason = "CANNOT_SERVE"


class CannotWrite(TrainerError):
    """Results found no place."""

    reason = "CANNOT_WRITE"

    def __init__(self, path: object, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(f"{path} cannot be written: {why}; choose another place with --out")


class ServerRefused(TrainerError):
    """An environment's server answered with an error, or not at all."""

    reason = "SERVER_REFUSED"

    def __init__(self, url: str, why: str) -> None:
        self.url, self.why = url, why
        super().__init__(f"{url} refused: {why}")


class ModelFailed(TrainerError):
    """A language model's endpoint gave no usable answer."""

    reason = "MODEL_FAILED"

    def __init__(self, url: str, why: str) -> None:
        self.url, self.why = url, why
        super().__init__(f"the model at {url} gave no answer: {why}; check API_BASE_URL, MODEL_NAME and HF_TOKEN")
