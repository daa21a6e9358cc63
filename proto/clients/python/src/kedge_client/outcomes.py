"""Make outcome messages in one word each, so that a thumb in a handler is one short line."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.timestamp_pb2 import Timestamp

from kedge.bandit.v1 import outcome_pb2 as pb
from kedge_client.choice import EpisodeHandle
from kedge_client.requests import checked_id


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeMaker:
    """Make outcomes about one episode.

    Every method takes `key`, the idempotency key: the same key with the same payload is recorded once. Without it a new
    one is made, so keep the message and send it again rather than make it again.

    Attributes:
        handle: the episode they are about.
        now: time of observation.
        new_id: makes idempotency keys.
    """

    handle: EpisodeHandle
    now: Callable[[], datetime]
    new_id: Callable[[], str]

    def at(self, observed_time: datetime) -> "OutcomeMaker":
        """Make outcomes that were observed at another time than now; it must be aware."""
        if observed_time.tzinfo is None:
            raise ValueError("observed_time must be aware, e.g. datetime.now(UTC)")
        return replace(self, now=lambda: observed_time)

    def thumb(self, value: int, *, rater_id: str = "", key: str | None = None) -> pb.Outcome:
        """Say that a person gave a thumb: +1 up, -1 down, 0 taken back to neutral."""
        if value not in (-1, 0, 1):
            raise ValueError(f"thumb must be +1, 0 or -1, got {value!r}")
        return self._human(pb.HUMAN_PROVENANCE_THUMB, value, rater_id, key)

    def edited(self, distance: float, *, rater_id: str = "", key: str | None = None) -> pb.Outcome:
        """Say that a person changed the answer by a normalised edit distance in [0, 1]."""
        return self._human(pb.HUMAN_PROVENANCE_EDITED, _share("edit distance", distance), rater_id, key)

    def accepted(self, *, rater_id: str = "", key: str | None = None) -> pb.Outcome:
        """Say that a person took the answer unchanged."""
        return self._human(pb.HUMAN_PROVENANCE_ACCEPTED, 1.0, rater_id, key)

    def resolved(self, yes: bool, *, rater_id: str = "", key: str | None = None) -> pb.Outcome:  # noqa: FBT001 - the fact itself
        """Say whether a person's problem was solved."""
        return self._human(pb.HUMAN_PROVENANCE_RESOLVED, float(yes), rater_id, key)

    def judge(self, score: float, *, version: str = "", key: str | None = None) -> pb.Outcome:
        """Say what the judge scored, in [0, 1], and which judge it was; a new one makes older evidence worth less."""
        outcome = self._value(pb.SIGNAL_JUDGE, _share("judge score", score), key)
        outcome.judge_version = version
        return outcome

    def judge_absent(self, reason: str, *, key: str | None = None) -> pb.Outcome:
        """Say that no score will come: NOT_APPLICABLE, TIMEOUT, UNPARSABLE or ERROR. That is never a zero."""
        return self.absent("JUDGE", reason, key=key)

    def task_success(self, share: float, *, key: str | None = None) -> pb.Outcome:
        """Say how far the verifier found the task done, in [0, 1]."""
        return self._value(pb.SIGNAL_TASK_SUCCESS, _share("task success", share), key)

    def safety_clean(self, *, key: str | None = None) -> pb.Outcome:
        """Say that the guardrails looked and found nothing; without it an episode is not learned from."""
        return self._value(pb.SIGNAL_SAFETY, 1.0, key)

    def safety_tripped(self, reason: str, *, key: str | None = None) -> pb.Outcome:
        """Say which hard rule was broken, e.g. GUARDRAIL_PII; it vetoes the episode for good."""
        outcome = self._value(pb.SIGNAL_SAFETY, 0.0, key)
        outcome.veto_reason = pb.VetoReason.ValueType(_number(pb.VetoReason.DESCRIPTOR, "VETO_REASON_", reason))
        return outcome

    def cost(self, usd: float, *, key: str | None = None) -> pb.Outcome:
        """Say what the episode cost, US dollars, 0 or more."""
        return self._value(pb.SIGNAL_COST, _amount("cost_usd", usd), key)

    def latency(self, ms: float, *, key: str | None = None) -> pb.Outcome:
        """Say how long the episode took, milliseconds, 0 or more."""
        return self._value(pb.SIGNAL_LATENCY, _amount("latency_ms", ms), key)

    def absent(self, signal: str, reason: str, *, key: str | None = None) -> pb.Outcome:
        """Say that a signal (HUMAN, JUDGE, TASK_SUCCESS, SAFETY, COST, LATENCY) will not come, and why."""
        number = pb.Signal.ValueType(_number(pb.Signal.DESCRIPTOR, "SIGNAL_", signal))
        outcome = self._about(number, key)
        outcome.absent = pb.AbsentReason.ValueType(_number(pb.AbsentReason.DESCRIPTOR, "ABSENT_REASON_", reason))
        return outcome

    def _human(
        self, provenance: pb.HumanProvenance.ValueType, value: float, rater_id: str, key: str | None
    ) -> pb.Outcome:
        outcome = self._value(pb.SIGNAL_HUMAN, value, key)
        outcome.provenance = provenance
        outcome.rater_id = rater_id
        return outcome

    def _value(self, signal: pb.Signal.ValueType, value: float, key: str | None) -> pb.Outcome:
        outcome = self._about(signal, key)
        outcome.value = value
        return outcome

    def _about(self, signal: pb.Signal.ValueType, key: str | None) -> pb.Outcome:
        handle = self.handle
        observed_time = Timestamp()
        observed_time.FromDatetime(self.now())
        outcome = pb.Outcome(
            idempotency_key=checked_id("key", self.new_id() if key is None else key),
            signal=signal,
            served_action_key=handle.served_action_key,
            observed_time=observed_time,
        )
        if handle.token:
            outcome.decision_token = handle.token
        elif handle.decision:
            outcome.decision = handle.decision
        else:
            outcome.episode.policy = handle.policy
            outcome.episode.episode_id = handle.episode_id
        return outcome


def _share(field: str, value: float) -> float:
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{field} must be in [0, 1], got {value!r}")
    return float(value)


def _amount(field: str, value: float) -> float:
    if not (math.isfinite(value) and value >= 0.0):
        raise ValueError(f"{field} must be finite and 0 or more, got {value!r}")
    return float(value)


def _number(enum: EnumDescriptor, prefix: str, name: str) -> int:
    """Look up a name without its prefix; the wire's own list is the only one.

    >>> _number(pb.AbsentReason.DESCRIPTOR, "ABSENT_REASON_", "TIMEOUT")
    2
    """
    value = enum.values_by_name.get(prefix + name)
    if value is None or value.number == 0:
        known = ", ".join(each.name.removeprefix(prefix) for each in enum.values if each.number)
        raise ValueError(f"{enum.name} {name!r} is unknown; one of {known}")
    return value.number
