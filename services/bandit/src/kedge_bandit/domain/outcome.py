"""Hold one raw fact observed after a decision: a person's reaction, a judge's score, a cost, a safety verdict.

An outcome stores what was measured in the unit it was measured in; what it is worth is decided by `reward`. A signal
that could not be had is ABSENT with a reason, which is a fact of its own and never a zero. A value that cannot be
believed never becomes an `Outcome`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from kedge_bandit.domain.errors import OutcomeInvalid, OutcomeTimeOutOfRange

MAX_COST_USD: Final = 1e6
"""Largest cost of one episode that is believed, US dollars."""
MAX_LATENCY_MS: Final = 2_592_000_000.0
"""Largest latency of one episode that is believed, milliseconds: the 30 days for which a decision lives."""
MAX_TEXT_LENGTH: Final = 128
"""Longest key, source, rater hash or judge version, characters."""
MAX_AHEAD: Final = timedelta(minutes=5)
"""How far an observed time may lie ahead of the clock."""
MAX_SKEW: Final = timedelta(seconds=5)
"""How far an observer's clock may run behind the one that timed the decision."""


class SignalKind(StrEnum):
    """Say which component of the reward an outcome speaks about."""

    HUMAN = "HUMAN"
    JUDGE = "JUDGE"
    TASK_SUCCESS = "TASK_SUCCESS"
    SAFETY = "SAFETY"
    COST = "COST"
    LATENCY = "LATENCY"


class AbsentReason(StrEnum):
    """Say why a signal has no value."""

    NOT_APPLICABLE = "NOT_APPLICABLE"
    TIMEOUT = "TIMEOUT"
    UNPARSABLE = "UNPARSABLE"
    ERROR = "ERROR"


class Provenance(StrEnum):
    """Say how a person's reaction was observed."""

    THUMB = "THUMB"
    EDITED = "EDITED"
    ACCEPTED = "ACCEPTED"
    RESOLVED = "RESOLVED"


class VetoReason(StrEnum):
    """Say which hard safety rule an episode broke; any of them vetoes it."""

    GUARDRAIL_PII = "GUARDRAIL_PII"
    GUARDRAIL_POLICY = "GUARDRAIL_POLICY"
    GUARDRAIL_INJECTION = "GUARDRAIL_INJECTION"
    TOOL_BLOCKED = "TOOL_BLOCKED"
    TOOL_VERIFIER_FAILED = "TOOL_VERIFIER_FAILED"
    APPROVAL_DENIED = "APPROVAL_DENIED"
    APPROVAL_BYPASSED = "APPROVAL_BYPASSED"
    ASSERTION_SCHEMA = "ASSERTION_SCHEMA"
    ASSERTION_FORBIDDEN_CONTENT = "ASSERTION_FORBIDDEN_CONTENT"
    ASSERTION_TENANT_ISOLATION = "ASSERTION_TENANT_ISOLATION"


