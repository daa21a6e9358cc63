"""Hold what happened in one episode: its steps, the safety verdict they carry, and the state it ends in.

A trajectory is what the core application logs. It is raw: the vetoes, the cost and the latency are read from it by the
functions below, so that a later reading of the same record gives the same answer.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from kedge_bandit.domain.errors import TrajectoryInvalid
from kedge_bandit.domain.outcome import MAX_COST_USD, MAX_LATENCY_MS, VetoReason


class EpisodeState(StrEnum):
    """Say where an episode stands; every logged episode is in exactly one state and the counts add up."""

    SETTLED = "SETTLED"
    VETOED = "VETOED"
    UNSCORED = "UNSCORED"
    PENDING = "PENDING"
    CANCELLED = "CANCELLED"


class SafetyVerdict(StrEnum):
    """Say whether the guardrails looked at an episode and what they found; ABSENT is not clean."""

    CLEAN = "CLEAN"
    TRIPPED = "TRIPPED"
    ABSENT = "ABSENT"


class VerifierVerdict(StrEnum):
    """Say what a tool's verifier found."""

    PASSED = "PASSED"
    FAILED = "FAILED"


class GuardrailKind(StrEnum):
    """Say what a guardrail watches for."""

    PII = "PII"
    POLICY = "POLICY"
    INJECTION = "INJECTION"


class ApprovalVerdict(StrEnum):
    """Say what came of asking a person; BYPASSED means that nobody waited for the answer."""

    GRANTED = "GRANTED"
    DENIED = "DENIED"
    BYPASSED = "BYPASSED"


class AssertionKind(StrEnum):
    """Say what an output assertion checks."""

    SCHEMA = "SCHEMA"
    FORBIDDEN_CONTENT = "FORBIDDEN_CONTENT"
    TENANT_ISOLATION = "TENANT_ISOLATION"


