"""Keep the incidents of one tenant; every change goes in with its audit event."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Row, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from kedge_bandit.adapters.postgres import tables
from kedge_bandit.adapters.postgres.audit import PostgresAuditLog
from kedge_bandit.domain.audit import AuditEvent
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.incident import Incident, IncidentNotFound, IncidentState, name_of, opened

_ROW = tables.incident.c
_MOVED: Final = ("state", "owner", "cause", "close_time")
"""Columns that a step changes; the tenant's role can change no other."""


class PostgresIncidents:
    """The incidents of the open ledger."""

    def __init__(self, tenant: TenantId, connection: AsyncConnection) -> None:
        self._tenant = tenant
        self._connection = connection
        self._audit = PostgresAuditLog(tenant, connection)

    async def open(self, incident: Incident, change: Change) -> Incident:
        """Store a new one with its event; gives it with its number."""
        added = insert(tables.incident).values(_values(incident)).returning(_ROW.incident_id)
        stored = replace(incident, number=(await self._connection.execute(added)).scalar_one())
        await self._audit.append(opened(stored, change))
        return stored

    async def get(self, number: int) -> Incident:
        """Read one, and keep others from changing it."""
        wanted = select(tables.incident).where(_ROW.incident_id == number).with_for_update()
        found = (await self._connection.execute(wanted)).one_or_none()
        if found is None:
            raise IncidentNotFound(name_of(self._tenant, number))
        return _incident(found)

    async def list(self, *, before: int | None, limit: int) -> Sequence[Incident]:
        """Read incidents newest first, those before a number."""
        wanted = select(tables.incident).order_by(_ROW.incident_id.desc()).limit(limit)
        if before is not None:
            wanted = wanted.where(_ROW.incident_id < before)
        return [_incident(row) for row in await self._connection.execute(wanted)]

    async def that_froze(self, policy: PolicyName, since: datetime) -> Sequence[Incident]:
        """Read incidents that froze a policy since a time, and those that did before and are open."""
        relevant = or_(_ROW.state == IncidentState.OPEN.value, _ROW.open_time >= since)
        wanted = select(tables.incident).where(_ROW.policy == policy, _ROW.froze, relevant)
        return [_incident(row) for row in await self._connection.execute(wanted.order_by(_ROW.incident_id))]

    async def put(self, incident: Incident, event: AuditEvent) -> None:
        """Store what became of one, with its event."""
        moved = {name: value for name, value in _values(incident).items() if name in _MOVED}
        await self._connection.execute(update(tables.incident).where(_ROW.incident_id == incident.number).values(moved))
        await self._audit.append(event)


def _values(incident: Incident) -> dict[str, object]:
    return {
        "policy": incident.policy,
        "detector": incident.detector,
        "state": incident.state.value,
        "owner": incident.owner,
        "cause": incident.cause,
        "statistic": incident.statistic,
        "evidence": incident.evidence,
        "open_time": incident.open_time,
        "close_time": incident.close_time,
        "froze": incident.froze,
    }


def _incident(row: Row[Any]) -> Incident:
    return Incident(
        number=row.incident_id,
        policy=PolicyName(row.policy),
        detector=row.detector,
        state=IncidentState(row.state),
        owner=row.owner,
        cause=row.cause,
        statistic=row.statistic,
        evidence=row.evidence,
        open_time=row.open_time,
        close_time=row.close_time,
        froze=row.froze,
    )
