"""Map status, modes, tenants and audit events between the wire and the domain."""

import hashlib
from typing import Final

from google.protobuf.message import Message

from kedge.bandit.v1 import (
    audit_event_pb2,
    governance_service_pb2,
    policy_pb2,
    policy_service_pb2,
    tenant_service_pb2,
)
from kedge_bandit.adapters.grpc.wire import MODE, closed_reason, timestamp
from kedge_bandit.adapters.grpc.wire_policy import policy_message, self_check_message
from kedge_bandit.application.administration_ports import ActionTotals, CellSums, Tenant, WriteId
from kedge_bandit.application.govern import Order
from kedge_bandit.application.report_status import PolicyStatus
from kedge_bandit.domain.audit import Actor, ChainedEvent
from kedge_bandit.domain.errors import InvalidValue, ReasonRequired
from kedge_bandit.domain.identifiers import TenantId, text_id
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.principal import Role
from kedge_bandit.domain.switch import QuarantineChoice

DEFAULT_PAGE: Final = 100
MAX_PAGE: Final = 1000

_MODE_OF: Final[dict[int, Mode]] = {int(number): mode for mode, number in MODE.items()}
ROLE: Final[dict[Role, tenant_service_pb2.Role.ValueType]] = {
    role: tenant_service_pb2.Role.Value(f"ROLE_{role}") for role in Role if role is not Role.OPERATOR
}
_ROLE_OF: Final[dict[int, Role]] = {int(number): role for role, number in ROLE.items()}
_QUARANTINE_OF: Final[dict[int, QuarantineChoice]] = {
    int(governance_service_pb2.QuarantineChoice.Value(f"QUARANTINE_CHOICE_{choice}")): choice
    for choice in QuarantineChoice
}


# From the wire ------------------------------------------------------------------------------------------------------


def order_of(actor: Actor, verb: str, request: Message, *, because: str, request_id: str = "") -> Order:
    """Read who asks for a change and why; the request's id stands for verb and content.

    Raises:
        InvalidName: the request id is over 128 characters or holds a zero character.
        ReasonRequired: the reason holds a zero character.
    """
    if "\0" in because:
        raise ReasonRequired("say why, in 1 to 1,000 characters without a zero character")
    if not request_id:
        return Order(actor, because)
    content = request.SerializeToString(deterministic=True)
    payload_hash = hashlib.sha256(verb.encode() + b"\0" + content).hexdigest()
    return Order(actor, because, WriteId(text_id(request_id, field="request_id"), payload_hash))


def mode_of(number: int) -> Mode:
    """Read a mode. Raises InvalidValue."""
    found = _MODE_OF.get(number)
    if found is None:
        raise InvalidValue("mode", str(number), "APPLY, OBSERVE, FROZEN or BYPASS")
    return found


def role_of(number: int) -> Role:
    """Read a role in a tenant. Raises InvalidValue."""
    found = _ROLE_OF.get(number)
    if found is None:
        raise InvalidValue("role", str(number), "one of the roles in a tenant, such as CORE_APP")
    return found


def quarantine_of(number: int) -> QuarantineChoice:
    """Read what becomes of quarantined evidence; unset keeps it, which can be changed later. Raises InvalidValue."""
    if number == governance_service_pb2.QUARANTINE_CHOICE_UNSPECIFIED:
        return QuarantineChoice.KEEP
    found = _QUARANTINE_OF.get(number)
    if found is None:
        raise InvalidValue("quarantine", str(number), "REPLAY, KEEP or DROP")
    return found


def page_size_of(asked: int) -> int:
    """Read a page size; 0 is the default of 100.

    >>> page_size_of(0), page_size_of(5000)
    (100, 1000)

    Raises:
        InvalidValue: it is negative.
    """
    if asked < 0:
        raise InvalidValue("page_size", str(asked), f"1 to {MAX_PAGE}, or 0 for {DEFAULT_PAGE}")
    return min(asked or DEFAULT_PAGE, MAX_PAGE)


def sequence_of(page_token: str) -> int | None:
    """Read the sequence that a page of audit events ended at; None for the first page. Raises InvalidValue."""
    if not page_token:
        return None
    if not page_token.isascii() or not page_token.isdecimal() or len(page_token) > 18:
        raise InvalidValue("page_token", repr(page_token[:40]), "the next_page_token of the page before")
    return int(page_token)


# Onto the wire ------------------------------------------------------------------------------------------------------


def status_message(tenant: TenantId, status: PolicyStatus) -> policy_service_pb2.GetPolicyStatusResponse:
    """Put a policy's status on the wire."""
    learned = status.learned
    message = policy_service_pb2.GetPolicyStatusResponse(
        policy=policy_message(tenant, status.policy),
        effective_mode=MODE[status.effective_mode],
        allocation_version=learned.allocation_version,
        actions=[_action_message(action) for action in learned.actions],
        cells=[_cell_message(cell) for cell in learned.cells],
        self_check=self_check_message(learned.self_check),
        closed_reason=closed_reason(learned.closed),
        episode_counts=learned.episode_counts,
        warnings=status.warnings,
        learning_held=learned.learning_held,
        backlog=learned.backlog,
        effective_episodes_per_cell=status.effective_episodes or 0.0,
    )
    if learned.usage is not None:
        message.non_baseline_decisions = learned.usage.decided
        message.non_baseline_cost_usd = learned.usage.cost_usd
    if learned.capped_until is not None:
        message.capped_until.FromDatetime(learned.capped_until)
    if learned.publish_time is not None:
        message.publish_time.FromDatetime(learned.publish_time)
    return message


def audit_event_message(event: ChainedEvent) -> audit_event_pb2.AuditEvent:
    """Put an audit event on the wire."""
    return audit_event_pb2.AuditEvent(
        sequence=event.sequence,
        event_time=timestamp(event.time),
        actor=event.actor,
        verb=event.verb,
        subject=event.subject,
        because=event.because,
        payload_json=event.payload,
        payload_hash=event.payload_hash,
        previous_hash=event.previous_hash,
        row_hash=event.row_hash,
    )


def tenant_message(tenant: Tenant) -> tenant_service_pb2.Tenant:
    """Put a tenant on the wire."""
    return tenant_service_pb2.Tenant(
        name=f"tenants/{tenant.name}",
        store_content=tenant.settings.store_content,
        durable=tenant.settings.durable,
        decisions_per_second=tenant.settings.decisions_per_second,
        rows_per_second=tenant.settings.rows_per_second,
        retention_days=tenant.settings.retention_days,
        create_time=timestamp(tenant.create_time),
    )


def _action_message(action: ActionTotals) -> policy_pb2.ActionStatus:
    return policy_pb2.ActionStatus(
        action_key=action.action_key,
        episodes=action.episodes,
        mean_reward=action.reward_sum / action.episodes if action.episodes else 0.0,
        veto_episodes=action.veto_episodes,
        vetoes=action.vetoes,
        probability_over_cap=action.over_cap,
        eligible=not action.is_ineligible,
    )


def _cell_message(cell: CellSums) -> policy_pb2.Cell:
    return policy_pb2.Cell(
        bucket=cell.bucket,
        action_key=cell.action_key,
        weight=cell.n,
        reward_sum=cell.s,
        reward_square_sum=cell.s2,
        as_of=cell.as_of,
    )
