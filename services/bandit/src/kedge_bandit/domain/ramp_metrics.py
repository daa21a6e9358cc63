"""Compare what a ramp gives traffic to with the baseline, so that it can be looked at as often as one likes.

The two sides meet on randomised episodes that settled since the stage began, weighted to the same contexts. Intervals
are asymptotic confidence sequences (Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas 2021, equation 2): they hold at all
looks together. With V the variance of an estimate and r = t·ρ²

    ± √V · √(2·(1 + 1/r)·ln(√(r + 1)/α)),   r = κ·V₀/V,   κ = 1 − 2·ln α + ln(−2·ln α)

narrowest where √V = √V₀ = .02; for cost and latency where it is .02 of the larger mean. Without enough episodes
there is no interval, and nothing is judged.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import inf, log, sqrt
from typing import Final

import numpy as np

from kedge_bandit.domain.veto_belief import EXCLUDE_ABOVE, READMIT_BELOW, eligibility

GUARDRAIL_ALPHA: Final = 0.01
SIGNAL_ALPHA: Final = 0.05
LARGEST_LOSS: Final = 0.05
"""Reward that what was learned may lie below the baseline before a guardrail takes its traffic away."""
LARGEST_GROWTH: Final = 0.2
"""Share by which its cost or latency may be above the baseline's before a signal pauses the ramp."""
LEAST_EPISODES: Final = 100
"""Episodes a side under which no mean is judged: the intervals rest on the central limit theorem."""

_SHARPEST: Final = 0.02**2


@dataclass(frozen=True, slots=True)
class Moments:
    """Hold the weighted sums of one quantity over one side's episodes.

    Attributes:
        n: episodes that have the quantity.
        w, wx: Σw and Σwx; ww, wwx, wwxx: Σw², Σw²x and Σw²x².
    """

    n: int = 0
    w: float = 0.0
    wx: float = 0.0
    ww: float = 0.0
    wwx: float = 0.0
    wwxx: float = 0.0

    @property
    def mean(self) -> float:
        """Give the weighted mean; 0 of nothing.

        >>> Moments(2, 2.0, 1.0, 2.0, 1.0, 1.0).mean
        0.5
        """
        return self.wx / self.w if self.w > 0 else 0.0

    @property
    def variance(self) -> float:
        """Give the variance of the mean, Σw²(x − mean)²/(Σw)²; infinite of nothing.

        >>> Moments(2, 2.0, 1.0, 2.0, 1.0, 1.0).variance
        0.125
        """
        if self.w <= 0:
            return inf
        mean = self.mean
        return max(self.wwxx - 2 * mean * self.wwx + mean * mean * self.ww, 0.0) / self.w**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of the comparison: its episodes, how many were vetoed, and the sums of what was measured."""

    episodes: int = 0
    vetoes: int = 0
    reward: Moments = Moments()
    cost_usd: Moments = Moments()
    latency_ms: Moments = Moments()


@dataclass(frozen=True, slots=True)
class Compared:
    """What settled at a stage, on the side that the ramp is about and on the baseline's."""

    learned: Side = Side()
    baseline: Side = Side()


class MetricRole(StrEnum):
    """What a breach does: a guardrail rolls back, a signal pauses."""

    GUARDRAIL = "GUARDRAIL"
    SIGNAL = "SIGNAL"


