"""Build valid outcomes and trajectories: by hand with short defaults, or drawn by Hypothesis."""

from datetime import UTC, datetime, timedelta
from typing import TypeVar

from hypothesis import strategies as st

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
    vetoes,
)
from kedge_bandit.domain.outcome import AbsentReason, Outcome, Provenance, SignalKind, VetoReason
from kedge_bandit.domain.settlement import Arrival

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
Step = TypeVar("Step")


def measured(signal: SignalKind, value: float, *, key: str = "k", minute: float = 0.0) -> Outcome:
    """Build an outcome with a value; a SAFETY value of 0 is a PII leak, a HUMAN value is a thumb."""
    return Outcome(
        key=key,
        signal=signal,
        source="app",
        observed_time=NOON + timedelta(minutes=minute),
        value=value,
        provenance=Provenance.THUMB if signal is SignalKind.HUMAN else None,
        veto_reason=VetoReason.GUARDRAIL_PII if signal is SignalKind.SAFETY and value == 0.0 else None,
    )


def absent(signal: SignalKind, why: AbsentReason, *, key: str = "k", minute: float = 0.0) -> Outcome:
    """Build an outcome that says why there is no value."""
    return Outcome(key=key, signal=signal, source="app", observed_time=NOON + timedelta(minutes=minute), absent=why)


def reacted(
    provenance: Provenance,
    value: float | None = None,
    *,
    edit_distance: float | None = None,
    rater: str | None = "r1",
    key: str = "k",
    minute: float = 0.0,
) -> Outcome:
    """Build a person's reaction; without value and distance it withdraws an earlier one."""
    nothing = value is None and edit_distance is None
    return Outcome(
        key=key,
        signal=SignalKind.HUMAN,
        source="app",
        observed_time=NOON + timedelta(minutes=minute),
        value=value,
        edit_distance=edit_distance,
        provenance=provenance,
        rater_hash=rater,
        absent=AbsentReason.NOT_APPLICABLE if nothing else None,
    )


def after(**time: float) -> datetime:
    """Name a moment after `NOON`, the time of every decision here, by the arguments of `timedelta`."""
    return NOON + timedelta(**time)


def arrived(outcome: Outcome, **time: float) -> Arrival:
    """Let an outcome be received that long after the decision."""
    return Arrival(outcome, after(**time))


_MINUTES = st.integers(min_value=0, max_value=90)
_SHARES = st.floats(min_value=0.0, max_value=1.0)


@st.composite
def outcomes(draw: st.DrawFn, *, vetoing: bool = True) -> Outcome:
    """Draw any valid outcome; keys are unique with near certainty and times collide often."""
    signal = draw(st.sampled_from(SignalKind))
    key = draw(st.uuids()).hex
    minute = draw(_MINUTES)
    if signal is SignalKind.HUMAN:
        provenance = draw(st.sampled_from(Provenance))
        rater = draw(st.sampled_from([None, "r1", "r2"]))
        gone = draw(st.booleans())
        distance = draw(_SHARES) if provenance is Provenance.EDITED and not gone else None
        values = {Provenance.THUMB: (-1.0, 0.0, 1.0), Provenance.ACCEPTED: (1.0,), Provenance.RESOLVED: (0.0, 1.0)}
        value = None if gone or provenance is Provenance.EDITED else draw(st.sampled_from(values[provenance]))
        return reacted(provenance, value, edit_distance=distance, rater=rater, key=key, minute=minute)
    if draw(st.booleans()):
        return absent(signal, draw(st.sampled_from(AbsentReason)), key=key, minute=minute)
    if signal is SignalKind.SAFETY:
        return measured(signal, draw(st.sampled_from((0.0, 1.0) if vetoing else (1.0,))), key=key, minute=minute)
    high = 1.0 if signal in (SignalKind.JUDGE, SignalKind.TASK_SUCCESS) else 1e6
    return measured(signal, draw(st.floats(min_value=0.0, max_value=high)), key=key, minute=minute)


_LLM_CALLS = st.builds(
    LlmCall,
    model_id=st.sampled_from(["small-1", "large-2"]),
    prompt_tokens=st.integers(0, 10_000),
    completion_tokens=st.integers(0, 10_000),
    cost_usd=st.none() | st.floats(0.0, 10.0),
    latency_ms=st.none() | st.floats(0.0, 1e5),
)
_TOOL_CALLS = st.builds(
    ToolCall,
    tool_name=st.just("search"),
    verifier_verdict=st.none() | st.sampled_from(VerifierVerdict),
    blocked=st.booleans(),
    latency_ms=st.floats(0.0, 1e5),
)
_GUARDRAILS = st.builds(GuardrailEvent, kind=st.sampled_from(GuardrailKind), tripped=st.booleans())
_APPROVALS = st.builds(
    Approval, subject=st.just("refund"), verdict=st.sampled_from(ApprovalVerdict), required=st.booleans()
)
_ASSERTIONS = st.builds(Assertion, kind=st.sampled_from(AssertionKind), passed=st.booleans(), hard=st.booleans())


def _tuples(steps: st.SearchStrategy[Step]) -> st.SearchStrategy[tuple[Step, ...]]:
    return st.lists(steps, max_size=2).map(tuple)


def trajectories() -> st.SearchStrategy[Trajectory]:
    """Draw any valid trajectory."""
    return st.builds(
        Trajectory,
        llm_calls=_tuples(_LLM_CALLS),
        tool_calls=_tuples(_TOOL_CALLS),
        guardrail_events=_tuples(_GUARDRAILS),
        approvals=_tuples(_APPROVALS),
        assertions=_tuples(_ASSERTIONS),
        declared_safety=st.sampled_from([None, SafetyVerdict.CLEAN, SafetyVerdict.ABSENT]),
        terminated=st.booleans(),
        truncated=st.booleans(),
        start_time=st.none() | st.integers(0, 10_000).map(lambda seconds: NOON + timedelta(seconds=seconds)),
    )


def clean_trajectories() -> st.SearchStrategy[Trajectory]:
    """Draw valid trajectories that break no rule."""
    return trajectories().filter(lambda trajectory: not vetoes(trajectory))
