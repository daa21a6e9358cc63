"""Read what pages show from the server, many things at once."""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any, Final, TypeVar

from kedge.bandit.v1 import (
    audit_event_pb2,
    governance_service_pb2,
    policy_pb2,
    policy_service_pb2,
    ramp_service_pb2,
    tenant_service_pb2,
)
from kedge_bandit.adapters.console.backend import CallRefused
from kedge_bandit.adapters.console.standing import Standing, stand
from kedge_bandit.adapters.console.visit import Visit
from kedge_bandit.domain.identifiers import TenantId, tenant_id

TENANTS_SHOWN: Final = 25
"""Tenants on one page of an operator's overview: each costs a few calls."""
_PAGE: Final = 1000
_EVENTS_LOOKED_AT: Final = 300
_AT_ONCE: Final = 16
T = TypeVar("T")


async def together(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Wait for many calls, some at once."""
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(call: Awaitable[T]) -> T:
        async with places:
            return await call

    return list(await asyncio.gather(*(one(call) for call in calls)))


async def tenants_of(visit: Visit) -> list[TenantId]:
    """List the tenants that somebody may see, by name."""
    if not visit.session.is_everywhere:
        return sorted(tenant for tenant in visit.session.roles if tenant is not None)
    found: list[TenantId] = []
    request = tenant_service_pb2.ListTenantsRequest(page_size=_PAGE)
    while True:
        page = await visit.call(visit.backend.tenants.ListTenants, request)
        found += [tenant_id(one.name.removeprefix("tenants/")) for one in page.tenants]
        if not page.next_page_token:
            return found
        request.page_token = page.next_page_token


async def mode_of(visit: Visit, name: str, tenant: TenantId | None = None) -> Any:
    """Read the modes of a policy, a tenant or "global"."""
    request = governance_service_pb2.GetModeRequest(name=name)
    return await visit.call(visit.backend.governance.GetMode, request, tenant)


async def policies_of(visit: Visit, tenant: TenantId) -> list[Any]:
    """List a tenant's policies."""
    request = policy_service_pb2.ListPoliciesRequest(parent=f"tenants/{tenant}", page_size=_PAGE)
    return list((await visit.call(visit.backend.policies.ListPolicies, request, tenant)).policies)


async def events_of(visit: Visit, tenant: TenantId, *, size: int, before: str = "") -> Any:
    """Read a page of a tenant's audit events, newest first."""
    request = governance_service_pb2.ListAuditEventsRequest(
        parent=f"tenants/{tenant}", page_size=size, page_token=before
    )
    return await visit.call(visit.backend.governance.ListAuditEvents, request, tenant)


async def newest_events(visit: Visit, tenant: TenantId) -> Any:
    """Read a tenant's newest audit events, once a visit, however many of its policies are asked about."""
    if tenant not in visit.newest:
        visit.newest[tenant] = asyncio.ensure_future(events_of(visit, tenant, size=_EVENTS_LOOKED_AT))
    return await visit.newest[tenant]


async def standings_of(visit: Visit, tenant: TenantId) -> list[Standing]:
    """Read how every policy of a tenant stands."""
    policies = await policies_of(visit, tenant)
    return await together(standing_of(visit, tenant, policy.name) for policy in policies)


async def standing_of(
    visit: Visit, tenant: TenantId, name: str, *, cells: bool = False, metrics: bool = False
) -> Standing:
    """Read how one policy stands, and who brought it there if it does not serve what it learned.

    Args:
        cells: with the belief of each cell.
        metrics: with what each ramp is judged by.
    """
    request = policy_service_pb2.GetPolicyStatusRequest(name=name, without_cells=not cells)
    status, ramps = await asyncio.gather(
        visit.call(visit.backend.policies.GetPolicyStatus, request, tenant),
        _ramps_of(visit, tenant, name, metrics=metrics),
    )
    if status.effective_mode == policy_pb2.MODE_APPLY:
        return stand(status, "", None, ramps)
    decided_by = (await mode_of(visit, name, tenant)).decided_by
    level = {"policy": name, "tenant": f"tenants/{tenant}"}.get(decided_by, "")
    return stand(status, decided_by, await last_change(visit, tenant, level) if level else None, ramps)


async def _ramps_of(visit: Visit, tenant: TenantId, name: str, *, metrics: bool) -> Sequence[ramp_service_pb2.Ramp]:
    """Read a policy's ramps; none where the server has none to tell of."""
    request = ramp_service_pb2.GetRampRequest(name=name, without_metrics=not metrics)
    try:
        return list((await visit.call(visit.backend.ramps.GetRamp, request, tenant)).ramps)
    except CallRefused as error:
        if error.code == "UNIMPLEMENTED":
            return []
        raise


async def last_change(visit: Visit, tenant: TenantId, name: str) -> audit_event_pb2.AuditEvent | None:
    """Find the event that last changed a level's mode, among the newest ones."""
    try:
        page = await newest_events(visit, tenant)
    except CallRefused:
        return None
    return next((event for event in page.events if event.subject == name and _changes_mode(event.verb)), None)


async def incidents_of(visit: Visit, tenant: TenantId) -> list[Any]:
    """List a tenant's incidents that are not closed; none where the server keeps none."""
    request = governance_service_pb2.ListIncidentsRequest(parent=f"tenants/{tenant}", page_size=_PAGE)
    try:
        found = await visit.call(visit.backend.governance.ListIncidents, request, tenant)
    except CallRefused as error:
        if error.code == "UNIMPLEMENTED":
            return []
        raise
    return [one for one in found.incidents if one.state != governance_service_pb2.INCIDENT_STATE_CLOSED]


def _changes_mode(verb: str) -> bool:
    return verb.endswith((".frozen", ".unfrozen", ".mode_set"))


def totals(standings: Sequence[Standing]) -> dict[str, int]:
    """Count what an overview says first: each policy is stopped, held back or free, and in one of them only."""
    return {
        "policies": len(standings),
        "stopped": sum(one.is_stopped for one in standings),
        "held": sum(one.worst is not None and not one.is_stopped for one in standings),
        "free": sum(one.worst is None for one in standings),
        "episodes": sum(one.ended for one in standings),
    }
