"""Say what the holdout gate found about a candidate, with its power; never a case."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from kedge_bandit.domain.errors import InvalidValue


class Verdict(StrEnum):
    """What the gate found."""

    PASS = "PASS"  # noqa: S105 - a verdict
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


class Inconclusive(StrEnum):
    """Why nothing was found. A query that was opened is used all the same."""

    TOO_FEW_CASES = "TOO_FEW_CASES"
    CASE_ERROR = "CASE_ERROR"
    INCUMBENT_MISSING = "INCUMBENT_MISSING"
    CRASHED = "CRASHED"
    LEDGER_EXHAUSTED = "LEDGER_EXHAUSTED"


@dataclass(frozen=True, slots=True)
class Difference:
    """Candidate minus incumbent, with a two-sided 95 % interval.

    >>> Difference(.02, -.01, .05).mean
    0.02
    """

    mean: float
    lower: float
    upper: float

    def __post_init__(self) -> None:
        """Refuse an interval that does not hold its own mean. Raises InvalidValue."""
        if not self.lower <= self.mean <= self.upper:
            raise InvalidValue("difference", f"{self.mean} in [{self.lower}, {self.upper}]", "lower <= mean <= upper")


@dataclass(frozen=True, slots=True)
class SliceResult:
    """One slice of the cases: how many, and the difference of quality in it."""

    name: str
    cases: int
    quality: Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """The verdict of one query.

    Attributes:
        cases: that count for quality; adversarial ones are counted apart.
        query: which query of the holdout version this was, from 1; 0 where the ledger gave none.
        alpha: one-sided level of this query.
        quality, cost_usd, latency_ms: candidate minus incumbent, per case; None where it was not measured.
        candidate_score, incumbent_score: mean scores, in [0, 1].
        margin: largest loss of quality that is still no worse, as a positive number.
        lower_bound: one-sided at `alpha`, of the difference of quality.
        rounded_lift: the difference rounded to one standard error; all that a proposer learns of it.
        lift_needed: smallest measured difference that would have passed.
        detectable_lift: smallest true difference that passes in 80 of 100 queries like this one.
        vetoes: adversarial cases on which the candidate was vetoed.
        reasons: the verdict in sentences.
    """

    verdict: Verdict
    gate_time: datetime
    inconclusive_reason: Inconclusive | None = None
    cases: int = 0
    query: int = 0
    alpha: float = 0.0
    rounded_lift: float = 0.0
    quality: Difference | None = None
    cost_usd: Difference | None = None
    latency_ms: Difference | None = None
    candidate_score: float = 0.0
    incumbent_score: float = 0.0
    margin: float = 0.0
    lower_bound: float = 0.0
    lift_needed: float = 0.0
    detectable_lift: float = 0.0
    vetoes: int = 0
    adversarial_cases: int = 0
    slices: tuple[SliceResult, ...] = field(default=())
    holdout_version: str = ""
    answerer_kind: str = ""
    reasons: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        """Refuse a verdict that contradicts itself. Raises InvalidValue."""
        if (self.verdict is Verdict.INCONCLUSIVE) is (self.inconclusive_reason is None):
            raise InvalidValue("inconclusive_reason", str(self.inconclusive_reason), "set exactly when INCONCLUSIVE")
        if self.verdict is Verdict.PASS and (self.vetoes or self.quality is None):
            raise InvalidValue("verdict", "PASS", "a measured quality and no veto")
