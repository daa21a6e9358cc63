"""Test the reward by worked examples; `test_reward_properties.py` has the properties over random masks and weights."""

from dataclasses import replace
from itertools import product

import pytest

from kedge_bandit.domain.episode import SafetyVerdict
from kedge_bandit.domain.errors import FactsInvalid, RewardSpecInvalid
from kedge_bandit.domain.outcome import VetoReason
from kedge_bandit.domain.reward import (
    Contribution,
    Reward,
    Signals,
    Unscored,
    Verdict,
    Veto,
    WeightReason,
    contribution,
    lacks_safety_verdict,
    reward,
)
from kedge_bandit.domain.reward_spec import RewardSpec, SafetySource

SPEC = RewardSpec(cost_reference_usd=0.02, latency_reference_ms=2000.0)
COMPLETE = Signals(
    human=0.0, judge=0.8, task_success=1.0, cost_usd=0.01, latency_ms=500.0, safety_verdict=SafetyVerdict.CLEAN
)


def scored(verdict: Verdict) -> Reward:
    assert isinstance(verdict, Reward)
    return verdict


def test_a_complete_episode_is_worth_the_weighted_sum() -> None:
    verdict = scored(reward(COMPLETE, SPEC))

    assert verdict.judge_credit == pytest.approx(0.7 + 0.1 / 3)
    assert (verdict.cost, verdict.latency) == (0.5, 0.25)
    assert verdict.value == pytest.approx(0.4 * 0.5 + 0.25 * (0.7 + 0.1 / 3) + 0.25 - 0.05 * 0.5 - 0.05 * 0.25)
    assert (verdict.weight, verdict.weight_reason) == (1.0, WeightReason.LEARNED)


def test_what_is_missing_takes_the_value_of_what_was_verified() -> None:
    only_task = scored(reward(replace(COMPLETE, human=None, judge=None), SPEC))

    assert only_task.quality == 1.0
    assert only_task.verifiable_weight == 0.25
    assert only_task.raw == pytest.approx(0.9 - 0.05 * 0.5 - 0.05 * 0.25)


def test_a_judge_alone_is_shown_and_not_learned_from() -> None:
    alone = scored(reward(replace(COMPLETE, human=None, task_success=None), SPEC))

    assert alone.quality == pytest.approx(0.5 + (0.25 / 0.9) * (0.7 + 0.1 / 3 - 0.5))
    assert (alone.weight, alone.weight_reason) == (0.0, WeightReason.JUDGE_ONLY)


def test_nothing_observed_is_no_reward_and_no_evidence() -> None:
    nothing = reward(replace(COMPLETE, human=None, judge=None, task_success=None), SPEC)

    assert isinstance(nothing, Unscored)
    assert contribution(nothing) is None


def test_missing_cost_and_latency_take_the_assumed_value_and_large_ones_are_clipped() -> None:
    missing = scored(reward(replace(COMPLETE, cost_usd=None, latency_ms=None), SPEC))
    large = scored(reward(replace(COMPLETE, cost_usd=1e6, latency_ms=1e9), SPEC))

    assert (missing.cost, missing.latency) == (0.3, 0.3)
    assert (large.cost, large.latency) == (1.0, 1.0)


def test_an_episode_without_safety_verdict_is_shown_and_not_learned_from() -> None:
    unseen = replace(COMPLETE, safety_verdict=SafetyVerdict.ABSENT)

    verdict = scored(reward(unseen, SPEC))

    assert lacks_safety_verdict(unseen, SPEC)
    assert (verdict.weight, verdict.weight_reason) == (0.0, WeightReason.NO_SAFETY_VERDICT)
    assert verdict.value == scored(reward(COMPLETE, SPEC)).value


def test_a_tenant_that_says_it_has_no_guardrails_learns_without_a_verdict() -> None:
    unguarded = replace(SPEC, safety_source=SafetySource.NONE)
    unseen = replace(COMPLETE, safety_verdict=SafetyVerdict.ABSENT)

    assert not lacks_safety_verdict(unseen, unguarded)
    assert scored(reward(unseen, unguarded)).weight_reason is WeightReason.LEARNED


@pytest.mark.parametrize("reason", list(VetoReason))
def test_every_veto_reason_makes_a_veto_that_counts_as_an_episode_of_reward_zero(reason: VetoReason) -> None:
    verdict = reward(replace(COMPLETE, vetoes=(reason,), safety_verdict=SafetyVerdict.TRIPPED), SPEC)

    assert isinstance(verdict, Veto)
    assert verdict.reasons == (reason,)
    assert contribution(verdict) == Contribution(weight=1.0, reward=0.0, vetoed=True)


