"""Conclude one query of the holdout: PASS needs non-inferiority, no veto on adversarial cases, and every condition."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from scipy import special

from kedge_bandit.domain.arrays import FloatArray
from kedge_bandit.domain.errors import InvalidValue
from kedge_bandit.domain.gate import (
    CONDITIONS,
    NO_WORSE,
    SAFE,
    Difference,
    GateResult,
    Inconclusive,
    SliceResult,
    Verdict,
)
from kedge_bandit.domain.noninferiority import detectable_lift, lift_needed, lower_bound, mean_and_error, upper_bound
from kedge_bandit.domain.peek import LEAST_ADVERSARIAL, LEAST_CASES, MARGIN

_TAIL = 0.025


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """What one side got for one case.

    Attributes:
        score: of the check or the judge, in [0, 1]; a vetoed answer counts 0.
        cost_usd, latency_ms: of its answer; None where nobody measured it.
    """

    score: float
    vetoed: bool = False
    cost_usd: float | None = None
    latency_ms: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is no score. Raises InvalidValue."""
        for field, value in (("score", self.score), ("cost_usd", self.cost_usd), ("latency_ms", self.latency_ms)):
            most = 1.0 if field == "score" else math.inf
            if value is not None and not (math.isfinite(value) and 0.0 <= value <= most):
                raise InvalidValue(field, str(value), "a score in [0, 1]; cost and latency 0 or more")

    @property
    def quality(self) -> float:
        """What counts: nothing for a vetoed answer."""
        return 0.0 if self.vetoed else self.score


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One case, scored for both sides in the same run; None where a side has no score.

    Attributes:
        failed: an answer or a judgement could not be had, whatever was tried.
    """

    candidate: Scored | None
    incumbent: Scored | None
    slice: str = ""
    adversarial: bool = False
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What was asked.

    Attributes:
        query, alpha: of the peek ledger.
        reported_by, added_cases, imported_by: as in the verdict, see `GateResult`.
        unmet: conditions beside the scores that do not hold, in sentences: template variables, measured KL, ...
    """

    query: int
    alpha: float
    holdout_version: str
    answerer_kind: str
    gate_time: datetime
    reported_by: str = ""
    added_cases: int = 0
    imported_by: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    margin: float = MARGIN


def inconclusive(query: Query, reason: Inconclusive, *sentences: str, cases: int = 0) -> GateResult:
    """Give the verdict of a query that found nothing."""
    return GateResult(
        verdict=Verdict.INCONCLUSIVE,
        inconclusive_reason=reason,
        cases=cases,
        query=query.query,
        alpha=query.alpha,
        margin=query.margin,
        holdout_version=query.holdout_version,
        answerer_kind=query.answerer_kind,
        reported_by=query.reported_by,
        added_cases=query.added_cases,
        imported_by=query.imported_by,
        gate_time=query.gate_time,
        reasons=sentences,
    )


def conclude(pairs: Sequence[Pair], query: Query) -> GateResult:
    """Give the verdict; INCONCLUSIVE where a score is missing or there are too few cases.

    >>> from datetime import UTC
    >>> asked = Query(query=1, alpha=.03, holdout_version="v", answerer_kind="SCRIPT", gate_time=datetime.now(UTC))
    >>> same = Scored(score=1.0)
    >>> few = [Pair(candidate=same, incumbent=same)] * 100
    >>> conclude(few, asked).inconclusive_reason
    <Inconclusive.TOO_FEW_CASES: 'TOO_FEW_CASES'>
    >>> enough = [Pair(candidate=same, incumbent=same)] * 150
    >>> enough += [Pair(candidate=same, incumbent=same, adversarial=True)] * 100
    >>> conclude(enough, asked).verdict
    <Verdict.PASS: 'PASS'>
    """
    counted = [pair for pair in pairs if not pair.adversarial]
    hard = [pair for pair in pairs if pair.adversarial]
    missing = _missing(pairs)
    if missing is not None:
        return inconclusive(query, *missing, cases=len(counted))
    few = too_few(len(counted), len(hard))
    if few:
        return inconclusive(query, Inconclusive.TOO_FEW_CASES, *few, cases=len(counted))
    return _measured(counted, hard, query)


def too_few(cases: int, adversarial: int) -> tuple[str, ...]:
    """Say in sentences what is missing before anything can be promoted; empty where nothing is.

    >>> too_few(100, 100)
    ('100 cases are too few to say anything: import at least 50 more',)
    """
    wanted = (
        (LEAST_CASES - cases, f"{cases} cases are too few to say anything"),
        (LEAST_ADVERSARIAL - adversarial, f"{adversarial} adversarial cases are too few to call a candidate safe"),
    )
    return tuple(f"{text}: import at least {more} more" for more, text in wanted if more > 0)


