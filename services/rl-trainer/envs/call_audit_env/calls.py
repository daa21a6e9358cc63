"""A recorded call: turns with times, moods that an outside tool reported, and what is wrong with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Speaker(StrEnum):
    """Who says a turn."""

    AGENT = "agent"
    CUSTOMER = "customer"


class Severity(StrEnum):
    """How bad a breach is; what each weighs stands in a rubric."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Tier(StrEnum):
    """How hard a call is to audit; never shown."""

    EASY = "easy"
    MEDIUM = "medium"
    HARD = "hard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one side says in one go.

    Attributes:
        start, end: seconds from the beginning of the call, one decimal.
        continues: the same side goes on, so that turns do not alternate here.
    """

    speaker: Speaker
    text: str
    start: float
    end: float
    continues: bool = False


@dataclass(frozen=True, slots=True)
class Shift:
    """A change of the customer's mood at a turn, as a sentiment tool reports it: it may mislead."""

    turn: int
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """One violation.

    Attributes:
        policy: the type that is broken.
        at: the turn that an auditor would cite.
        span: every turn that takes part, `at` among them.
    """

    policy: str
    severity: Severity
    at: int
    span: frozenset[int]
    detail: str

    def __post_init__(self) -> None:
        if self.at not in self.span:
            raise ValueError(f"{self.policy}: turn {self.at} is no part of its span {sorted(self.span)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call with its truth.

    Attributes:
        call_id: what is shown; tells nothing.
        shape: what it was made from, for reports of families.
        summary: neutral, written by whoever took the call; it may be about another call.
    """

    call_id: str
    shape: str
    tier: Tier
    department: str
    reason: str
    summary: str
    turns: tuple[Turn, ...]
    shifts: tuple[Shift, ...]
    breaches: tuple[Breach, ...]

    def __post_init__(self) -> None:
        for breach in self.breaches:
            if not breach.span <= set(range(len(self.turns))):
                raise ValueError(f"{self.call_id}: {breach.policy} spans turns that the call does not have")

    @property
    def compliant(self) -> bool:
        """Whether nothing is wrong with it."""
        return not self.breaches

    @property
    def seconds(self) -> int:
        """Its length."""
        return round(self.turns[-1].end)

    def silence_before(self, turn: int) -> float:
        """Seconds without speech before a turn; 0 before the first."""
        return silence(self.turns, turn)


def silence(turns: Sequence[Turn], turn: int) -> float:
    """Measure the pause before a turn, in seconds with one decimal.

    >>> said = [Turn(speaker=Speaker.AGENT, text="Hi", start=0.0, end=1.0),
    ...         Turn(speaker=Speaker.CUSTOMER, text="Hello", start=3.5, end=4.0)]
    >>> silence(said, 1)
    2.5
    """
    return round(turns[turn].start - turns[turn - 1].end, 1) if turn else 0.0
