"""Play the table that an environment is known by: its policies on its tasks, on the same few held-out seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import cast

from kedge_trainer.application.evaluate import evaluate
from kedge_trainer.application.ports import Ground
from kedge_trainer.domain.errors import NoHeadline

SEEDS = 5
"""Data seeds, as in the source's table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What a policy got on a task.

    Attributes:
        grades: one a seed, in the order of seeds.
    """

    task: str
    policy: str
    grades: Sequence[float]

    @property
    def mean(self) -> float:
        """Over the seeds."""
        return fmean(self.grades)

    @property
    def deviation(self) -> float:
        """Over the seeds; 0 where the data changes nothing."""
        return pstdev(self.grades)


def headline(ground: Ground, seeds: int = SEEDS) -> list[Cell]:
    """Play every policy of the headline on every task of it.

    Raises:
        NoHeadline: the environment has none.
        SplitTooSmall: the test split has fewer seeds.
    """
    asked = cast("Mapping[str, Sequence[str]] | None", getattr(ground, "HEADLINE", None))
    if asked is None:
        raise NoHeadline(ground.NAME)
    return [
        Cell(
            task=task,
            policy=policy,
            grades=evaluate(ground, task=task, policy=policy, episodes=seeds).values["grade"],
        )
        for task in asked["tasks"]
        for policy in asked["policies"]
    ]