_RANGE: Final[Mapping[SignalKind, tuple[float, float]]] = MappingProxyType(
    {
        SignalKind.HUMAN: (-1.0, 1.0),
        SignalKind.JUDGE: (0.0, 1.0),
        SignalKind.TASK_SUCCESS: (0.0, 1.0),
        SignalKind.SAFETY: (0.0, 1.0),
        SignalKind.COST: (0.0, MAX_COST_USD),
        SignalKind.LATENCY: (0.0, MAX_LATENCY_MS),
    }
)
_HUMAN_VALUES: Final[Mapping[Provenance, frozenset[float]]] = MappingProxyType(
    {
        Provenance.THUMB: frozenset({-1.0, 0.0, 1.0}),
        Provenance.ACCEPTED: frozenset({1.0}),
        Provenance.RESOLVED: frozenset({0.0, 1.0}),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Carry one signal of one episode, either measured or ABSENT with a reason.

    Exactly one of `value`, `edit_distance` and `absent` is set.

    Attributes:
        key: idempotency key, 1 to 128 characters, none of them zero; within a tenant one key stands for one outcome.
        signal: the component it speaks about.
        source: principal that sent it, taken from the credential, 1 to 128 characters.
        observed_time: when it was observed; any aware time, kept as UTC.
        value: HUMAN −1, 0 or +1, for ACCEPTED +1, for RESOLVED 1 yes or 0 no; JUDGE and TASK_SUCCESS in [0, 1];
            SAFETY 1 clean, 0 tripped; COST in US dollars, LATENCY in milliseconds. −0.0 becomes 0.
        absent: why there is no value.
        provenance: how a HUMAN outcome was observed. An ABSENT one with a provenance withdraws that rater's earlier
            reaction of the same rank; without one it only says that nobody reacted.
        edit_distance: normalised edit distance in [0, 1], in place of `value` for an EDITED answer; the reward spec
            has the cut points.
        rater_hash: hashed identity of the person, HUMAN only; None is the one unnamed rater.
        requested: JUDGE only: False for a score sent although nobody asked; None leaves it to the decision.
        veto_reason: which rule was broken, for a SAFETY outcome of value 0 and only for it.
        judge_version: JUDGE only: which judge scored, 1 to 128 characters; None where the caller does not say.

    Raises:
        OutcomeInvalid: a field is missing, out of range, not finite, or does not belong to this signal.
    """

    key: str
    signal: SignalKind
    source: str
    observed_time: datetime
    value: float | None = None
    absent: AbsentReason | None = None
    provenance: Provenance | None = None
    edit_distance: float | None = None
    rater_hash: str | None = None
    requested: bool | None = None
    veto_reason: VetoReason | None = None
    judge_version: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.key) <= MAX_TEXT_LENGTH or "\0" in self.key:
            raise self._invalid("key", f"must have 1 to {MAX_TEXT_LENGTH} characters, none of them zero")
        if not 1 <= len(self.source) <= MAX_TEXT_LENGTH:
            raise self._invalid("source", f"must have 1 to {MAX_TEXT_LENGTH} characters")
        if self.observed_time.tzinfo is not UTC:
            if self.observed_time.utcoffset() is None:
                raise self._invalid("observed_time", "must carry a time zone")
            object.__setattr__(self, "observed_time", self.observed_time.astimezone(UTC))
        if (self.value is not None) + (self.edit_distance is not None) + (self.absent is not None) != 1:
            raise self._invalid("value", "must be a number or ABSENT with a reason, exactly one of them")
        if self.value is not None:
            object.__setattr__(self, "value", self._number("value", self.value, *_RANGE[self.signal]))
        if self.edit_distance is not None:
            object.__setattr__(self, "edit_distance", self._number("edit_distance", self.edit_distance, 0.0, 1.0))
        self._check_human()
        self._check_safety()
        self._check_judge()

    def _check_human(self) -> None:
        """Refuse a reaction whose provenance and value do not fit."""
        if self.signal is not SignalKind.HUMAN:
            for name, fact in (
                ("provenance", self.provenance),
                ("edit_distance", self.edit_distance),
                ("rater_hash", self.rater_hash),
            ):
                if fact is not None:
                    raise self._invalid(name, "belongs to HUMAN only")
            return
        if self.rater_hash is not None and not 1 <= len(self.rater_hash) <= MAX_TEXT_LENGTH:
            raise self._invalid("rater_hash", f"must have 1 to {MAX_TEXT_LENGTH} characters")
        if self.absent is not None:
            return
        if self.provenance is None:
            raise self._invalid("provenance", "must say how the reaction was observed")
        if (self.provenance is Provenance.EDITED) is not (self.edit_distance is not None):
            raise self._invalid("edit_distance", "must be given for an EDITED answer, and only for it")
        if self.value is not None and self.value not in _HUMAN_VALUES[self.provenance]:
            allowed = ", ".join(f"{value:+g}" for value in sorted(_HUMAN_VALUES[self.provenance]))
            raise self._invalid("value", f"of {self.provenance} must be one of {allowed}")

    def _check_safety(self) -> None:
        """Refuse a safety verdict that is neither clean nor tripped for a named reason."""
        if self.signal is SignalKind.SAFETY and self.value is not None and self.value not in (0.0, 1.0):
            raise self._invalid("value", "must be 1 (clean) or 0 (tripped)")
        tripped = self.signal is SignalKind.SAFETY and self.value == 0.0
        if tripped is not (self.veto_reason is not None):
            raise self._invalid("veto_reason", "must be given for a tripped SAFETY outcome, and only for it")

    def _check_judge(self) -> None:
        """Refuse what only a judge can say from anybody else."""
        if self.signal is not SignalKind.JUDGE:
            for name, fact in (("requested", self.requested), ("judge_version", self.judge_version)):
                if fact is not None:
                    raise self._invalid(name, "belongs to JUDGE only")
        version = self.judge_version
        if version is not None and (not 1 <= len(version) <= MAX_TEXT_LENGTH or "\0" in version):
            raise self._invalid("judge_version", f"must have 1 to {MAX_TEXT_LENGTH} characters, none of them zero")

    def _number(self, field: str, number: float, low: float, high: float) -> float:
        """Return the number with −0.0 as 0, or refuse it; NaN and the infinities fail the comparison."""
        if not low <= number <= high:
            raise self._invalid(field, f"must be a finite number from {low:g} to {high:g}, found {number!r}")
        return number + 0.0

    def _invalid(self, field: str, problem: str) -> OutcomeInvalid:
        return OutcomeInvalid(signal=self.signal, field=field, problem=problem)


def check_observed_time(outcome: Outcome, *, decision_time: datetime, now: datetime) -> None:
    """Refuse an outcome whose clock cannot be right.

    Args:
        outcome: the fact that arrived.
        decision_time: when its decision was made, aware.
        now: the clock at arrival, aware.

    Raises:
        OutcomeTimeOutOfRange: it was observed more than `MAX_SKEW` before its decision, or more than `MAX_AHEAD` after
            now.

    >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    >>> seen = Outcome(key="k", signal=SignalKind.COST, source="app", observed_time=noon, value=0.01)
    >>> check_observed_time(seen, decision_time=noon, now=noon)
    """
    # Differences, because a time near year 1 has none five seconds before it.
    ahead, behind = outcome.observed_time - now, decision_time - outcome.observed_time
    if ahead > MAX_AHEAD or behind > MAX_SKEW:
        raise OutcomeTimeOutOfRange(
            key=outcome.key, observed_time=outcome.observed_time, earliest=decision_time, latest=now + MAX_AHEAD
        )
