"""Test what a trajectory says about safety, cost and latency."""

import math

import pytest
from hypothesis import given
from pydantic import TypeAdapter

from kedge_bandit.domain.episode import (
    Approval,
    ApprovalVerdict,
    Assertion,
    AssertionKind,
    GuardrailEvent,
    GuardrailKind,
    LlmCall,
    SafetyVerdict,
    ToolCall,
    Trajectory,
    VerifierVerdict,
    safety_verdict,
    total_cost_usd,
    total_latency_ms,
    vetoes,
)
from kedge_bandit.domain.errors import TrajectoryInvalid
from kedge_bandit.domain.outcome import VetoReason
from tests.bandit.domain.outcome_strategies import NOON, trajectories


def tripped(kind: GuardrailKind) -> Trajectory:
    return Trajectory(guardrail_events=(GuardrailEvent(kind=kind, tripped=True),))


def approved(verdict: ApprovalVerdict, *, required: bool = True) -> Trajectory:
    return Trajectory(approvals=(Approval(subject="refund", verdict=verdict, required=required),))


def asserted(kind: AssertionKind, *, passed: bool = False, hard: bool = True) -> Trajectory:
    return Trajectory(assertions=(Assertion(kind=kind, passed=passed, hard=hard),))


BREAKING = {
    VetoReason.GUARDRAIL_PII: tripped(GuardrailKind.PII),
    VetoReason.GUARDRAIL_POLICY: tripped(GuardrailKind.POLICY),
    VetoReason.GUARDRAIL_INJECTION: tripped(GuardrailKind.INJECTION),
    VetoReason.TOOL_BLOCKED: Trajectory(tool_calls=(ToolCall(tool_name="pay", blocked=True),)),
    VetoReason.TOOL_VERIFIER_FAILED: Trajectory(
        tool_calls=(ToolCall(tool_name="pay", verifier_verdict=VerifierVerdict.FAILED),)
    ),
    VetoReason.APPROVAL_DENIED: approved(ApprovalVerdict.DENIED),
    VetoReason.APPROVAL_BYPASSED: approved(ApprovalVerdict.BYPASSED),
    VetoReason.ASSERTION_SCHEMA: asserted(AssertionKind.SCHEMA),
    VetoReason.ASSERTION_FORBIDDEN_CONTENT: asserted(AssertionKind.FORBIDDEN_CONTENT),
    VetoReason.ASSERTION_TENANT_ISOLATION: asserted(AssertionKind.TENANT_ISOLATION),
}


@pytest.mark.parametrize("reason", list(VetoReason))
def test_every_veto_reason_can_be_read_from_a_trajectory(reason: VetoReason) -> None:
    assert vetoes(BREAKING[reason]) == (reason,)
    assert safety_verdict(BREAKING[reason]) is SafetyVerdict.TRIPPED


@pytest.mark.parametrize(
    "harmless",
    [
        Trajectory(guardrail_events=(GuardrailEvent(kind=GuardrailKind.PII, tripped=False),)),
        Trajectory(tool_calls=(ToolCall(tool_name="pay", verifier_verdict=VerifierVerdict.PASSED),)),
        approved(ApprovalVerdict.GRANTED),
        approved(ApprovalVerdict.DENIED, required=False),
        approved(ApprovalVerdict.BYPASSED, required=False),
        asserted(AssertionKind.SCHEMA, passed=True),
        asserted(AssertionKind.SCHEMA, hard=False),
    ],
)
def test_what_breaks_no_hard_rule_vetoes_nothing(harmless: Trajectory) -> None:
    assert vetoes(harmless) == ()


def test_several_broken_rules_are_listed_once_each_in_a_fixed_order() -> None:
    leaks = (GuardrailEvent(kind=GuardrailKind.PII, tripped=True),) * 2
    blocked = ToolCall(tool_name="pay", blocked=True, verifier_verdict=VerifierVerdict.FAILED)

    found = vetoes(Trajectory(tool_calls=(blocked, blocked), guardrail_events=leaks))

    assert found == (VetoReason.GUARDRAIL_PII, VetoReason.TOOL_BLOCKED, VetoReason.TOOL_VERIFIER_FAILED)