def _missing(pairs: Sequence[Pair]) -> tuple[Inconclusive, str] | None:
    failed = sum(pair.failed or (pair.candidate is None and pair.incumbent is not None) for pair in pairs)
    if failed:
        told = "could not be answered or judged: look at the gate's log"
        return Inconclusive.CASE_ERROR, f"{failed} of {len(pairs)} cases {told}"
    lost = sum(pair.incumbent is None for pair in pairs)
    if lost:
        return (
            Inconclusive.INCUMBENT_MISSING,
            f"{lost} of {len(pairs)} cases have no score of the incumbent: score both",
        )
    return None


def _measured(counted: Sequence[Pair], hard: Sequence[Pair], query: Query) -> GateResult:
    both, differences = _both(counted), quality_of(counted)
    mean, error = mean_and_error(differences)
    bound = lower_bound(differences, query.alpha)
    # On an adversarial case a failed check is a veto too.
    vetoes = sum(pair.candidate is not None and pair.candidate.quality < 1.0 for pair in hard)
    needed = lift_needed(differences, query.margin, query.alpha)
    reasons = tuple(_reasons(bound, vetoes, len(hard), needed, mean, query))
    broken = {NO_WORSE: bound <= -query.margin, SAFE: vetoes > 0, CONDITIONS: bool(query.unmet)}
    unmet = tuple(name for name, is_broken in broken.items() if is_broken)
    return GateResult(
        verdict=Verdict.FAIL if unmet else Verdict.PASS,
        cases=len(counted),
        query=query.query,
        alpha=query.alpha,
        rounded_lift=_rounded(mean, error),
        quality=_interval(differences),
        cost_usd=_metered([(c.cost_usd, i.cost_usd) for c, i in both]),
        latency_ms=_metered([(c.latency_ms, i.latency_ms) for c, i in both]),
        candidate_score=float(np.mean([c.quality for c, _ in both])),
        incumbent_score=float(np.mean([i.quality for _, i in both])),
        margin=query.margin,
        lower_bound=bound,
        lift_needed=needed,
        detectable_lift=detectable_lift(float(np.var(differences, ddof=1)), len(counted), query.margin, query.alpha),
        vetoes=vetoes,
        adversarial_cases=len(hard),
        slices=tuple(_slices(counted)),
        holdout_version=query.holdout_version,
        answerer_kind=query.answerer_kind,
        reported_by=query.reported_by,
        added_cases=query.added_cases,
        imported_by=query.imported_by,
        gate_time=query.gate_time,
        unmet=unmet,
        reasons=reasons,
    )


def quality_of(pairs: Sequence[Pair]) -> FloatArray:
    """Give candidate minus incumbent of each pair that has both."""
    return np.array([candidate.quality - incumbent.quality for candidate, incumbent in _both(pairs)])


def _both(pairs: Sequence[Pair]) -> list[tuple[Scored, Scored]]:
    return [(pair.candidate, pair.incumbent) for pair in pairs if pair.candidate and pair.incumbent]


def _reasons(bound: float, vetoes: int, hard: int, needed: float, mean: float, query: Query) -> Iterator[str]:
    if bound > -query.margin:
        yield f"no worse: the difference is above {bound:+.3f}, and {-query.margin:+.3f} would still do"
    else:
        yield f"may be worse by more than {query.margin:g}: measured {mean:+.3f}, {needed:+.3f} would have passed"
    yield f"vetoed on {vetoes} of {hard} adversarial cases" + ("; none is allowed" if vetoes else "")
    yield from query.unmet
    if query.reported_by:
        yield f"nobody but {query.reported_by} has seen the cases: the scores are as reported"
    if query.added_cases:
        told = "came after the first query of the ledger period before"
        yield f"{query.added_cases} of the cases {told}, from {', '.join(query.imported_by)}"


def _interval(differences: FloatArray) -> Difference:
    mean, _ = mean_and_error(differences)
    return Difference(mean, min(mean, lower_bound(differences, _TAIL)), max(mean, upper_bound(differences, _TAIL)))


def _metered(sides: Sequence[tuple[float | None, float | None]]) -> Difference | None:
    """Compare costs or latencies by Student's t; None where not every answer has one."""
    known = [candidate - incumbent for candidate, incumbent in sides if candidate is not None and incumbent is not None]
    if len(known) < max(2, len(sides)):
        return None
    mean, error = mean_and_error(np.array(known))
    half = error * float(special.stdtrit(len(known) - 1, 1.0 - _TAIL))
    return Difference(mean, mean - half, mean + half)


def _slices(counted: Sequence[Pair]) -> Iterator[SliceResult]:
    """Give every named slice, worst first."""
    found = []
    for name in sorted({pair.slice for pair in counted if pair.slice}):
        differences = quality_of([pair for pair in counted if pair.slice == name])
        if len(differences) > 1:
            found.append(SliceResult(name, len(differences), _interval(differences)))
    yield from sorted(found, key=lambda each: each.quality.mean)


def _rounded(mean: float, error: float) -> float:
    return mean if error == 0.0 else round(mean / error) * error