def test_a_veto_stays_the_same_veto_whatever_else_is_observed() -> None:
    leak = Signals(vetoes=(VetoReason.GUARDRAIL_PII,), safety_verdict=SafetyVerdict.TRIPPED)

    assert reward(leak, SPEC) == reward(replace(leak, human=1.0, task_success=1.0, judge=1.0), SPEC)


def test_an_absent_judge_changes_neither_a_reward_towards_a_number_nor_the_ranking() -> None:
    better = replace(COMPLETE, human=1.0)

    with_judge = [scored(reward(signals, SPEC)).value for signals in (COMPLETE, better)]
    without = [scored(reward(replace(signals, judge=None), SPEC)).value for signals in (COMPLETE, better)]
    as_zero = scored(reward(replace(better, judge=0.0), SPEC)).value
    as_half = scored(reward(replace(better, judge=0.5), SPEC)).value

    assert with_judge == sorted(with_judge)
    assert without == sorted(without)
    assert without[1] not in (as_zero, as_half)


@pytest.mark.parametrize("quality", [0.1, 0.35, 0.6, 0.9])
@pytest.mark.parametrize("coverage", [0.05, 0.5, 1.0])
def test_thumbs_for_one_arm_only_open_no_gap_between_equally_good_arms(quality: float, coverage: float) -> None:
    """The exact mean over success and thumb, which both tell the truth about the arm, independently."""

    def mean(share_with_thumb: float) -> float:
        total = 0.0
        for success, thumb in product((0.0, 1.0), (None, -1.0, 1.0)):
            chance = quality if success else 1.0 - quality
            if thumb is None:
                chance *= 1.0 - share_with_thumb
            else:
                chance *= share_with_thumb * (quality if thumb > 0 else 1.0 - quality)
            seen = Signals(human=thumb, task_success=success, safety_verdict=SafetyVerdict.CLEAN)
            total += chance * scored(reward(seen, SPEC)).value
        return total

    assert abs(mean(0.0) - mean(coverage)) < 0.01


@pytest.mark.parametrize(
    "change",
    [
        {"weight_judge": 0.5, "weight_human": 0.2, "weight_task_success": 0.2},
        {"weight_human": 0.6},
        {"weight_human": 0.0, "weight_judge": 0.0, "weight_task_success": 0.0},
        {"weight_cost": -0.1},
        {"weight_latency": float("nan")},
        {"missing_cost": 1.1},
        {"judge_floor": 0.8},
        {"judge_floor": 0.7, "judge_ceiling": 0.7},
        {"judge_ceiling": 1.1},
        {"edit_accept": 0.5},
        {"cost_reference_usd": 0.0},
        {"latency_reference_ms": float("inf")},
        {"version": 0},
    ],
)
def test_a_spec_that_breaks_a_rule_is_refused(change: dict[str, float]) -> None:
    values: dict[str, float] = {"cost_reference_usd": 0.02, "latency_reference_ms": 2000.0, **change}

    with pytest.raises(RewardSpecInvalid) as caught:
        RewardSpec(**values)  # type: ignore[arg-type] # version is an int and every value here is a number

    assert caught.value.reason == "INVALID_REWARD_SPEC"


def test_a_judge_above_a_third_of_the_quality_weight_is_accepted_with_a_warning() -> None:
    third = replace(SPEC, weight_human=0.3, weight_task_success=0.3, weight_judge=0.3)
    half = replace(SPEC, weight_human=0.25, weight_task_success=0.25, weight_judge=0.5)

    assert not SPEC.judge_share_is_high
    assert not third.judge_share_is_high
    assert half.judge_share_is_high
    assert half.judge_share == 0.5


@pytest.mark.parametrize(
    "change",
    [
        {"human": 0.5},
        {"judge": 1.5},
        {"task_success": float("nan")},
        {"cost_usd": -1.0},
        {"latency_ms": float("inf")},
    ],
)
def test_signals_out_of_range_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(FactsInvalid):
        Signals(**change)  # type: ignore[arg-type] # only the numeric fields are named here


def test_a_verdict_that_contradicts_the_vetoes_is_refused() -> None:
    with pytest.raises(FactsInvalid):
        Signals(vetoes=(VetoReason.TOOL_BLOCKED,), safety_verdict=SafetyVerdict.CLEAN)
    with pytest.raises(FactsInvalid):
        Signals(safety_verdict=SafetyVerdict.TRIPPED)
