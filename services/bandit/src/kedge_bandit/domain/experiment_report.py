"""Say what an experiment shows, in one decision: or, where the split is off, nothing but that."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Final

import numpy as np
from scipy import special

from kedge_bandit.domain.arrays import FloatArray
from kedge_bandit.domain.cluster_lift import Assigned, MetricLift, lift
from kedge_bandit.domain.divergence import Lift
from kedge_bandit.domain.experiment import ExperimentMetric
from kedge_bandit.domain.peek import MARGIN
from kedge_bandit.domain.ramp_metrics import LARGEST_GROWTH, LARGEST_LOSS, LEAST_EPISODES
from kedge_bandit.domain.sample_ratio import SampleRatio, sample_ratio

ALPHA: Final = 0.05
"""Chance that any primary metric's interval ever misses, over all looks."""
LARGEST_VETO_RISE: Final = 0.01
MOST_CROSSED: Final = 0.01
"""Share of episodes that were not served their side, above which the split was not kept and nothing is shown."""

_AMOUNTS: Final = (ExperimentMetric.COST_USD, ExperimentMetric.LATENCY_MS)


class ExperimentDecision(StrEnum):
    """What to do."""

    SPLIT_BROKEN = "SPLIT_BROKEN"
    TOO_FEW = "TOO_FEW"
    HACKED = "HACKED"
    GUARDRAIL = "GUARDRAIL"
    WORSE = "WORSE"
    PROMOTE = "PROMOTE"
    HOLDOUT_UNKNOWN = "HOLDOUT_UNKNOWN"
    NO_BETTER = "NO_BETTER"
    UNDECIDED = "UNDECIDED"


CONCLUSIVE: Final = frozenset(
    {
        ExperimentDecision.HACKED,
        ExperimentDecision.GUARDRAIL,
        ExperimentDecision.WORSE,
        ExperimentDecision.PROMOTE,
        ExperimentDecision.NO_BETTER,
    }
)
"""What an experiment can end with that later ones without an answer do not make unsaid."""

SENTENCES: Final[Mapping[ExperimentDecision, str]] = {
    ExperimentDecision.SPLIT_BROKEN: "The sides are not of the sizes they were to have: nothing can be read from it. "
    "Find what is lost on one side, and start anew.",
    ExperimentDecision.TOO_FEW: f"Fewer than {LEAST_EPISODES} units of a side have settled: go on.",
    ExperimentDecision.HACKED: "Reward rose and the holdout fell: the reward is flattered. Freeze, mend it.",
    ExperimentDecision.GUARDRAIL: "A guardrail is clearly worse: do not promote.",
    ExperimentDecision.WORSE: "What was learned is worse than the baseline: stop, or raise the floor.",
    ExperimentDecision.PROMOTE: "Better online, and no worse on the holdout: give it more traffic.",
    ExperimentDecision.HOLDOUT_UNKNOWN: "Better online; whether the holdout agrees is not known yet: run more checks.",
    ExperimentDecision.NO_BETTER: "What was learned is no better than the baseline: stop, or raise the floor.",
    ExperimentDecision.UNDECIDED: "Not enough data to tell: go on.",
}


