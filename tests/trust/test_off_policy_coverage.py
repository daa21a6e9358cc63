"""Intervals of off-policy values hold the truth as often as they say, and what has no valid interval gets no number.

Thompson sampling with a floor of .3 and a slice of .1 plays five arms for 2,000 turns, published every 20, and the
value of each arm is then estimated from that log alone. `make trust` plays 2,400 logs, so
that a coverage is known to .01, and writes build/trust/off_policy.json.
"""

from math import sqrt

import numpy as np

from kedge_bandit.domain.allocation import allocate
from kedge_bandit.domain.best_arm import probability_best
from kedge_bandit.domain.doubly_robust import Log, doubly_robust, expected_rewards, switch_point
from kedge_bandit.domain.off_policy import Estimate, effective_sample_size, ips, snips, why_not
from tests.trust import size
from tests.trust.written import write_json

MEANS = np.array([0.5, 0.4, 0.45, 0.55, 0.6])
ARMS, TURNS, EVERY, FLOOR, SLICE = 5, 2_000, 20, 0.3, 0.1
LOGS = size.of(120, 2_400)
# At full size the bars are the stated ones; a sample has three standard errors of its own more.
SLACK = 0.0 if size.IS_FULL else 3 * sqrt(0.05 * 0.95 / LOGS)


def played(seed: int) -> Log:
    """Play one log."""
    rng = np.random.default_rng(seed)
    won, pulls = np.zeros(ARMS), np.zeros(ARMS)
    logged, actions, rewards = np.empty((TURNS, ARMS)), np.empty(TURNS, dtype=np.int64), np.empty(TURNS)
    for start in range(0, TURNS, EVERY):
        turns = slice(start, start + EVERY)
        q = probability_best(1.0 + won, 1.0 + pulls - won)
        p = allocate(q, subset=[True] * ARMS, baseline=0, floor=FLOOR, uniform_slice=SLICE)
        drawn = np.minimum(np.searchsorted(np.cumsum(p), rng.random(EVERY), side="right"), ARMS - 1)
        logged[turns], actions[turns] = p, drawn
        rewards[turns] = rng.random(EVERY) < MEANS[drawn]
        pulls += np.bincount(drawn, minlength=ARMS)
        won += np.bincount(drawn, weights=rewards[turns], minlength=ARMS)
    return Log(rewards=rewards, actions=actions, buckets=np.zeros(TURNS, dtype=np.int64), logged=logged)


def estimates(log: Log, target: np.ndarray, expected: np.ndarray) -> dict[str, Estimate]:
    """Value one target in every way."""
    weights = log.weights(target)
    return {
        "ips": ips(weights, log.rewards),
        "snips": snips(weights, log.rewards),
        "dr": doubly_robust(log, target, expected),
        "switch": doubly_robust(log, target, expected, switch_point(log, target, expected)),
    }


def test_snips_and_dr_hold_every_arms_true_mean_and_the_worst_arm_is_refused() -> None:
    held = {name: np.zeros(ARMS) for name in ("ips", "snips", "dr", "switch")}
    refused, effective = np.zeros(ARMS), np.zeros(ARMS)
    for seed in range(LOGS):
        log = played(seed)
        expected = expected_rewards(log)
        for arm, mean in enumerate(MEANS):
            target = np.tile(np.eye(ARMS)[arm], (TURNS, 1))
            for name, estimate in estimates(log, target, expected).items():
                low, high = estimate.interval()
                held[name][arm] += low <= mean <= high
            weights = log.weights(target)
            refused[arm] += bool(why_not(weights))
            effective[arm] += effective_sample_size(weights)
    figures = {f"coverage_{name}": (count / LOGS).round(4).tolist() for name, count in held.items()}
    figures |= {"refused": (refused / LOGS).round(4).tolist(), "effective": (effective / LOGS).round(1).tolist()}
    write_json("off_policy", {"logs": LOGS, "means": MEANS.tolist(), **figures})
    for name, values in figures.items():
        print(f"{name:16}", *(f"{value:8.3f}" for value in values))
    for name in ("snips", "dr"):
        coverage = held[name] / LOGS
        assert np.all(coverage >= 0.92 - SLACK), figures
        assert np.all(coverage <= 0.98 + SLACK), figures
    assert refused[int(np.argmin(MEANS))] == LOGS, figures
