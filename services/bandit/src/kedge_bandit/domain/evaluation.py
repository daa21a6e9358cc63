"""Put a target policy beside the baseline and the traffic itself, all valued on the same rows of the log."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from kedge_bandit.domain.arrays import FloatArray
from kedge_bandit.domain.doubly_robust import Log, doubly_robust, expected_rewards, switch_point
from kedge_bandit.domain.off_policy import Estimate, effective_sample_size, ips, snips, why_not

MOST_OUT_OF_REACH: Final = 0.01
"""Share of a target's probability that the log need not have been able to draw: it moves the value by that at most."""


class Estimator(StrEnum):
    """A way to value a policy from another's log; see `off_policy` and `doubly_robust`."""

    SNIPS = "SNIPS"
    DR = "DR"
    IPS = "IPS"
    SWITCH = "SWITCH"


@dataclass(frozen=True, slots=True, kw_only=True)
class Valued:
    """What the log says of one policy.

    Attributes:
        mean_weight: 1 where the log could serve what the policy serves, but for chance.
        refusal: why there are no estimates; empty where there are.
        switch: weight above which SWITCH trusts the model alone; infinite where it is DR.
    """

    effective_sample_size: float
    mean_weight: float
    refusal: str
    switch: float
    estimates: Mapping[Estimator, Estimate]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A target beside the baseline; what one of them earns more than the other is of the same rows.

    Attributes:
        logged: what the randomised traffic itself earned.
    """

    episodes: int
    logged: Estimate
    target: Valued
    baseline: Valued

    @property
    def lifts(self) -> Mapping[Estimator, Estimate]:
        """Target less baseline; empty where one of the two is refused."""
        others = self.baseline.estimates
        return {way: one.minus(others[way]) for way, one in self.target.estimates.items() if way in others}


def evaluate(log: Log, target: FloatArray, baseline: FloatArray) -> Evaluation:
    """Value a target and the baseline.

    Args:
        log: at least two rows.
        target: its probabilities [n, K].
        baseline: those of the baseline [n, K].

    >>> rng = np.random.default_rng(1)
    >>> actions = rng.integers(0, 2, 1_000)
    >>> log = Log(rewards=(rng.random(1_000) < np.where(actions == 1, 0.7, 0.5)).astype(float), actions=actions,
    ...           buckets=np.zeros(1_000, dtype=np.int64), logged=np.full((1_000, 2), 0.5))
    >>> found = evaluate(log, np.tile([0.0, 1.0], (1_000, 1)), np.tile([1.0, 0.0], (1_000, 1)))
    >>> {way.value: round(lift.value, 2) for way, lift in found.lifts.items()}
    {'SNIPS': 0.17, 'DR': 0.17, 'IPS': 0.15, 'SWITCH': 0.17}
    """
    expected = expected_rewards(log)
    return Evaluation(
        episodes=len(log.rewards),
        logged=ips(np.ones(len(log.rewards)), log.rewards),
        target=value(log, target, expected),
        baseline=value(log, baseline, expected),
    )


def value(log: Log, target: FloatArray, expected: FloatArray) -> Valued:
    """Value one policy in every way, or say why not.

    Args:
        target: its probabilities [n, K].
        expected: rewards as a model expects them [n, K].
    """
    weights = log.weights(target)
    refusal = _out_of_reach(log, target) or why_not(weights)
    switch = switch_point(log, target, expected)
    estimates: dict[Estimator, Estimate] = {}
    if not refusal:
        estimates = {
            Estimator.SNIPS: snips(weights, log.rewards),
            Estimator.DR: doubly_robust(log, target, expected),
            Estimator.IPS: ips(weights, log.rewards),
            Estimator.SWITCH: doubly_robust(log, target, expected, switch),
        }
    return Valued(
        effective_sample_size=effective_sample_size(weights),
        mean_weight=float(np.mean(weights)),
        refusal=refusal,
        switch=switch,
        estimates=estimates,
    )


def _out_of_reach(log: Log, target: FloatArray) -> str:
    share = log.out_of_reach(target)
    if share <= MOST_OUT_OF_REACH:
        return ""
    return (
        f"{share:.3f} of the target's probability is on actions that were not eligible when the log was drawn, and "
        f"{MOST_OUT_OF_REACH} is the most: leave them out, or evaluate a time in which they were served"
    )
