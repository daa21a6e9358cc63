"""The Gym: let a policy play one episode, keep every step, and show it to a person who is told more than the player."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kedge_trainer.application.ports import Episode, Ground, Json
from kedge_trainer.domain.errors import NotSwitched, TaskForTesting, UnknownPolicy, UnknownTask
from kedge_trainer.domain.splits import TrainingSplit, seed_of

SPLIT = TrainingSplit.DEV
"""Where the seeds come from: nobody learned from them, and results are not reported on them."""

Start = Callable[..., Episode]
"""Begin an episode over the wire: task, seed, and by name what is switched besides."""


class Watching(Protocol):
    """The module `<name>_env.watching`, which an environment ships beside its ground."""

    SWITCHES: Mapping[str, str]
    """What a reset takes as true or false beside the task, with a sentence for each; all are on unless switched."""

    def told(self, task: str, seed: int) -> Json:
        """Tell a person what no player sees."""
        ...

    def price(self, action: Json) -> int | None:
        """Say what an action costs; None where nothing has a price, or the action is refused unpaid."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One episode, as somebody wants to see it.

    Attributes:
        task: without its modes.
        index: of the seed in the split.
        on: modes of the task and switches of the reset that are on.
    """

    task: str
    index: int
    policy: str
    on: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One action and what came of it.

    Attributes:
        price: what it cost by the environment's list; None where it has none.
        refused: why it did nothing; empty where it did something.
    """

    action: Json
    reward: float
    signals: Mapping[str, float]
    veto: str | None
    price: int | None
    refused: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """An episode that was played to its end.

    Attributes:
        task: its name, modes included.
        seen: what the player saw before the first step and after each; one more than the steps.
        told: what no player saw.
    """

    task: str
    seed: int
    steps: list[Step]
    seen: list[Json]
    told: Json
    grade: float
    metrics: Mapping[str, float]
    truncated: bool


def modes_of(tasks: Iterable[str]) -> dict[str, list[frozenset[str]]]:
    """Group task names by the task without its modes, with the sets of modes that it has.

    >>> {name: [sorted(one) for one in modes] for name, modes in modes_of(["easy", "easy-blind", "odd-x-y"]).items()}
    {'easy': [[], ['blind']], 'odd': [['x', 'y']]}
    """
    found: dict[str, list[frozenset[str]]] = {}
    for name in tasks:
        plain, *modes = name.split("-")
        found.setdefault(plain, []).append(frozenset(modes))
    return found


def named(ground: Ground, task: str, modes: frozenset[str]) -> str:
    """Find the name of a task in its modes.

    Raises:
        UnknownTask: the environment has no such task.
        NotSwitched: the task cannot be played so.
        TaskForTesting: it takes no seed of the Gym's split.
    """
    known = modes_of(ground.TASKS)
    if task not in known:
        raise UnknownTask(task, known)
    found = [name for name in ground.TASKS if name.split("-")[0] == task and set(name.split("-")[1:]) == modes]
    if not found:
        raise NotSwitched(task, sorted(modes))
    if found[0] in ground.TEST_ONLY:
        raise TaskForTesting(found[0])
    return found[0]


def record(ground: Ground, watching: Watching, asked: Asked, start: Start) -> Recording:
    """Play an episode to its end.

    Raises:
        UnknownTask, UnknownPolicy: the environment has none of that name.
        NotSwitched: the task has no such mode, or the reset no such switch.
        TaskForTesting, SeedOutOfSplit: the task or the seed is not for looking at.
        ServerRefused: the environment's server does not play it.
    """
    task = named(ground, asked.task, asked.on - watching.SWITCHES.keys())
    if asked.policy not in ground.POLICIES:
        raise UnknownPolicy(asked.policy, ground.POLICIES)
    seed = seed_of(SPLIT, asked.index)
    episode = start(task, seed, **{name: name in asked.on for name in watching.SWITCHES})
    player = ground.policy(asked.policy, task, seed)
    seen, steps, over, truncated, grade = [episode.observe()], [], False, False, 0.0
    while not over:
        action = player(seen[-1])
        turn = episode.step(action)
        seen.append(episode.observe())
        over, truncated, grade = turn.terminated or turn.truncated, turn.truncated, turn.grade or 0.0
        steps.append(
            Step(
                action=action,
                reward=turn.reward,
                signals=turn.signals,
                veto=turn.veto,
                price=watching.price(action),
                refused=str(seen[-1].get(ground.REFUSAL) or ""),
            )
        )
    return Recording(
        task=task,
        seed=seed,
        steps=steps,
        seen=seen,
        told=watching.told(task, seed),
        grade=grade,
        metrics=episode.metrics(),
        truncated=truncated,
    )