class Finding(StrEnum):
    """What the episodes of a stage say of a metric: nothing yet, not enough to tell, surely no breach, or a breach."""

    TOO_FEW = "TOO_FEW"
    UNDECIDED = "UNDECIDED"
    WITHIN = "WITHIN"
    BREACHED = "BREACHED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric of a stage.

    Attributes:
        lower, upper: interval of learned minus baseline; infinite while there is too little data, and for veto_rate.
        over_cap: P(rate > cap) of veto_rate; None for the others.
        episodes: that have the quantity, on the side that has fewer.
        rule: in words, what a breach is.
    """

    name: str
    role: MetricRole
    learned: float
    baseline: float
    lower: float = -inf
    upper: float = inf
    over_cap: float | None = None
    finding: Finding
    episodes: int
    rule: str

    @property
    def breached(self) -> bool:
        """Whether the ramp answers to it."""
        return self.finding is Finding.BREACHED


def interval(difference: float, variance: float, alpha: float, scale: float = 1.0) -> tuple[float, float]:
    """Give the confidence sequence of a difference.

    Args:
        scale: what .02 of is the standard error at which it is narrowest, > 0: the size of such quantities.

    >>> lower, upper = interval(0.0, 0.02**2, 0.05)
    >>> round(upper, 4), lower == -upper
    (0.0607, True)
    >>> round(interval(0.0, 20.0**2, 0.05, scale=1000.0)[1], 1)
    60.7
    """
    if variance == inf:
        return -inf, inf
    spread = max(variance, 1e-12 * scale**2)
    ratio = (1 - 2 * log(alpha) + log(-2 * log(alpha))) * _SHARPEST * scale**2 / spread
    half = sqrt(spread * 2 * (1 + 1 / ratio) * log(sqrt(ratio + 1) / alpha))
    return difference - half, difference + half


def over_cap(learned: tuple[float, float], baseline: tuple[float, float]) -> float:
    """Give P(veto rate of the learned side > cap), with the belief and the cap that eligibility knows.

    Args:
        learned, baseline: episodes and vetoes among them.

    >>> round(over_cap((2000, 10), (2000, 10)), 4), over_cap((200, 40), (2000, 10)) > 0.99
    (0.0, True)
    """
    episodes, vetoes = np.array([baseline[0], learned[0]]), np.array([baseline[1], learned[1]])
    _, over = eligibility(episodes.astype(float), vetoes.astype(float), 0, np.array([False, False]))
    return float(over[1])


def metrics_of(compared: Compared) -> tuple[Metric, ...]:
    """Judge a stage by its guardrails and signals."""
    return (
        _veto_rate(compared),
        _reward(compared, MetricRole.GUARDRAIL),
        _reward(compared, MetricRole.SIGNAL),
        _growth("cost_usd", compared.learned.cost_usd, compared.baseline.cost_usd),
        _growth("latency_ms", compared.learned.latency_ms, compared.baseline.latency_ms),
    )


def reward_lift(compared: Compared) -> tuple[float, float]:
    """Give the interval of the learned side's reward minus the baseline's, at the level of a signal."""
    return _difference(compared.learned.reward, compared.baseline.reward, SIGNAL_ALPHA)


def _veto_rate(compared: Compared) -> Metric:
    learned, baseline = compared.learned, compared.baseline
    over = over_cap((learned.episodes, learned.vetoes), (baseline.episodes, baseline.vetoes))
    is_breached = over > EXCLUDE_ABOVE  # the belief's prior says how many vetoes that takes
    return Metric(
        name="veto_rate",
        role=MetricRole.GUARDRAIL,
        learned=learned.vetoes / max(learned.episodes, 1),
        baseline=baseline.vetoes / max(baseline.episodes, 1),
        over_cap=over,
        finding=Finding.BREACHED
        if is_breached
        else _finding(learned.episodes, is_breached=False, is_within=over < READMIT_BELOW),
        episodes=learned.episodes,
        rule=f"P(veto rate over its cap) above {EXCLUDE_ABOVE:g}",
    )


def _reward(compared: Compared, role: MetricRole) -> Metric:
    learned, baseline = compared.learned.reward, compared.baseline.reward
    is_guardrail = role is MetricRole.GUARDRAIL
    alpha, limit = (GUARDRAIL_ALPHA, -LARGEST_LOSS) if is_guardrail else (SIGNAL_ALPHA, 0.0)
    lower, upper = _difference(learned, baseline, alpha)
    episodes = min(learned.n, baseline.n)
    return Metric(
        name="reward_loss" if is_guardrail else "reward",
        role=role,
        learned=learned.mean,
        baseline=baseline.mean,
        lower=lower,
        upper=upper,
        finding=_finding(episodes, is_breached=upper < limit, is_within=lower >= limit),
        episodes=episodes,
        rule=f"reward surely more than {LARGEST_LOSS:g} below the baseline's"
        if is_guardrail
        else "reward surely below the baseline's",
    )


def _growth(name: str, learned: Moments, baseline: Moments) -> Metric:
    lower, upper = _difference(learned, baseline, SIGNAL_ALPHA, max(abs(learned.mean), abs(baseline.mean)) or 1.0)
    limit, episodes = LARGEST_GROWTH * baseline.mean, min(learned.n, baseline.n)
    return Metric(
        name=name,
        role=MetricRole.SIGNAL,
        learned=learned.mean,
        baseline=baseline.mean,
        lower=lower,
        upper=upper,
        finding=_finding(episodes, is_breached=baseline.mean > 0 and lower > limit, is_within=upper <= limit),
        episodes=episodes,
        rule=f"surely more than {LARGEST_GROWTH:.0%} above the baseline's",
    )


def _finding(episodes: int, *, is_breached: bool, is_within: bool) -> Finding:
    """Say what is known of a metric: nothing under 100 episodes."""
    if episodes < LEAST_EPISODES:
        return Finding.TOO_FEW
    if is_breached:
        return Finding.BREACHED
    return Finding.WITHIN if is_within else Finding.UNDECIDED


def _difference(learned: Moments, baseline: Moments, alpha: float, scale: float = 1.0) -> tuple[float, float]:
    if min(learned.n, baseline.n) < LEAST_EPISODES:
        return -inf, inf
    return interval(learned.mean - baseline.mean, learned.variance + baseline.variance, alpha, scale)