@dataclass(frozen=True, slots=True)
class Range:
    """A lift with the ends of its interval; infinite while there is too little data."""

    value: float
    lower: float
    upper: float

    def times(self, factor: float) -> "Range":
        """Scale it.

        >>> Range(.1, .0, .2).times(.5)
        Range(value=0.05, lower=0.0, upper=0.1)
        """
        return Range(self.value * factor, self.lower * factor, self.upper * factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFinding:
    """One metric of an experiment.

    Attributes:
        lift: of the sides as they were compared.
        learned: of what was learned, without the floor's dilution.
        served: of the policy as it is served, the floor included.
        is_worse: a guardrail that is clearly worse.
    """

    metric: ExperimentMetric
    is_primary: bool
    lift: MetricLift
    learned: Range
    served: Range
    is_worse: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldoutFinding:
    """The holdout's lift over the window: the mean of its checks.

    Attributes:
        error: the mean of the checks' errors, since checks draw from one pool: never too small.
        lower, upper: 95 % one-sided each.
    """

    checks: int
    mean: float
    error: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentReport:
    """What an experiment shows.

    Attributes:
        episodes: that count; crossed: of them, those that were not served their side.
        served_share: of the policy's traffic that serves what it learned: 1 − φ.
        findings: none where the split is off; holdout likewise, and where there was no check.
        is_truncated: the window has more episodes than were read, the first ones.
    """

    decision: ExperimentDecision
    sentence: str
    episodes: int
    crossed: int
    ratio: SampleRatio
    served_share: float
    findings: tuple[MetricFinding, ...] = ()
    holdout: HoldoutFinding | None = None
    is_truncated: bool = False


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Measured:
    """What was read of an experiment.

    Attributes:
        values: of each metric [n]; NaN where an episode has none.
        crossed: episodes that were not served their side.
        served_share: see `ExperimentReport`, in [0, 1].
        with_floor: the learned side has its floor in it, as where units are assigned whole.
        checks: holdout lifts of the divergence checks in the window.
    """

    assigned: Assigned
    values: Mapping[ExperimentMetric, FloatArray]
    crossed: int
    served_share: float
    with_floor: bool
    checks: tuple[Lift, ...]
    is_truncated: bool = False


def report(
    measured: Measured, primary: tuple[ExperimentMetric, ...], guardrails: tuple[ExperimentMetric, ...]
) -> ExperimentReport:
    """Conclude. With several primary metrics each is tested at its share of ALPHA."""
    ratio, n = sample_ratio(measured.assigned), len(measured.assigned.unit)
    decision, holdout = ExperimentDecision.SPLIT_BROKEN, None
    findings: tuple[MetricFinding, ...] = ()
    if not ratio.is_off and measured.crossed <= MOST_CROSSED * n:
        levels = [(metric, ALPHA / len(primary)) for metric in primary] + [(metric, ALPHA) for metric in guardrails]
        findings = tuple(finding_of(measured, metric, alpha, is_primary=metric in primary) for metric, alpha in levels)
        holdout = holdout_finding(measured.checks)
        decision = _decide(findings, holdout)
    return ExperimentReport(
        decision=decision,
        sentence=SENTENCES[decision],
        episodes=n,
        crossed=measured.crossed,
        ratio=ratio,
        served_share=measured.served_share,
        findings=findings,
        holdout=holdout,
        is_truncated=measured.is_truncated,
    )


def holdout_finding(checks: tuple[Lift, ...]) -> HoldoutFinding | None:
    """Sum the checks of a window up; None where there was none.

    >>> found = holdout_finding((Lift(.02, .02), Lift(.04, .02)))
    >>> found and (round(found.mean, 3), round(found.lower, 4))
    (0.03, -0.0029)
    """
    if not checks:
        return None
    mean, error = float(np.mean([one.value for one in checks])), float(np.mean([one.error for one in checks]))
    reach = float(special.ndtri(1.0 - ALPHA)) * error
    return HoldoutFinding(checks=len(checks), mean=mean, error=error, lower=mean - reach, upper=mean + reach)


def finding_of(measured: Measured, metric: ExperimentMetric, alpha: float, *, is_primary: bool) -> MetricFinding:
    """Say what is known of one metric, at the level alpha."""
    found = lift(measured.values[metric], measured.assigned, alpha, is_amount=metric in _AMOUNTS)
    between, share = Range(found.difference, found.lower, found.upper), measured.served_share
    return MetricFinding(
        metric=metric,
        is_primary=is_primary,
        lift=found,
        learned=_undiluted(between, share) if measured.with_floor else between,
        served=between if measured.with_floor else between.times(share),
        is_worse=not is_primary and _is_worse(metric, found),
    )


def _undiluted(found: Range, share: float) -> Range:
    """Take the floor's dilution off; nothing is known of what was never served."""
    return found.times(1.0 / share) if share > 0.0 else Range(0.0, -inf, inf)


def _is_worse(metric: ExperimentMetric, found: MetricLift) -> bool:
    """Say whether a guardrail is surely beyond what it may lose."""
    if metric in _AMOUNTS:
        return found.lower > LARGEST_GROWTH * abs(found.baseline)
    if metric is ExperimentMetric.VETO_RATE:
        return found.lower > LARGEST_VETO_RISE
    return found.upper < -LARGEST_LOSS


def _gain(finding: MetricFinding) -> tuple[float, float]:
    """Give the interval of a metric's gain, whichever way is better."""
    lower, upper = finding.lift.lower, finding.lift.upper
    return (-upper, -lower) if finding.metric.is_better_lower else (lower, upper)


def _decide(findings: tuple[MetricFinding, ...], holdout: HoldoutFinding | None) -> ExperimentDecision:
    gains = [_gain(finding) for finding in findings if finding.is_primary]
    is_better = all(lower > 0.0 for lower, _ in gains)
    if is_better and holdout is not None and holdout.upper < 0.0:
        return ExperimentDecision.HACKED
    if any(finding.is_worse for finding in findings):
        return ExperimentDecision.GUARDRAIL
    if any(lower == -inf for lower, _ in gains):
        return ExperimentDecision.TOO_FEW
    if is_better:
        is_sure = holdout is not None and holdout.lower > -MARGIN
        return ExperimentDecision.PROMOTE if is_sure else ExperimentDecision.HOLDOUT_UNKNOWN
    if any(upper < 0.0 for _, upper in gains):
        return ExperimentDecision.WORSE
    if all(upper < LARGEST_LOSS for _, upper in gains):
        return ExperimentDecision.NO_BETTER
    return ExperimentDecision.UNDECIDED
