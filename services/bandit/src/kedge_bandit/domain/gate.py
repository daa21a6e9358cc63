"""Say what the holdout gate found about a candidate, with its power; never a case."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

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


NO_WORSE: Final = "NO_WORSE"
SAFE: Final = "SAFE"
CONDITIONS: Final = "CONDITIONS"
"""Names of what a PASS needs; the last: what `conditions` says of template variables and weights."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedOf:
    """Who answered, or judged, and who set that.

    Attributes:
        part: ANSWERER or JUDGE.
        settings_hash: of all settings, also those that are not named here.
        set_by: as the audit log names who set them.
    """

    part: str
    kind: str
    address: str
    model: str
    settings_hash: str
    set_by: str
    set_time: datetime


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
        answerers: who answered and judged, whom the approval thereby binds to; none where scores were reported.
        reported_by: who measured the scores, as the audit log names them; empty: the gate itself.
        added_cases, imported_by: asked ones that came after the first query of the ledger period before; from whom.
        unmet: names of the conditions that did not hold.
        reasons: the verdict in sentences, with its numbers.
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
    slices: tuple[SliceResult, ...] = ()
    holdout_version: str = ""
    answerer_kind: str = ""
    answerers: tuple[AskedOf, ...] = ()
    reported_by: str = ""
    added_cases: int = 0
    imported_by: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a verdict that contradicts itself. Raises InvalidValue."""
        if (self.verdict is Verdict.INCONCLUSIVE) is (self.inconclusive_reason is None):
            raise InvalidValue("inconclusive_reason", str(self.inconclusive_reason), "set exactly when INCONCLUSIVE")
        if self.verdict is Verdict.PASS and (self.vetoes or self.quality is None):
            raise InvalidValue("verdict", "PASS", "a measured quality and no veto")


def told_to_all(result: GateResult) -> str:
    """Say what everybody may read who may read of the proposal: the verdict and what did not hold, never a number.

    Why no query was opened is said whole: nothing was measured.

    >>> at = datetime(2026, 1, 1)
    >>> told_to_all(GateResult(verdict=Verdict.FAIL, gate_time=at, query=1, unmet=(NO_WORSE, SAFE), reasons=("-.3",)))
    'FAIL: NO_WORSE, SAFE did not hold'
    >>> why = Inconclusive.CRASHED
    >>> told_to_all(GateResult(verdict=Verdict.INCONCLUSIVE, inconclusive_reason=why, gate_time=at, query=2))
    'INCONCLUSIVE: CRASHED'
    """
    if result.verdict is Verdict.INCONCLUSIVE:
        return f"INCONCLUSIVE: {'; '.join(result.reasons) if not result.query else result.inconclusive_reason}"
    return f"{result.verdict}: {', '.join(result.unmet)} did not hold" if result.unmet else result.verdict.value
