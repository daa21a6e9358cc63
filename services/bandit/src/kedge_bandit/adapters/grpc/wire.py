"""Map decisions, outcomes and episodes between the wire and the domain. Policies are mapped in `wire_policy`."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from google.protobuf.timestamp_pb2 import Timestamp

from kedge.bandit.v1 import decision_pb2, decision_service_pb2, episode_pb2, outcome_pb2, policy_pb2
from kedge_bandit.application.ports import EpisodeRecord
from kedge_bandit.application.record import OutcomeReport, rater_hash
from kedge_bandit.domain.context import Context
from kedge_bandit.domain.decision import Decision, Reason
from kedge_bandit.domain.dimension import Action, Dimension
from kedge_bandit.domain.errors import InvalidValue, KedgeError
from kedge_bandit.domain.identifiers import EpisodeId, TenantId, parse_decision, parse_policy
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.outcome import AbsentReason, Outcome, Provenance, SignalKind, VetoReason
from kedge_bandit.domain.published import Allocation

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_K = TypeVar("_K", bound=int)
_T = TypeVar("_T")

MODE = {mode: policy_pb2.Mode.Value(f"MODE_{mode}") for mode in Mode}
REASON = {reason: decision_pb2.DecisionReason.Value(f"DECISION_REASON_{reason}") for reason in Reason}
_SIGNAL = {outcome_pb2.Signal.Value(f"SIGNAL_{signal}"): signal for signal in SignalKind}
_ABSENT = {outcome_pb2.AbsentReason.Value(f"ABSENT_REASON_{reason}"): reason for reason in AbsentReason}
_PROVENANCE = {outcome_pb2.HumanProvenance.Value(f"HUMAN_PROVENANCE_{p}"): p for p in Provenance}
_VETO = {outcome_pb2.VetoReason.Value(f"VETO_REASON_{reason}"): reason for reason in VetoReason}
_DIMENSION_FIELD = {
    Dimension.MODEL_ROUTE: "model_route",
    Dimension.REASONING_DEPTH: "reasoning_depth",
    Dimension.PROMPT_VARIANT: "prompt_variant",
}


def closed_reason(closed: Reason | None) -> decision_pb2.DecisionReason.ValueType:
    """Put on the wire why the baseline alone is published; unspecified where it is not."""
    return decision_pb2.DECISION_REASON_UNSPECIFIED if closed is None else REASON[closed]


def timestamp(time: datetime) -> Timestamp:
    """Put an aware time on the wire."""
    stamp = Timestamp()
    stamp.FromDatetime(time)
    return stamp


def moment(stamp: Timestamp, *, field: str) -> datetime:
    """Read a time. Raises InvalidValue outside the years 1 to 9999."""
    try:
        return _EPOCH + timedelta(seconds=stamp.seconds, microseconds=stamp.nanos // 1000)
    except OverflowError as error:
        raise InvalidValue(field, "outside the years 1 to 9999", "a timestamp in range") from error


def context_of(message: decision_pb2.Context) -> Context:
    """Read a context; checked against the policy by the domain."""
    categories, numbers = message.categories, message.numbers
    return Context({name: categories[name] for name in categories}, {name: numbers[name] for name in numbers})


def action_message(action: Action) -> policy_pb2.Action:
    """Put an action on the wire, one arm per dimension used."""
    message = policy_pb2.Action()
    for arm in action.arms:
        reference = getattr(message, _DIMENSION_FIELD[arm.dimension])
        reference.name = arm.name
        reference.content_hash = arm.content_hash
    return message


def distribution(actions: Sequence[str], vector: Sequence[float]) -> list[decision_pb2.ActionPropensity]:
    """Put a distribution on the wire, in canonical order."""
    return [decision_pb2.ActionPropensity(action_key=key, propensity=p) for key, p in zip(actions, vector, strict=True)]


def outcome_report(message: outcome_pb2.Outcome, *, tenant: TenantId, source: str) -> OutcomeReport | KedgeError:
    """Read one outcome of a batch; one that cannot be read comes back as its error, so that the others go on."""
    try:
        return _outcome_report(message, tenant, source)
    except KedgeError as error:
        return error


def _outcome_report(message: outcome_pb2.Outcome, tenant: TenantId, source: str) -> OutcomeReport:
    signal = _known(_SIGNAL, message.signal, "signal")
    target = message.WhichOneof("target")
    token, decision_id, policy, episode_id = b"", None, None, None
    if target == "decision_token":
        token = message.decision_token
    elif target == "decision":
        named, decision_id = parse_decision(message.decision)
        _same_tenant(named, tenant)
    elif target == "episode":
        named, policy = parse_policy(message.episode.policy)
        _same_tenant(named, tenant)
        episode_id = EpisodeId(message.episode.episode_id)
    if not message.HasField("observed_time"):
        raise InvalidValue("observed_time", "missing", "the time at which the fact was observed")
    return OutcomeReport(
        outcome=_outcome(message, signal, tenant, source),
        token=token,
        decision_id=decision_id,
        policy=policy,
        episode_id=episode_id,
        served_action=message.served_action_key,
    )


def _outcome(message: outcome_pb2.Outcome, signal: SignalKind, tenant: TenantId, source: str) -> Outcome:
    observation = message.WhichOneof("observation")
    absent = observation == "absent"
    provenance = _known(_PROVENANCE, message.provenance, "provenance") if message.provenance else None
    edited = provenance is Provenance.EDITED and not absent
    value = message.value if observation == "value" else None
    return Outcome(
        key=message.idempotency_key,
        signal=signal,
        source=source,
        observed_time=moment(message.observed_time, field="observed_time"),
        value=None if edited else value,
        absent=_known(_ABSENT, message.absent, "absent") if absent else None,
        provenance=provenance,
        edit_distance=value if edited else None,
        rater_hash=rater_hash(tenant, message.rater_id) if message.rater_id else None,
        veto_reason=_known(_VETO, message.veto_reason, "veto_reason") if message.veto_reason else None,
        judge_version=message.judge_version or None,
    )


def _known(table: Mapping[_K, _T], number: _K, field: str) -> _T:
    found = table.get(number)
    if found is None:
        raise InvalidValue(field, f"{number}, which this server does not know", f"one of the {field} values of the API")
    return found


def _same_tenant(named: TenantId, tenant: TenantId) -> None:
    if named != tenant:
        raise InvalidValue("a resource name", "of another tenant", "names of the tenant in `parent` only")


def decision_message(
    decision: Decision, *, action: policy_pb2.Action | None, actions: Sequence[str] = (), vector: Sequence[float] = ()
) -> decision_pb2.Decision:
    """Put a decision's full record on the wire; the distribution where it is given."""
    message = decision_pb2.Decision(
        name=f"tenants/{decision.tenant}/decisions/{decision.decision_id}",
        policy=f"tenants/{decision.tenant}/policies/{decision.policy}",
        episode_id=decision.episode_id,
        request_id=decision.request_id,
        decision_time=timestamp(decision.time),
        context_known=decision.context is not None,
        bucket=decision.bucket,
        action=action,
        action_key=decision.action,
        propensity=decision.propensity,
        distribution=distribution(actions, vector),
        policy_version=decision.policy_version,
        allocation_version=decision.allocation_version,
        seed_epoch=decision.seed_epoch,
        mode=MODE[decision.mode],
        reason=REASON[decision.reason],
        is_randomised=decision.is_randomised,
        judge_requested=decision.judge_requested,
        judge_rate=decision.judge_rate,
        superseded=decision.superseded,
        shadow_action_key=decision.shadow_action or "",
        available_action_keys=decision.available or (),
        is_local=decision.is_local,
        set_aside=decision.set_aside or "",
    )
    if decision.context is not None:
        message.context.categories.update(decision.context.categories)
        message.context.numbers.update(decision.context.numbers)
    return message


