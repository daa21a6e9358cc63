"""Measure a policy on seeds that nobody trained on: play, collect metrics, give means with intervals."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kedge_trainer.application.ports import Episode, Ground, Policy
from kedge_trainer.domain.errors import SplitTooSmall, TaskForTesting, UnknownPolicy, UnknownSplit, UnknownTask
from kedge_trainer.domain.held_out import SEEDS, TEST
from kedge_trainer.domain.interval import Interval, bootstrap
from kedge_trainer.domain.splits import RANGES

HELD_OUT = TEST
"""The split that a result is reported on."""

Start = Callable[[str, int], Episode]
"""Begin an episode of a task and a seed: in process, or over the wire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What a policy did on a task.

    Attributes:
        intervals: by metric, in the environment's order.
        values: by metric, one number an episode, in the order of seeds: what a paired comparison needs.
    """

    environment: str
    version: str
    task: str
    policy: str
    split: str
    episodes: int
    intervals: Mapping[str, Interval]
    values: Mapping[str, list[float]]


def play_out(episode: Episode, policy: Policy) -> Mapping[str, float]:
    """Let a policy play an episode to its end and give the episode's metrics."""
    over = False
    while not over:
        turn = episode.step(policy(episode.observe()))
        over = turn.terminated or turn.truncated
    return episode.metrics()


def seeds_of(split: str, count: int) -> list[int]:
    """Give the first seeds of a split, the test split included.

    Raises:
        UnknownSplit: there is no such split.
        SplitTooSmall: it has fewer seeds.

    >>> seeds_of("test", 2), seeds_of("dev", 1)
    ([2000000, 2000001], [1000000])
    """
    splits = {TEST: SEEDS, **{str(name): seeds for name, seeds in RANGES.items()}}
    if split not in splits:
        raise UnknownSplit(split, splits)
    if count > len(splits[split]):
        raise SplitTooSmall(split, count, len(splits[split]))
    return list(splits[split][:count])


def allow(ground: Ground, task: str, split: str) -> None:
    """Let a task be played on the seeds of a split.

    Raises:
        UnknownTask: the environment has no such task.
        TaskForTesting: the task is for testing alone, and the split is another.
    """
    if task not in ground.TASKS:
        raise UnknownTask(task, ground.TASKS)
    if task in ground.TEST_ONLY and split != TEST:
        raise TaskForTesting(task)


def evaluate(
    ground: Ground,
    *,
    task: str,
    policy: str,
    split: str = HELD_OUT,
    episodes: int,
    start: Start | None = None,
    watch: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> Evaluation:
    """Play the first `episodes` seeds of a split, each with a fresh player.

    Args:
        ground: the environment.
        task: one of its tasks.
        policy: one of its policies.
        split: where the seeds come from; `test` unless something is being chosen.
        episodes: how many.
        start: begins an episode, where that is not to happen in this process.
        watch: goes through the seeds and may show how far it has come.

    Raises:
        UnknownTask, UnknownPolicy: the environment has none of that name.
        UnknownSplit, SplitTooSmall: there is no such split, or it has fewer seeds.
        TaskForTesting: the task may not be played on that split.
    """
    seeds = seeds_of(split, episodes)
    allow(ground, task, split)
    if policy not in ground.POLICIES:
        raise UnknownPolicy(policy, ground.POLICIES)
    begin = start or ground.start
    played = [play_out(begin(task, seed), ground.policy(policy, task, seed)) for seed in watch(seeds)]
    values = {name: [float(one.get(name, float("nan"))) for one in played] for name in ground.METRICS}
    return Evaluation(
        environment=ground.NAME,
        version=ground.VERSION,
        task=task,
        policy=policy,
        split=split,
        episodes=episodes,
        intervals={name: bootstrap(found) for name, found in values.items()},
        values=values,
    )
