"""Say what a bench hands back, and judge it: rows against bars, controls against their own drift."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from math import isnan
from pathlib import Path
from statistics import median

LARGEST_DRIFT = 0.30
"""A control whose rounds differ by more than this says that the machine was not quiet: no verdict."""


class Verdict(StrEnum):
    PASS = "pass"
    FAIL = "FAIL"
    NO_VERDICT = "no verdict"
    BROKEN = "BROKEN"
    INFORMATION = "-"


@dataclass(frozen=True, slots=True)
class Bar:
    """Bounds of a figure, both inclusive; none at all for a figure that is only shown."""

    at_least: float | None = None
    at_most: float | None = None

    def admits(self, value: float) -> bool:
        """A NaN is never admitted.

        >>> Bar(at_most=1.0).admits(1.0), Bar(at_least=0.5, at_most=1.0).admits(float("nan"))
        (True, False)
        """
        over = self.at_least is None or value >= self.at_least
        under = self.at_most is None or value <= self.at_most
        return over and under and not isnan(value)

    def __str__(self) -> str:
        match self.at_least, self.at_most:
            case None, None:
                return "-"
            case None, high:
                return f"<= {high:g}"
            case low, None:
                return f">= {low:g}"
            case low, high:
                return f"{low:g} to {high:g}"


SHOWN = Bar()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure.

    Attributes:
        timed: it depends on the machine being quiet, so it counts only if the controls held still.
        spread: smallest and largest of the rounds that `value` is the median of.
    """

    name: str
    value: float
    bar: Bar = SHOWN
    unit: str = ""
    timed: bool = False
    spread: tuple[float, float] | None = None

    @classmethod
    def of_rounds(cls, name: str, rounds: list[float], bar: Bar = SHOWN, unit: str = "") -> "Row":
        """Take the median of interleaved rounds."""
        return cls(name=name, value=median(rounds), bar=bar, unit=unit, timed=True, spread=(min(rounds), max(rounds)))


@dataclass(frozen=True, slots=True)
class Control:
    """A yardstick measured in every round; positive values.

    >>> Control("echo", [100.0, 120.0]).drift
    0.2
    """

    name: str
    rounds: list[float]

    @property
    def drift(self) -> float:
        """By how much the largest round exceeds the smallest."""
        return round(max(self.rounds) / min(self.rounds) - 1.0, 9)

    @property
    def held_still(self) -> bool:
        return self.drift <= LARGEST_DRIFT


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one run of a bench found.

    Attributes:
        notes: what was compared with what, for the reader of the table.
        seeds: of everything random.
    """

    rows: list[Row]
    controls: list[Control] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)

    @property
    def held_still(self) -> bool:
        return all(control.held_still for control in self.controls)

    def verdict(self, row: Row) -> Verdict:
        """Judge one row. What was not timed is judged however restless the machine was."""
        if row.bar == SHOWN:
            return Verdict.INFORMATION
        if row.timed and not self.held_still:
            return Verdict.NO_VERDICT
        return Verdict.PASS if row.bar.admits(row.value) else Verdict.FAIL

    @property
    def overall(self) -> Verdict:
        """The worst of the rows: a failure outranks no verdict, which outranks a pass."""
        verdicts = {self.verdict(row) for row in self.rows}
        for worst in (Verdict.FAIL, Verdict.NO_VERDICT):
            if worst in verdicts:
                return worst
        return Verdict.PASS


@dataclass(frozen=True, slots=True)
class Setting:
    """What a bench gets.

    Attributes:
        folder: where it may leave plots.
        say: shows one line of progress.
    """

    folder: Path
    say: Callable[[str], None]


Bench = Callable[[Setting], Report]