def test_a_guardrail_that_looked_makes_an_episode_clean_and_no_look_leaves_it_absent() -> None:
    looked = GuardrailEvent(kind=GuardrailKind.INJECTION, tripped=False)

    assert safety_verdict(Trajectory(guardrail_events=(looked,))) is SafetyVerdict.CLEAN
    assert safety_verdict(Trajectory(tool_calls=(ToolCall(tool_name="search"),))) is SafetyVerdict.ABSENT
    assert safety_verdict(Trajectory(declared_safety=SafetyVerdict.CLEAN)) is SafetyVerdict.CLEAN


def test_a_declared_verdict_never_hides_a_veto_and_a_declared_trip_needs_an_event() -> None:
    leak = (GuardrailEvent(kind=GuardrailKind.PII, tripped=True),)

    hidden = Trajectory(guardrail_events=leak, declared_safety=SafetyVerdict.CLEAN)

    assert safety_verdict(hidden) is SafetyVerdict.TRIPPED
    with pytest.raises(TrajectoryInvalid, match="no event says what tripped"):
        Trajectory(declared_safety=SafetyVerdict.TRIPPED)


def call(cost_usd: float | None = 0.1, latency_ms: float | None = 100.0) -> LlmCall:
    return LlmCall(model_id="m", prompt_tokens=1, completion_tokens=1, cost_usd=cost_usd, latency_ms=latency_ms)


def test_cost_and_latency_are_sums_over_the_calls() -> None:
    seen = Trajectory(llm_calls=(call(),) * 10, tool_calls=(ToolCall(tool_name="search", latency_ms=50.0),))

    assert total_cost_usd(seen) == 1.0
    assert total_latency_ms(seen) == 1050.0


def test_a_sum_with_an_unknown_part_is_unknown_and_an_empty_one_too() -> None:
    partial = Trajectory(llm_calls=(call(), call(cost_usd=None, latency_ms=None)))

    assert (total_cost_usd(partial), total_latency_ms(partial)) == (None, None)
    assert (total_cost_usd(Trajectory()), total_latency_ms(Trajectory())) == (None, None)


@pytest.mark.parametrize("amount", [math.nan, math.inf, -1.0, 1e308])
def test_an_amount_that_cannot_be_is_refused(amount: float) -> None:
    with pytest.raises(TrajectoryInvalid, match="cost_usd"):
        call(cost_usd=amount)
    with pytest.raises(TrajectoryInvalid, match="latency_ms"):
        call(latency_ms=amount)
    with pytest.raises(TrajectoryInvalid, match="a tool call"):
        ToolCall(tool_name="t", latency_ms=amount)


def test_an_amount_of_negative_zero_becomes_zero() -> None:
    assert math.copysign(1.0, ToolCall(tool_name="t", latency_ms=-0.0).latency_ms) == 1.0


def test_tokens_a_name_and_time_zones_are_checked() -> None:
    with pytest.raises(TrajectoryInvalid, match="completion_tokens"):
        LlmCall(model_id="m", prompt_tokens=1, completion_tokens=-1)
    with pytest.raises(TrajectoryInvalid, match="model_id"):
        LlmCall(model_id="", prompt_tokens=1, completion_tokens=1)
    with pytest.raises(TrajectoryInvalid, match="end_time"):
        Trajectory(end_time=NOON.replace(tzinfo=None))


@given(trajectories())
def test_a_trajectory_survives_json(trajectory: Trajectory) -> None:
    adapter = TypeAdapter(Trajectory)

    assert adapter.validate_json(adapter.dump_json(trajectory)) == trajectory


@given(trajectories())
def test_a_trajectory_is_tripped_exactly_if_it_broke_a_rule(trajectory: Trajectory) -> None:
    assert (safety_verdict(trajectory) is SafetyVerdict.TRIPPED) is bool(vetoes(trajectory))
