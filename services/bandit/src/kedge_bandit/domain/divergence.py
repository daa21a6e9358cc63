"""Compare the lift that is rewarded online with the lift on the holdout, check after check.

    D = eta dR - dE,   margin = delta0 + 1.5 sd_between / sqrt(pool),   z = (D - margin) / se(D)

dR is the quality of the learned part minus the baseline's on one set of randomised episodes (see `off_policy`), dE the
same difference on cases whose answers were fetched for the check. A pool of cases is the same at every check, and so is
its error: the margin's second term covers it. ALARM when the evidence for D reaches 1,000 and that for dR > .01 reaches
20: quality that nobody claims to have gained is no deception.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kedge_bandit.domain.arrays import FloatArray
from kedge_bandit.domain.e_detector import begin, evidence, step
from kedge_bandit.domain.ramp_metrics import Moments

DIVERGENCE: Final = "divergence"
REWARD_LIFT: Final = "reward_lift"
ALARM: Final = 1000.0
"""Evidence at which a detector trips: the mean number of checks until it does so by chance is at least that."""
CONFIRMED: Final = 20.0
"""Evidence for a reward lift, without which a divergence is none."""
LEAST_LIFT: Final = 0.01
POOL_FACTOR: Final = 1.5
LEAST_EPISODES: Final = 30
"""On either side, below which a check has no online lift to compare."""
LEAST_CASES: Final = 30
"""Of the sensor part, below which no check is made."""

_COUNTED: Final = 1e6


@dataclass(frozen=True, slots=True)
class Lift:
    """A difference in [-1, 1], and its standard error, at least that of one episode or case that differs."""

    value: float
    error: float


def lift_of(differences: FloatArray, weights: FloatArray) -> Lift:
    """Average paired differences.

    Args:
        differences: of each case [n], in [-1, 1]; at least 2.
        weights: of each case [n], how much of it is served otherwise than by the baseline.

    >>> lift_of(np.array([1.0, 0.0, 0.0, 0.0]), np.ones(4))
    Lift(value=0.25, error=0.25)
    """
    n, total = len(differences), float(weights.sum())
    value = float(weights @ differences) / total
    off = differences - value
    error = math.sqrt(n / (n - 1) * float((weights * off) @ (weights * off))) / total
    return Lift(value, max(error, 1.0 / n))


def lift_between(learned: Moments, baseline: Moments) -> Lift | None:
    """Give the learned part's mean less the baseline's; None where one side has too few episodes.

    Means of one self-normalised weighting each, over rows of which none is on both sides: by the delta method their
    variances add.
    """
    n = min(learned.n, baseline.n)
    if n < LEAST_EPISODES:
        return None
    return Lift(learned.mean - baseline.mean, max(math.sqrt(learned.variance + baseline.variance), 1.0 / n))


@dataclass(frozen=True, slots=True)
class Rule:
    """How much of a reward lift the holdout has to show.

    Attributes:
        eta: share, in (0, 1].
        least: the margin's first term.
    """

    eta: float
    least: float


USUAL: Final = Rule(eta=0.5, least=0.01)
SAME_VERIFIER: Final = Rule(eta=1.0, least=0.02)
"""Only where one verifier scores both the online quality and the holdout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One detector at one check.

    Attributes:
        value, error: what was measured, and its standard error; margin: what it may reach without being noticed.
        evidence: after this check; the detector trips at `threshold`.
        state: of the e-detector, carried to the next check.
    """

    detector: str
    value: float
    error: float
    margin: float
    evidence: float
    threshold: float
    state: tuple[float, ...]

    @property
    def z(self) -> float:
        """By how many standard errors the value is above the margin."""
        return (self.value - self.margin) / self.error

    @property
    def reached(self) -> str:
        """Say the evidence and the threshold; it grows by powers, and beyond a million nobody counts."""
        evidence = f"{self.evidence:,.0f}" if self.evidence <= _COUNTED else f"over {_COUNTED:,.0f}"
        return f"{evidence} of {self.threshold:,.0f}"

    @property
    def trips(self) -> bool:
        """Whether the evidence has reached the threshold."""
        return self.evidence >= self.threshold


def margin(rule: Rule, between: float, pool: int) -> float:
    """Give what D may reach: the rule's least, and what the pool's own error explains.

    Args:
        between: standard deviation of the lift between cases.
        pool: cases that every check draws from.

    >>> round(margin(USUAL, 0.1, 600), 4)
    0.0161
    """
    return rule.least + POOL_FACTOR * between / math.sqrt(pool)


def difference(rule: Rule, reward: Lift, holdout: Lift) -> Lift:
    """Give D with its standard error; both sides are independent.

    >>> difference(USUAL, Lift(0.06, 0.02), Lift(-0.04, 0.01))
    Lift(value=0.07, error=0.01414...)
    """
    return Lift(rule.eta * reward.value - holdout.value, math.hypot(rule.eta * reward.error, holdout.error))


def read(
    detector: str, measured: Lift, margin: float, before: Mapping[str, Reading], threshold: float = ALARM
) -> Reading:
    """Take one measurement into a detector.

    Args:
        before: the readings of the check before; empty at the first.

    Raises:
        ValueError: the error is not above 0.

    >>> read("length", Lift(0.3, 0.1), 0.1, {}).evidence
    2.90...
    """
    if not measured.error > 0:
        raise ValueError(measured.error)
    known = before.get(detector)
    state = step(begin() if known is None else np.array(known.state), (measured.value - margin) / measured.error)
    return Reading(
        detector=detector,
        value=measured.value,
        error=measured.error,
        margin=margin,
        evidence=float(evidence(state)),
        threshold=threshold,
        state=tuple(state.tolist()),
    )


def compare(
    rule: Rule, reward: Lift, holdout: Lift, *, between: float, pool: int, before: Mapping[str, Reading]
) -> tuple[Reading, Reading]:
    """Read both detectors of the divergence alarm: of D, and of the reward lift that has to confirm it."""
    apart = read(DIVERGENCE, difference(rule, reward, holdout), margin(rule, between, pool), before)
    return apart, read(REWARD_LIFT, reward, LEAST_LIFT, before, CONFIRMED)


def tripped(readings: Mapping[str, Reading]) -> tuple[Reading, ...]:
    """Name the detectors that freeze: the divergence where a reward lift confirms it, and every other by itself."""
    confirmed = REWARD_LIFT in readings and readings[REWARD_LIFT].trips
    return tuple(
        reading
        for name, reading in readings.items()
        if reading.trips and name != REWARD_LIFT and (name != DIVERGENCE or confirmed)
    )


def restarted(readings: Mapping[str, Reading]) -> dict[str, Reading]:
    """Have every detector begin anew after an alarm, which a person has to look at; the figures stay."""
    fresh = tuple(begin().tolist())
    return {name: replace(reading, state=fresh) for name, reading in readings.items()}