def allocation_message(allocation: Allocation) -> decision_service_pb2.Allocation:
    """Put a published allocation on the wire."""
    return decision_service_pb2.Allocation(
        bucket=allocation.bucket,
        allocation_version=allocation.version,
        policy_version=allocation.policy_version,
        seed_epoch=allocation.seed_epoch,
        as_of=allocation.as_of,
        action_keys=allocation.actions,
        probability_best=allocation.q,
        propensities=allocation.p,
        means=allocation.mean,
        eligible=allocation.eligible,
        publish_time=timestamp(allocation.publish_time),
        closed_reason=closed_reason(allocation.closed),
        exploitation_floor=allocation.floor,
        uniform_slice=allocation.uniform_slice,
        caps=allocation.caps or (),
        baseline_index=allocation.baseline,
    )


def episode_message(tenant: TenantId, record: EpisodeRecord) -> episode_pb2.Episode:
    """Put an episode with its present verdict on the wire."""
    message = episode_pb2.Episode(
        policy=f"tenants/{tenant}/policies/{record.policy}",
        episode_id=record.episode_id,
        decision=f"tenants/{tenant}/decisions/{record.decision_id}" if record.decision_id else "",
        state=episode_pb2.EpisodeState.Value(f"EPISODE_STATE_{record.state}"),
        weight=record.weight,
        weight_reason=record.weight_reason,
        veto_reasons=[outcome_pb2.VetoReason.Value(f"VETO_REASON_{reason}") for reason in record.veto_reasons],
        reward_version=record.reward_version,
        components=[episode_pb2.RewardComponent(component=name, value=v) for name, v in record.components.items()],
        signals=record.signals,
        open_time=timestamp(record.open_time),
        action_key=record.action,
    )
    if record.reward is not None:
        message.reward = record.reward
    if record.settle_time is not None:
        message.settle_time.FromDatetime(record.settle_time)
    return message
