"""Say what a scenario is: a world by seed, what is measured in it, and the marks that were set before it was played."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan

from kedge_bandit.entrypoints.scenarios.stream import Stream

Figures = Mapping[str, float]
"""What one seed came to, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One figure over all seeds, with its bounds; none: it is shown only.

    Attributes:
        of: name of the figure.
        over: another one, by whose mean its mean is divided.
        worst: the worst seed counts instead of the mean.
    """

    name: str
    of: str
    over: str = ""
    at_least: float | None = None
    at_most: float | None = None
    worst: bool = False

    def judge(self, found: Sequence[Figures]) -> "Row":
        """Take the figure from the seeds.

        >>> Mark(name="share", of="late", at_least=0.5).judge([{"late": 0.25}, {"late": 0.5}])
        Row(name='share', value=0.375, lowest=0.25, highest=0.5, bounds='>= 0.5', passes=False)
        """
        each = [figures[self.of] / (figures[self.over] if self.over else 1.0) for figures in found]
        value = sum(figures[self.of] for figures in found) / len(found)
        if self.over:
            value /= sum(figures[self.over] for figures in found) / len(found)
        if self.worst:
            value = max(each) if self.at_most is not None else min(each)
        return Row(
            name=self.name,
            value=digits(value),
            lowest=digits(min(each)),
            highest=digits(max(each)),
            bounds=self.bounds,
            passes=self._admits(value) if self.bounds else None,
        )

    @property
    def bounds(self) -> str:
        """The bounds in words; empty where there are none."""
        said = ((">=", self.at_least), ("<=", self.at_most))
        return " and ".join(f"{sign} {bound:g}" for sign, bound in said if bound is not None)

    def _admits(self, value: float) -> bool:
        over = self.at_least is None or value >= self.at_least
        under = self.at_most is None or value <= self.at_most
        return over and under and not isnan(value)


REGRET = Mark(name="regret", of="regret")
WHOLE_REGRET = Mark(name="regret, floor and slice included", of="whole regret")


def digits(value: float) -> float:
    """Give a figure with the nine digits that any machine agrees on.

    >>> digits(2.0 / 3.0), digits(1.23456789012e-15)
    (0.666666667, 1.23456789e-15)
    """
    return float(f"{value:.9g}")


@dataclass(frozen=True, slots=True)
class Row:
    """A judged figure.

    Attributes:
        value: over all seeds; `lowest` and `highest` are of single ones.
        bounds: its mark in words.
        passes: None where it is shown only.
    """

    name: str
    value: float
    lowest: float
    highest: float
    bounds: str
    passes: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One scenario.

    Attributes:
        about: what happens in it.
        world: draws its stream.
        measure: plays the stream of a seed in every way that the marks speak of.
        peers: whether others can play it too.
    """

    name: str
    about: str
    world: Callable[[int], Stream]
    measure: Callable[[int], Figures]
    marks: tuple[Mark, ...]
    peers: bool = True