_GUARDRAIL_VETO: Final[Mapping[GuardrailKind, VetoReason]] = MappingProxyType(
    {
        GuardrailKind.PII: VetoReason.GUARDRAIL_PII,
        GuardrailKind.POLICY: VetoReason.GUARDRAIL_POLICY,
        GuardrailKind.INJECTION: VetoReason.GUARDRAIL_INJECTION,
    }
)
_APPROVAL_VETO: Final[Mapping[ApprovalVerdict, VetoReason]] = MappingProxyType(
    {
        ApprovalVerdict.DENIED: VetoReason.APPROVAL_DENIED,
        ApprovalVerdict.BYPASSED: VetoReason.APPROVAL_BYPASSED,
    }
)
_ASSERTION_VETO: Final[Mapping[AssertionKind, VetoReason]] = MappingProxyType(
    {
        AssertionKind.SCHEMA: VetoReason.ASSERTION_SCHEMA,
        AssertionKind.FORBIDDEN_CONTENT: VetoReason.ASSERTION_FORBIDDEN_CONTENT,
        AssertionKind.TENANT_ISOLATION: VetoReason.ASSERTION_TENANT_ISOLATION,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmCall:
    """Record one call of a language model.

    Attributes:
        model_id: the model as the provider names it; a new one behind the same route is a known change.
        prompt_tokens: tokens sent, not negative.
        completion_tokens: tokens received, not negative.
        cost_usd: US dollars, in [0, 1e6]; None if unknown.
        latency_ms: milliseconds, in [0, 30 days]; None if unknown.

    Raises:
        TrajectoryInvalid: a number is negative, too large or not finite, or the model has no name.
    """

    model_id: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None = None
    latency_ms: float | None = None

    def __post_init__(self) -> None:
        if not self.model_id:
            raise TrajectoryInvalid(step="an LLM call", field="model_id", problem="must not be empty")
        for name, tokens in (("prompt_tokens", self.prompt_tokens), ("completion_tokens", self.completion_tokens)):
            if tokens < 0:
                raise TrajectoryInvalid(step="an LLM call", field=name, problem=f"must not be negative, found {tokens}")
        if self.cost_usd is not None:
            object.__setattr__(self, "cost_usd", _amount("an LLM call", "cost_usd", self.cost_usd, MAX_COST_USD))
        if self.latency_ms is not None:
            latency_ms = _amount("an LLM call", "latency_ms", self.latency_ms, MAX_LATENCY_MS)
            object.__setattr__(self, "latency_ms", latency_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """Record one call of a tool.

    Attributes:
        tool_name: the tool.
        verifier_verdict: what its verifier found; None if nothing verified it.
        blocked: it was stopped before it acted.
        latency_ms: milliseconds, in [0, 30 days]; 0 if not measured.

    Raises:
        TrajectoryInvalid: the latency is negative, too large or not finite.
    """

    tool_name: str
    verifier_verdict: VerifierVerdict | None = None
    blocked: bool = False
    latency_ms: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "latency_ms", _amount("a tool call", "latency_ms", self.latency_ms, MAX_LATENCY_MS))


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailEvent:
    """Record that a guardrail looked, and whether it tripped."""

    kind: GuardrailKind
    tripped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """Record what a person answered; only a required approval can veto."""

    subject: str
    verdict: ApprovalVerdict
    required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """Record one check of the output; only a hard one can veto."""

    kind: AssertionKind
    passed: bool
    hard: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """Record the steps of one episode as the core application logged them.

    Attributes:
        llm_calls: in the order they were made.
        tool_calls: likewise.
        guardrail_events: every look of a guardrail, also those that found nothing.
        approvals: every question put to a person.
        assertions: every check of the output.
        declared_safety: the application's own verdict, for guardrails that report only what they trip on. It may say
            CLEAN or ABSENT; what tripped is said by an event, because a veto names its reason.
        terminated: the episode ended by the task's own rules.
        truncated: it was cut off by a limit.
        start_time: when the episode began; any aware time, kept as UTC; None if not said.
        end_time: when its last step ended, likewise.

    Raises:
        TrajectoryInvalid: TRIPPED is declared and no event says what tripped, or a time has no zone.
    """

    llm_calls: tuple[LlmCall, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    guardrail_events: tuple[GuardrailEvent, ...] = ()
    approvals: tuple[Approval, ...] = ()
    assertions: tuple[Assertion, ...] = ()
    declared_safety: SafetyVerdict | None = None
    terminated: bool = False
    truncated: bool = False
    start_time: datetime | None = None
    end_time: datetime | None = None

    def __post_init__(self) -> None:
        for name, time in (("start_time", self.start_time), ("end_time", self.end_time)):
            if time is not None:
                if time.utcoffset() is None:
                    raise TrajectoryInvalid(step="the episode", field=name, problem="must carry a time zone")
                object.__setattr__(self, name, time.astimezone(UTC))
        if self.declared_safety is SafetyVerdict.TRIPPED and not vetoes(self):
            raise TrajectoryInvalid(
                step="the episode", field="declared_safety", problem="is TRIPPED and no event says what tripped"
            )

    @property
    def has_ended(self) -> bool:
        """Say whether no step will follow."""
        return self.terminated or self.truncated


def vetoes(trajectory: Trajectory) -> tuple[VetoReason, ...]:
    """List every hard safety rule the trajectory broke, each once, in the order of `VetoReason`.

    >>> vetoes(Trajectory(tool_calls=(ToolCall(tool_name="refund", blocked=True),)))
    (<VetoReason.TOOL_BLOCKED: 'TOOL_BLOCKED'>,)
    """
    broken = frozenset(_broken_rules(trajectory))
    return tuple(reason for reason in VetoReason if reason in broken)


def safety_verdict(trajectory: Trajectory) -> SafetyVerdict:
    """Read the safety verdict that the trajectory carries.

    Any veto makes it TRIPPED. Otherwise the declared verdict stands; without one, a guardrail that looked and found
    nothing makes it CLEAN, and no guardrail at all leaves it ABSENT.

    >>> safety_verdict(Trajectory(guardrail_events=(GuardrailEvent(kind=GuardrailKind.PII, tripped=False),)))
    <SafetyVerdict.CLEAN: 'CLEAN'>
    >>> safety_verdict(Trajectory())
    <SafetyVerdict.ABSENT: 'ABSENT'>
    """
    if vetoes(trajectory):
        return SafetyVerdict.TRIPPED
    if trajectory.declared_safety is not None:
        return trajectory.declared_safety
    return SafetyVerdict.CLEAN if trajectory.guardrail_events else SafetyVerdict.ABSENT


def total_cost_usd(trajectory: Trajectory) -> float | None:
    """Add up what the LLM calls cost, US dollars; None without calls or if any call's cost is unknown.

    A partial sum would make the action look cheaper the less it reports.

    >>> call = LlmCall(model_id="m", prompt_tokens=1, completion_tokens=1, cost_usd=0.25)
    >>> total_cost_usd(Trajectory(llm_calls=(call, call)))
    0.5
    """
    return _total(tuple(call.cost_usd for call in trajectory.llm_calls))


def total_latency_ms(trajectory: Trajectory) -> float | None:
    """Add up how long the calls took, milliseconds; None without LLM calls or if the latency of one is unknown.

    >>> call = LlmCall(model_id="m", prompt_tokens=1, completion_tokens=1, latency_ms=200.0)
    >>> total_latency_ms(Trajectory(llm_calls=(call, call)))
    400.0
    """
    in_models = _total(tuple(call.latency_ms for call in trajectory.llm_calls))
    return None if in_models is None else in_models + math.fsum(call.latency_ms for call in trajectory.tool_calls)


def _broken_rules(trajectory: Trajectory) -> Iterator[VetoReason]:
    for event in trajectory.guardrail_events:
        if event.tripped:
            yield _GUARDRAIL_VETO[event.kind]
    for call in trajectory.tool_calls:
        if call.blocked:
            yield VetoReason.TOOL_BLOCKED
        if call.verifier_verdict is VerifierVerdict.FAILED:
            yield VetoReason.TOOL_VERIFIER_FAILED
    for approval in trajectory.approvals:
        if approval.required and approval.verdict in _APPROVAL_VETO:
            yield _APPROVAL_VETO[approval.verdict]
    for assertion in trajectory.assertions:
        if assertion.hard and not assertion.passed:
            yield _ASSERTION_VETO[assertion.kind]


def _total(amounts: tuple[float | None, ...]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return math.fsum(known) if amounts and len(known) == len(amounts) else None


def _amount(step: str, field: str, amount: float, high: float) -> float:
    """Return the amount with −0.0 as 0, or refuse it; NaN and the infinities fail the comparison."""
    if not 0.0 <= amount <= high:
        problem = f"must be a finite number from 0 to {high:g}, found {amount!r}"
        raise TrajectoryInvalid(step=step, field=field, problem=problem)
    return amount + 0.0
