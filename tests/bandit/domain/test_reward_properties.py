"""Prove the reward's properties over 100,000 random masks, weights and judge bounds.

A second, vectorised reading of the formula gives the expected values. The judge's swing is taken on W·Q before the
clip, as the property is stated there.
"""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from kedge_bandit.domain.episode import SafetyVerdict
from kedge_bandit.domain.outcome import VetoReason
from kedge_bandit.domain.reward import Reward, Signals, Unscored, Veto, judge_credit, reward
from kedge_bandit.domain.reward_spec import RewardSpec

N = 100_000
TOLERANCE = 1e-12
pytestmark = pytest.mark.slow

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """Hold N specs and N episodes, as arrays (NaN = absent) and as domain values."""

    weights: Floats  # (N, 5): human, judge, task success, cost, latency
    bounds: Floats  # (N, 3): floor, knee, ceiling
    missing: Floats  # (N, 2): cost, latency
    values: Floats  # (N, 5): in the order of the weights; cost and latency over a reference of 1
    specs: tuple[RewardSpec, ...]
    signals: tuple[Signals, ...]


@pytest.fixture(scope="module")
def sample() -> Sample:
    rng = np.random.default_rng(20260301)
    total, share, split = rng.uniform(0.05, 1.0, N), rng.uniform(0.0, 0.5, N), rng.uniform(0.0, 1.0, N)
    split[: N // 20], split[N // 20 : N // 10] = 0.0, 1.0
    quality = np.stack([(1 - share) * split, share, (1 - share) * (1 - split)], axis=1) * total[:, None]
    weights = np.concatenate([quality, rng.uniform(0.0, 0.3, (N, 2))], axis=1)
    bounds = np.sort(rng.uniform(0.0, 1.0, (N, 3)), axis=1)
    bounds[: N // 2] = (0.05, 0.70, 0.95)
    missing = rng.uniform(0.0, 1.0, (N, 2))
    values = rng.uniform(0.0, 1.0, (N, 5))
    values[:, 0] = rng.integers(-1, 2, N)
    values[:, 3:] *= 2.0
    edges = rng.uniform(size=(N, 2)) < 0.1
    values[:, 1:3][edges] = np.round(values[:, 1:3][edges])
    values[rng.uniform(size=(N, 5)) < 0.5] = np.nan
    values[::10] = np.nan_to_num(values[::10], nan=0.0)
    specs = tuple(_spec(*row) for row in zip(weights.tolist(), bounds.tolist(), missing.tolist(), strict=True))
    return Sample(weights, bounds, missing, values, specs, tuple(_signals(row) for row in values.tolist()))


def _spec(weights: list[float], bounds: list[float], missing: list[float]) -> RewardSpec:
    return RewardSpec(
        cost_reference_usd=1.0,
        latency_reference_ms=1.0,
        weight_human=weights[0],
        weight_judge=weights[1],
        weight_task_success=weights[2],
        weight_cost=weights[3],
        weight_latency=weights[4],
        judge_floor=bounds[0],
        judge_knee=bounds[1],
        judge_ceiling=bounds[2],
        missing_cost=missing[0],
        missing_latency=missing[1],
    )


def _signals(row: list[float]) -> Signals:
    human, judge, task, cost, latency = (None if value != value else value for value in row)  # NaN
    return Signals(
        human=human,
        judge=judge,
        task_success=task,
        cost_usd=cost,
        latency_ms=latency,
        safety_verdict=SafetyVerdict.CLEAN,
    )


def _credits(judge: Floats, bounds: Floats) -> Floats:
    floor, knee, ceiling = bounds.T
    clipped = np.clip(judge, floor, ceiling)
    credit: Floats = np.where(clipped > knee, knee + (clipped - knee) / 3.0, clipped)
    return credit


def _scored(signals: Signals, spec: RewardSpec) -> Reward:
    verdict = reward(signals, spec)
    assert isinstance(verdict, Reward)
    return verdict


def _weighted(signals: Signals, spec: RewardSpec) -> float:
    """W·Q."""
    return spec.quality_weight * _scored(signals, spec).quality


def test_the_reward_is_the_formula_in_every_mask(sample: Sample) -> None:
    human, judge, task, cost, latency = sample.values.T
    w_human, w_judge, w_task, w_cost, w_latency = sample.weights.T
    parts = np.stack([w_human * (human + 1) / 2, w_task * task])
    mass = np.where(np.isnan(human), 0.0, w_human) + np.where(np.isnan(task), 0.0, w_task)
    total = w_human + w_judge + w_task
    credit = _credits(judge, sample.bounds)
    with np.errstate(invalid="ignore"):
        verified = np.where(mass > 0, np.nansum(parts, axis=0) / mass, np.nan)
    start = np.where(np.isnan(verified), 0.5, verified)
    quality = start + w_judge / total * np.where(np.isnan(judge), 0.0, credit - start)
    quality = np.where(np.isnan(verified) & np.isnan(judge), np.nan, quality)
    c, ell = (
        np.where(np.isnan(amount), assumed, np.minimum(amount, 1.0))
        for amount, assumed in zip((cost, latency), sample.missing.T, strict=True)
    )
    expected = np.clip(total * quality - w_cost * c - w_latency * ell, 0.0, 1.0)
    literal = np.clip(w_human * (human + 1) / 2 + w_judge * credit + w_task * task - w_cost * c - w_latency * ell, 0, 1)

    verdicts = [reward(signals, spec) for signals, spec in zip(sample.signals, sample.specs, strict=True)]
    found = np.array([verdict.value if isinstance(verdict, Reward) else np.nan for verdict in verdicts])
    weight = np.array([verdict.weight if isinstance(verdict, Reward) else np.nan for verdict in verdicts])

    scored = ~np.isnan(found)
    assert 0.85 < scored.mean() < 1.0
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=TOLERANCE)
    assert found[scored].min() >= 0.0
    assert found[scored].max() <= 1.0
    complete = ~np.isnan(sample.values[:, :3]).any(axis=1)
    assert complete.sum() > N // 10
    np.testing.assert_allclose(found[complete], literal[complete], rtol=0.0, atol=TOLERANCE)
    np.testing.assert_array_equal(weight[scored], (mass > 0)[scored])
    assert all(isinstance(verdicts[i], Unscored) for i in np.flatnonzero(~scored))


def test_the_judge_swings_by_its_own_weight_in_every_mask(sample: Sample) -> None:
    for signals, spec in zip(sample.signals, sample.specs, strict=True):
        swing = _weighted(replace(signals, judge=1.0), spec) - _weighted(replace(signals, judge=0.0), spec)
        expected = spec.weight_judge * (judge_credit(1.0, spec) - judge_credit(0.0, spec))
        assert abs(swing - expected) <= TOLERANCE


def test_what_is_verifiable_swings_by_at_least_its_full_weight_in_every_mask_that_has_any(sample: Sample) -> None:
    seen = 0
    for signals, spec in zip(sample.signals, sample.specs, strict=True):
        if _verified_weight(signals, spec) == 0.0:
            continue
        seen += 1
        best = replace(
            signals,
            human=None if signals.human is None else 1.0,
            task_success=None if signals.task_success is None else 1.0,
        )
        worst = replace(
            signals,
            human=None if signals.human is None else -1.0,
            task_success=None if signals.task_success is None else 0.0,
        )
        swing = _weighted(best, spec) - _weighted(worst, spec)
        assert swing >= spec.weight_human + spec.weight_task_success - TOLERANCE
        assert swing >= spec.weight_judge - TOLERANCE
    assert seen > N // 2


def _verified_weight(signals: Signals, spec: RewardSpec) -> float:
    human = 0.0 if signals.human is None else spec.weight_human
    return human + (0.0 if signals.task_success is None else spec.weight_task_success)


def test_adding_a_signal_equal_to_what_was_verified_changes_nothing(sample: Sample) -> None:
    tried = {"human": 0, "task_success": 0, "judge": 0, "judge alone": 0}
    for signals, spec in zip(sample.signals, sample.specs, strict=True):
        verdict = reward(signals, spec)
        if not isinstance(verdict, Reward):
            continue
        level = 0.5 if verdict.verifiable_quality is None else verdict.verifiable_quality
        added = []
        if signals.task_success is None:
            added.append(("task_success", replace(signals, task_success=level)))
        if signals.human is None and level in (0.0, 0.5, 1.0):
            added.append(("human", replace(signals, human=2.0 * level - 1.0)))
        if signals.judge is None and spec.judge_floor <= level <= judge_credit(1.0, spec):
            above = max(level - spec.judge_knee, 0.0)
            added.append(("judge", replace(signals, judge=min(level + 2.0 * above, spec.judge_ceiling))))
        if verdict.verifiable_quality is None:
            tried["judge alone"] += len(added)
        for name, more in added:
            tried[name] += 1
            assert abs(_scored(more, spec).value - verdict.value) <= TOLERANCE
    assert min(tried.values()) > 1000


def test_more_of_a_good_signal_never_lowers_and_more_cost_never_raises_the_reward(sample: Sample) -> None:
    rng = np.random.default_rng(7)
    steps = rng.uniform(0.0, 1.0, (N, 4)).tolist()
    for signals, spec, (judge, task, cost, latency) in zip(sample.signals, sample.specs, steps, strict=True):
        verdict = reward(signals, spec)
        if not isinstance(verdict, Reward):
            continue
        better = replace(
            signals,
            human=None if signals.human is None else min(signals.human + 1.0, 1.0),
            judge=None if signals.judge is None else min(signals.judge + judge, 1.0),
            task_success=None if signals.task_success is None else min(signals.task_success + task, 1.0),
        )
        dearer = replace(
            signals,
            cost_usd=None if signals.cost_usd is None else signals.cost_usd + cost,
            latency_ms=None if signals.latency_ms is None else signals.latency_ms + latency,
        )
        assert _scored(better, spec).value >= verdict.value - TOLERANCE
        assert _scored(dearer, spec).value <= verdict.value + TOLERANCE


def test_each_signal_alone_is_monotone_in_every_mask() -> None:
    spec = RewardSpec(cost_reference_usd=1.0, latency_reference_ms=1.0)
    ladders = {"human": (-1.0, 0.0, 1.0), "judge": tuple(np.linspace(0, 1, 41)), "task_success": (0.0, 0.3, 1.0)}
    for human, judge, task in product((None, -1.0, 1.0), (None, 0.2, 0.9), (None, 0.0, 1.0)):
        start = Signals(human=human, judge=judge, task_success=task, safety_verdict=SafetyVerdict.CLEAN)
        for name, ladder in ladders.items():
            values = [_scored(_with(start, name, float(step)), spec).value for step in ladder]
            assert values == sorted(values)


def _with(signals: Signals, name: str, value: float) -> Signals:
    return Signals(
        human=value if name == "human" else signals.human,
        judge=value if name == "judge" else signals.judge,
        task_success=value if name == "task_success" else signals.task_success,
        safety_verdict=signals.safety_verdict,
    )


def test_a_veto_dominates_every_mask(sample: Sample) -> None:
    reasons = list(VetoReason)
    for i, (signals, spec) in enumerate(zip(sample.signals, sample.specs, strict=True)):
        broken = replace(signals, vetoes=(reasons[i % len(reasons)],), safety_verdict=SafetyVerdict.TRIPPED)
        assert isinstance(reward(broken, spec), Veto)
