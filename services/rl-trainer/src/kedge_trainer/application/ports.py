"""What the trainer asks of the outside, as narrow Protocols.

An environment is a *ground*: the module `<name>_env.ground`, found by string in the registry. It knows nothing of the
trainer, so it keeps these Protocols by shape; `tests/envs` holds every registered ground to them. Observations and
actions are JSON objects everywhere on this side, in process as over the wire, so that one policy plays both.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

Json = Mapping[str, object]
"""A JSON object: an observation as a policy sees it, or an action as it goes over the wire."""

Policy = Callable[[Json], Json]
"""One episode's player: from each observation the next action. It may remember; a new episode needs a new one."""


class Turn(Protocol):
    """What one step gave back."""

    @property
    def reward(self) -> float:
        """Unclipped; the undiscounted sum over an episode is the training return."""
        ...

    @property
    def signals(self) -> Mapping[str, float]:
        """The reward by component, kept apart for logs."""
        ...

    @property
    def terminated(self) -> bool:
        """Ended by the task's own rules."""
        ...

    @property
    def truncated(self) -> bool:
        """Cut off by a limit."""
        ...

    @property
    def grade(self) -> float | None:
        """Strictly inside (0, 1) once the episode is over, None before."""
        ...

    @property
    def veto(self) -> str | None:
        """A breach in this step, as a SAFETY signal."""
        ...


class Episode(Protocol):
    """One episode in process."""

    def observe(self) -> Json:
        """Show what the player sees now; no reward, nothing hidden."""
        ...

    def step(self, action: Json) -> Turn:
        """Play any JSON object whatever: a bad one costs what the datasheet says and never raises."""
        ...

    def metrics(self) -> Mapping[str, float]:
        """Measure the episode so far, `return` and `steps` included, `grade` once it is over."""
        ...


class Twin(NamedTuple):
    """An episode whose hidden state was changed, and the steps through which nobody may see that."""

    changed: str
    episode: Episode
    steps: int


class Ground(Protocol):
    """One environment, as a module."""

    NAME: str
    VERSION: str
    """Of rules, texts, features and masks; enters every run's hash."""

    SUMMARY: str
    PORT: int
    """Of its server, unless told otherwise; as in openenv.yaml."""

    TASKS: Mapping[str, str]
    """Task by name, with one sentence each; the first is the default."""

    TEST_ONLY: frozenset[str]
    """Tasks that no training seed may play."""

    SPLITS: Mapping[str, range]
    """Seeds by split, as the registry knows them too."""

    POLICIES: Mapping[str, str]
    """Baseline by name, with one sentence each; `random` and the oracle are among them."""

    ORACLE: str
    """The policy that reaches the documented maximum."""

    PRIVILEGED: frozenset[str]
    """Policies that know what no observation shows."""

    MAXIMUM: Mapping[str, float]
    """Least mean grade of the oracle per task, as the datasheet has it."""

    FLOOR_GAP: float
    """By how much the oracle's mean grade exceeds that of `random`, at least, on the task FLOOR_TASK."""

    FLOOR_TASK: str
    CANARIES: Mapping[str, float]
    """Degenerate policy → ceiling of its mean grade on FLOOR_TASK."""

    METRICS: Sequence[str]
    """Keys of `Episode.metrics` for tables, most telling first."""

    REFUSAL: str
    """The field of an observation that says why the last action did nothing; null or empty if it did something."""

    ACTION_SCHEMA: Json
    """JSON schema of an action."""

    def start(self, task: str, seed: int) -> Episode:
        """Begin an episode; the same task and seed give the same episode, byte for byte."""
        ...

    def policy(self, name: str, task: str, seed: int) -> Policy:
        """Make a fresh player of that episode; a privileged one rebuilds what is hidden from task and seed."""
        ...

    def twins(self, task: str, seed: int) -> Sequence[Twin]:
        """Change each hidden field in turn."""
        ...

    def instructions(self, task: str) -> str:
        """Tell a language model the rules and the form of its answer."""
        ...

    def render(self, observation: Json) -> str:
        """Show an observation to a language model."""
        ...

    def parse(self, text: str) -> Json:
        """Read a model's answer; one that cannot be read becomes an action that the environment refuses."""
        ...

    def features(self, observation: Json) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        """Give an observation to a small policy, shape [F]."""
        ...

    def mask(self, observation: Json) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Say which of the numbered actions are possible, shape [A]."""
        ...

    def numbered(self, index: int, observation: Json) -> Json:
        """Spell the action behind an index of the mask."""
        ...
