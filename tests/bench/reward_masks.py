"""Try the reward's properties on a million random masks and weights, and measure rewards per second."""

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np

from kedge_bandit.domain.episode import SafetyVerdict
from kedge_bandit.domain.outcome import VetoReason
from kedge_bandit.domain.reward import Reward, Signals, Unscored, Veto, judge_credit, reward
from kedge_bandit.domain.reward_spec import RewardSpec
from tests.bench.figures import Bar, Control, Report, Row, Setting

SEED = 20260304
CASES = 1_000_000
CHUNK = 20_000
TOLERANCE = 1e-12
ROUNDS = 7
TIMED = 20_000

PROPERTIES = (
    "is the formula of its mask, in [0, 1]",
    "equals the plain formula when complete",
    "learned from exactly if something was verified",
    "the judge swings W·Q by w_J·(g_max - g_min)",
    "what is verifiable swings W·Q by at least w_H + w_T",
    "a signal equal to Q_V changes nothing",
    "monotone in every signal",
    "a veto dominates",
)

Case = tuple[RewardSpec, Signals]


def reward_masks(setting: Setting) -> Report:
    """Count violations over all cases; none is allowed."""
    violations: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    chunks = range(CASES // CHUNK)
    with ProcessPoolExecutor(max_workers=2) as pool:
        for done, (broken, looked_at) in enumerate(pool.map(partial(violations_of, count=CHUNK), chunks), start=1):
            violations += broken
            tried += looked_at
            setting.say(f"{done * CHUNK:,} of {CASES:,} masks, {violations.total()} violations")
    rows = [
        Row(name=f"violations: {name} ({tried[name]:,} tries)", value=violations[name], bar=Bar(at_most=0))
        for name in PROPERTIES
    ]
    rows.append(Row(name="property with fewest tries", value=min(tried[p] for p in PROPERTIES), bar=Bar(at_least=1e5)))
    speed, control = _speed()
    notes = [
        f"{CASES:,} random reward specs with random signals, about half of them absent; tolerance {TOLERANCE:g};"
        " the speed is one process scoring prepared signals"
    ]
    return Report(rows=[*rows, speed], controls=[control], notes=notes, seeds=[SEED])


def violations_of(chunk: int, *, count: int) -> tuple[Counter[str], Counter[str]]:
    """Try every property on `count` cases; give how often each was violated and how often it applied."""
    violations: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    rng = np.random.default_rng([SEED, chunk])
    steps = rng.uniform(0.0, 1.0, (count, 4)).tolist()
    reasons = list(VetoReason)
    for i, (spec, signals) in enumerate(cases(rng, count)):
        for name, holds in _tries(spec, signals, steps[i], reasons[i % len(reasons)]):
            tried[name] += 1
            violations[name] += not holds
    return violations, tried


def cases(rng: np.random.Generator, count: int) -> Iterator[Case]:
    """Draw specs that are allowed and signals of every mask; a twentieth each has w_H = 0 and w_T = 0."""
    total, share, split = rng.uniform(0.05, 1.0, count), rng.uniform(0.0, 0.5, count), rng.uniform(0.0, 1.0, count)
    split[rng.random(count) < 0.05] = 0.0
    split[rng.random(count) < 0.05] = 1.0
    bounds = np.sort(rng.uniform(0.0, 1.0, (count, 3)), axis=1)
    bounds[rng.random(count) < 0.5] = (0.05, 0.70, 0.95)
    spec_numbers = np.column_stack(
        [
            (1.0 - share) * split * total,
            share * total,
            (1.0 - share) * (1.0 - split) * total,
            rng.uniform(0.0, 0.3, (count, 2)),
            bounds,
            rng.uniform(0.0, 1.0, (count, 2)),
        ]
    )
    values = np.column_stack(
        [rng.integers(-1, 2, count), rng.uniform(0.0, 1.0, (count, 2)), rng.uniform(0.0, 2.0, (count, 2))]
    )
    values[:, 1:3] = np.where(rng.random((count, 2)) < 0.1, np.round(values[:, 1:3]), values[:, 1:3])
    absent = (rng.random((count, 5)) < 0.5) & (rng.random((count, 1)) < 0.9)
    for numbers, seen, missing in zip(spec_numbers.tolist(), values.tolist(), absent.tolist(), strict=True):
        yield _spec(numbers), _signals([None if gone else value for gone, value in zip(missing, seen, strict=True)])


def _spec(numbers: list[float]) -> RewardSpec:
    human, judge, task, cost, latency, floor, knee, ceiling, missing_cost, missing_latency = numbers
    return RewardSpec(
        cost_reference_usd=1.0,
        latency_reference_ms=1.0,
        weight_human=human,
        weight_judge=judge,
        weight_task_success=task,
        weight_cost=cost,
        weight_latency=latency,
        judge_floor=floor,
        judge_knee=knee,
        judge_ceiling=ceiling,
        missing_cost=missing_cost,
        missing_latency=missing_latency,
    )


def _signals(seen: list[float | None]) -> Signals:
    human, judge, task, cost, latency = seen
    return Signals(
        human=human,
        judge=judge,
        task_success=task,
        cost_usd=cost,
        latency_ms=latency,
        safety_verdict=SafetyVerdict.CLEAN,
    )


def _tries(spec: RewardSpec, signals: Signals, steps: list[float], reason: VetoReason) -> Iterator[tuple[str, bool]]:
    """Yield each property that applies to the case, and whether it holds."""
    formula, complete, learned, judge_swing, verified_swing, neutral, monotone, veto = PROPERTIES
    verdict = reward(signals, spec)
    expected = _by_hand(spec, signals)
    if isinstance(verdict, Reward) and expected is not None:
        yield formula, abs(verdict.value - expected) <= TOLERANCE and 0.0 <= verdict.value <= 1.0
        yield learned, verdict.weight == float(_verified_weight(spec, signals) > 0.0)
        for more in _neutral(spec, signals, verdict):
            yield neutral, _near(reward(more, spec), verdict.value)
        yield monotone, _monotone(spec, signals, steps, verdict.value)
    else:
        yield formula, isinstance(verdict, Unscored) and expected is None
    if None not in (signals.human, signals.judge, signals.task_success):
        yield complete, _near(verdict, _plain(spec, signals))
    best, worst = (_quality(replace(signals, judge=score), spec) for score in (1.0, 0.0))
    swing = spec.weight_judge * (judge_credit(1.0, spec) - judge_credit(0.0, spec))
    yield judge_swing, abs(best - worst - swing) <= TOLERANCE
    if _verified_weight(spec, signals) > 0.0:
        best, worst = (_quality(_verified_at(signals, end), spec) for end in (1.0, 0.0))
        yield verified_swing, best - worst >= spec.weight_human + spec.weight_task_success - TOLERANCE
    broken = replace(signals, vetoes=(reason,), safety_verdict=SafetyVerdict.TRIPPED)
    yield veto, isinstance(reward(broken, spec), Veto)


def _by_hand(spec: RewardSpec, signals: Signals) -> float | None:
    """Read the rule a second time, mask by mask; None where there is no reward."""
    w_h, w_j, w_t = spec.weight_human, spec.weight_judge, spec.weight_task_success
    h = None if signals.human is None else (signals.human + 1.0) / 2.0
    g = None if signals.judge is None else _credit(signals.judge, spec)
    t = signals.task_success
    known = [(w, x) for w, x in ((w_h, h), (w_t, t)) if x is not None and w > 0.0]
    verified = sum(w * x for w, x in known) / sum(w for w, _ in known) if known else None
    if verified is None and g is None:
        return None
    centre = 0.5 if verified is None else verified
    share = w_j / (w_h + w_j + w_t)
    quality = centre if g is None else (1.0 - share) * centre + share * g
    raw = (w_h + w_j + w_t) * quality - _dues(spec, signals)
    return max(0.0, min(1.0, raw))


def _plain(spec: RewardSpec, signals: Signals) -> float:
    human, judge, task = signals.human or 0.0, signals.judge or 0.0, signals.task_success or 0.0
    raw = spec.weight_human * (human + 1.0) / 2.0 + spec.weight_judge * _credit(judge, spec)
    raw += spec.weight_task_success * task - _dues(spec, signals)
    return max(0.0, min(1.0, raw))


def _dues(spec: RewardSpec, signals: Signals) -> float:
    cost = spec.missing_cost if signals.cost_usd is None else min(signals.cost_usd, 1.0)
    latency = spec.missing_latency if signals.latency_ms is None else min(signals.latency_ms, 1.0)
    return spec.weight_cost * cost + spec.weight_latency * latency


def _credit(score: float, spec: RewardSpec) -> float:
    j = max(spec.judge_floor, min(spec.judge_ceiling, score))
    return j if j <= spec.judge_knee else spec.judge_knee + (j - spec.judge_knee) / 3.0


def _verified_weight(spec: RewardSpec, signals: Signals) -> float:
    human = 0.0 if signals.human is None else spec.weight_human
    return human + (0.0 if signals.task_success is None else spec.weight_task_success)


def _verified_at(signals: Signals, end: float) -> Signals:
    return replace(
        signals,
        human=None if signals.human is None else 2.0 * end - 1.0,
        task_success=None if signals.task_success is None else end,
    )


def _neutral(spec: RewardSpec, signals: Signals, verdict: Reward) -> Iterator[Signals]:
    """Add one absent signal whose worth is what was verified so far, or a half if nothing was."""
    level = 0.5 if verdict.verifiable_quality is None else verdict.verifiable_quality
    if signals.task_success is None:
        yield replace(signals, task_success=level)
    if signals.human is None and level in (0.0, 0.5, 1.0):
        yield replace(signals, human=2.0 * level - 1.0)
    score = level if level <= spec.judge_knee else spec.judge_knee + 3.0 * (level - spec.judge_knee)
    if signals.judge is None and spec.judge_floor <= score <= spec.judge_ceiling:
        yield replace(signals, judge=score)


def _monotone(spec: RewardSpec, signals: Signals, steps: list[float], value: float) -> bool:
    human, judge, task = signals.human, signals.judge, signals.task_success
    better = replace(
        signals,
        human=None if human is None else min(human + 1.0, 1.0),
        judge=None if judge is None else min(judge + steps[0], 1.0),
        task_success=None if task is None else min(task + steps[1], 1.0),
    )
    dearer = replace(
        signals,
        cost_usd=None if signals.cost_usd is None else signals.cost_usd + steps[2],
        latency_ms=None if signals.latency_ms is None else signals.latency_ms + steps[3],
    )
    return _value(reward(better, spec)) >= value - TOLERANCE and _value(reward(dearer, spec)) <= value + TOLERANCE


def _quality(signals: Signals, spec: RewardSpec) -> float:
    verdict = reward(signals, spec)
    return spec.quality_weight * verdict.quality if isinstance(verdict, Reward) else float("nan")


def _value(verdict: object) -> float:
    return verdict.value if isinstance(verdict, Reward) else float("nan")


def _near(verdict: object, value: float) -> bool:
    return abs(_value(verdict) - value) <= TOLERANCE


def _speed() -> tuple[Row, Control]:
    prepared = list(cases(np.random.default_rng(SEED), TIMED))
    speeds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for spec, signals in prepared:
            reward(signals, spec)
        speeds.append(TIMED / (time.perf_counter() - began))
    return Row.of_rounds("rewards per second, one process", speeds, unit="/s"), Control("rewards per second", speeds)
