"""Map what clients that decide by themselves send and get: the watched vectors, and the decisions that they report."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from google.protobuf.duration_pb2 import Duration

from kedge.bandit.v1 import decision_pb2, decision_service_pb2
from kedge_bandit.adapters.grpc.wire import MODE, REASON, allocation_message, context_of, moment, timestamp
from kedge_bandit.adapters.grpc.wire_policy import policy_message
from kedge_bandit.application.watch import News
from kedge_bandit.domain.decision import Decision
from kedge_bandit.domain.errors import InvalidName, InvalidValue, KedgeError
from kedge_bandit.domain.identifiers import (
    EpisodeId,
    PolicyName,
    TenantId,
    made_at,
    parse_decision,
    parse_policy,
    text_id,
)

MAX_KEYS: Final = 64
MAX_KEY_CHARACTERS: Final = 256

_MODE_OF: Final = {int(number): mode for mode, number in MODE.items()}
_REASON_OF: Final = {int(number): reason for reason, number in REASON.items()}
_MADE_BY: Final = "a UUIDv7 whose time is decision_time"
_ONE_MILLISECOND: Final = 1e-3


def action_keys(keys: Sequence[str]) -> tuple[str, ...]:
    """Bound what is drawn from and signed: no policy has more actions, no action a longer key.

    Raises:
        InvalidValue: there are too many, or one is too long.
    """
    if len(keys) > MAX_KEYS or any(len(key) > MAX_KEY_CHARACTERS or "\0" in key for key in keys):
        limit = f"at most {MAX_KEYS} keys of {MAX_KEY_CHARACTERS} characters"
        raise InvalidValue("available_action_keys", "too many or too long", limit)
    return tuple(keys)


def watch_message(tenant: TenantId, news: News, now: datetime) -> decision_service_pb2.WatchAllocationsResponse:
    """Put news on the wire; arms without their content, which may be long and does not change."""
    message = decision_service_pb2.WatchAllocationsResponse(
        allocations=map(allocation_message, news.allocations),
        effective_mode=MODE[news.mode],
        server_time=timestamp(now),
    )
    if news.policy is not None:
        message.policy.CopyFrom(policy_message(tenant, news.policy))
        for arm in message.policy.arms:
            arm.ClearField("content")
    if news.lease is not None:
        message.lease.CopyFrom(_seconds(news.lease))
    return message


def reported(message: decision_pb2.Decision, tenant: TenantId, policy: PolicyName) -> Decision | KedgeError:
    """Read one decision of a batch; one that cannot be read comes back as its error, so that the others go on."""
    try:
        return _reported(message, tenant, policy)
    except KedgeError as error:
        return error


def _reported(message: decision_pb2.Decision, tenant: TenantId, policy: PolicyName) -> Decision:
    named, decision_id = parse_decision(message.name)
    if named != tenant or (message.policy and parse_policy(message.policy) != (tenant, policy)):
        raise InvalidName("name", message.name, "a decision of the tenant and policy of the request")
    # Its own time to the millisecond: so the same decision has one key in the store, however it is sent.
    time, said = made_at(decision_id), moment(message.decision_time, field="decision_time")
    if decision_id[14] != "7" or not 0 <= (said - time).total_seconds() < _ONE_MILLISECOND:
        raise InvalidName("name", message.name, _MADE_BY)
    if message.mode not in _MODE_OF or message.reason not in _REASON_OF:
        raise InvalidValue("mode or reason", "unknown to this server", "those of the API")
    return Decision(
        decision_id=decision_id,
        tenant=tenant,
        policy=policy,
        episode_id=EpisodeId(text_id(message.episode_id, field="episode_id")),
        request_id=text_id(message.request_id, field="request_id"),
        time=time,
        context=context_of(message.context),
        bucket=message.bucket,
        available=action_keys(message.available_action_keys) or None,
        action=message.action_key,
        propensity=message.propensity,
        policy_version=message.policy_version,
        allocation_version=message.allocation_version,
        seed_epoch=message.seed_epoch,
        mode=_MODE_OF[message.mode],
        reason=_REASON_OF[message.reason],
        is_randomised=message.is_randomised,
        judge_requested=message.judge_requested,
        judge_rate=message.judge_rate,
        shadow_action=message.shadow_action_key or None,
    )


def _seconds(seconds: float) -> Duration:
    duration = Duration()
    duration.FromMicroseconds(round(seconds * 1e6))
    return duration
