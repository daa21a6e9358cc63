"""Map a logged trajectory between the wire and the domain; content is dropped here."""

from collections.abc import Mapping
from typing import Any, TypeVar

from kedge.bandit.v1 import episode_pb2
from kedge_bandit.adapters.grpc.wire import moment, timestamp
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
)
from kedge_bandit.domain.errors import TrajectoryInvalid

MAX_STEPS = 1_000
MAX_NAME_BYTES = 512

_K = TypeVar("_K", bound=int)
_E = TypeVar("_E")

_GUARDRAIL = {episode_pb2.GuardrailKind.Value(f"GUARDRAIL_KIND_{kind}"): kind for kind in GuardrailKind}
_VERIFIER = {episode_pb2.VerifierVerdict.Value(f"VERIFIER_VERDICT_{v}"): v for v in VerifierVerdict}
_APPROVAL = {episode_pb2.ApprovalVerdict.Value(f"APPROVAL_VERDICT_{v}"): v for v in ApprovalVerdict}
_ASSERTION = {episode_pb2.AssertionKind.Value(f"ASSERTION_KIND_{kind}"): kind for kind in AssertionKind}
_SAFETY = {episode_pb2.SafetyVerdict.Value(f"SAFETY_VERDICT_{v}"): v for v in SafetyVerdict}


def trajectory_of(message: episode_pb2.Trajectory) -> Trajectory:
    """Read a trajectory.

    Raises:
        TrajectoryInvalid: a number, a kind or a time cannot be believed, or there are over 1,000 steps of a sort.
    """
    for name in ("llm_calls", "tool_calls", "guardrail_events", "approvals", "assertions"):
        if len(getattr(message, name)) > MAX_STEPS:
            raise TrajectoryInvalid(step="the episode", field=name, problem=f"has over {MAX_STEPS} entries")
    return Trajectory(
        llm_calls=tuple(_llm_call(call) for call in message.llm_calls),
        tool_calls=tuple(
            ToolCall(
                tool_name=_name(call.tool_name, "tool call", "tool_name"),
                verifier_verdict=_known(_VERIFIER, call.verifier_verdict, "tool call", "verifier_verdict")
                if call.verifier_verdict
                else None,
                blocked=call.blocked,
                latency_ms=call.latency_ms,
            )
            for call in message.tool_calls
        ),
        guardrail_events=tuple(
            GuardrailEvent(kind=_known(_GUARDRAIL, event.kind, "guardrail event", "kind"), tripped=event.tripped)
            for event in message.guardrail_events
        ),
        approvals=tuple(
            Approval(
                subject=_name(item.subject, "approval", "subject"),
                verdict=_known(_APPROVAL, item.verdict, "approval", "verdict"),
            )
            for item in message.approvals
        ),
        assertions=tuple(
            Assertion(kind=_known(_ASSERTION, item.kind, "assertion", "kind"), passed=item.passed, hard=item.hard)
            for item in message.assertions
        ),
        declared_safety=_known(_SAFETY, message.declared_safety, "episode", "declared_safety")
        if message.declared_safety
        else None,
        terminated=message.terminated,
        truncated=message.truncated,
        start_time=moment(message.start_time, field="start_time") if message.HasField("start_time") else None,
        end_time=moment(message.end_time, field="end_time") if message.HasField("end_time") else None,
    )


def trajectory_message(trajectory: Trajectory) -> episode_pb2.Trajectory:
    """Put a trajectory on the wire."""
    message = episode_pb2.Trajectory(
        llm_calls=[_llm_call_message(call) for call in trajectory.llm_calls],
        tool_calls=[
            episode_pb2.ToolCall(
                tool_name=call.tool_name,
                verifier_verdict=_number(_VERIFIER, call.verifier_verdict),
                blocked=call.blocked,
                latency_ms=call.latency_ms,
            )
            for call in trajectory.tool_calls
        ],
        guardrail_events=[
            episode_pb2.GuardrailEvent(kind=_number(_GUARDRAIL, event.kind), tripped=event.tripped)
            for event in trajectory.guardrail_events
        ],
        approvals=[
            episode_pb2.Approval(subject=item.subject, verdict=_number(_APPROVAL, item.verdict))
            for item in trajectory.approvals
        ],
        assertions=[
            episode_pb2.Assertion(kind=_number(_ASSERTION, item.kind), passed=item.passed, hard=item.hard)
            for item in trajectory.assertions
        ],
        declared_safety=_number(_SAFETY, trajectory.declared_safety),
        terminated=trajectory.terminated,
        truncated=trajectory.truncated,
    )
    if trajectory.start_time is not None:
        message.start_time.CopyFrom(timestamp(trajectory.start_time))
    if trajectory.end_time is not None:
        message.end_time.CopyFrom(timestamp(trajectory.end_time))
    return message


def _llm_call_message(call: LlmCall) -> episode_pb2.LlmCall:
    return episode_pb2.LlmCall(
        model_id=call.model_id,
        prompt_tokens=call.prompt_tokens,
        completion_tokens=call.completion_tokens,
        cost_usd=call.cost_usd,
        latency_ms=call.latency_ms,
    )


def _number(table: Mapping[_K, _E], value: _E | None) -> Any:
    """Find a value's number on the wire; None, which leaves it unspecified, for none."""
    return next((number for number, known in table.items() if known is value), None)


def _llm_call(message: episode_pb2.LlmCall) -> LlmCall:
    return LlmCall(
        model_id=_name(message.model_id, "LLM call", "model_id"),
        prompt_tokens=message.prompt_tokens,
        completion_tokens=message.completion_tokens,
        cost_usd=message.cost_usd if message.HasField("cost_usd") else None,
        latency_ms=message.latency_ms if message.HasField("latency_ms") else None,
    )


def _name(text: str, step: str, field: str) -> str:
    """Bound a name: it becomes a key in the store."""
    if len(text.encode()) > MAX_NAME_BYTES or "\0" in text:
        raise TrajectoryInvalid(
            step=step, field=field, problem=f"is over {MAX_NAME_BYTES} bytes or holds a zero character"
        )
    return text


def _known(table: Mapping[_K, _E], number: _K, step: str, field: str) -> _E:
    found = table.get(number)
    if found is None:
        raise TrajectoryInvalid(step=step, field=field, problem=f"is {number}, which this server does not know")
    return found
