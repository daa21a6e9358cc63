"""Append to one tenant's hash chain and read it back."""

from collections.abc import Sequence

from sqlalchemy import Select, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from kedge_bandit.adapters.postgres import tables
from kedge_bandit.application.administration_ports import ChainHead
from kedge_bandit.domain.audit import AuditEvent, ChainedEvent, chain
from kedge_bandit.domain.identifiers import TenantId

_EVENT = tables.audit_event.c
_HEAD = tables.audit_head.c
_PAYLOAD = tables.audit_payload.c

# A payload may have been erased; its hash stays in the chain.
_EVENTS = select(
    _EVENT.audit_sequence,
    _EVENT.event_time,
    _EVENT.actor,
    _EVENT.verb,
    _EVENT.subject,
    _EVENT.because,
    _PAYLOAD.payload,
    _EVENT.payload_hash,
    _EVENT.previous_hash,
    _EVENT.row_hash,
).select_from(tables.audit_event.outerjoin(tables.audit_payload, _PAYLOAD.payload_hash == _EVENT.payload_hash))


class PostgresAuditLog:
    """The chain of the open ledger."""

    def __init__(self, tenant: TenantId, connection: AsyncConnection) -> None:
        self._tenant = tenant
        self._connection = connection

    async def append(self, event: AuditEvent) -> None:
        """Add an event at the head; the locked head makes writers wait for each other."""
        head = (await self._connection.execute(select(_HEAD.audit_sequence, _HEAD.row_hash).with_for_update())).one()
        chained = chain(event, sequence=head.audit_sequence + 1, previous_hash=head.row_hash)
        payload = {"payload_hash": chained.payload_hash, "payload": chained.payload}
        await self._connection.execute(upsert(tables.audit_payload).values(payload).on_conflict_do_nothing())
        row = {
            "audit_sequence": chained.sequence,
            "event_time": chained.time,
            "actor": chained.actor,
            "verb": chained.verb,
            "subject": chained.subject,
            "because": chained.because,
            "payload_hash": chained.payload_hash,
            "previous_hash": chained.previous_hash,
            "row_hash": chained.row_hash,
        }
        await self._connection.execute(insert(tables.audit_event).values(row))
        moved = {"audit_sequence": chained.sequence, "row_hash": chained.row_hash}
        await self._connection.execute(update(tables.audit_head).values(moved))

    async def list(self, *, before: int | None, limit: int) -> Sequence[ChainedEvent]:
        """Read events newest first, those before a sequence."""
        wanted = _EVENTS.order_by(_EVENT.audit_sequence.desc()).limit(limit)
        if before is not None:
            wanted = wanted.where(_EVENT.audit_sequence < before)
        return await self._read(wanted)

    async def in_order(self, *, after: int, limit: int) -> Sequence[ChainedEvent]:
        """Read events oldest first, those after a sequence."""
        wanted = _EVENTS.where(_EVENT.audit_sequence > after).order_by(_EVENT.audit_sequence).limit(limit)
        return await self._read(wanted)

    async def head(self) -> ChainHead:
        """Read where the chain ends."""
        found = (await self._connection.execute(select(_HEAD.audit_sequence, _HEAD.row_hash))).one()
        return ChainHead(found.audit_sequence, found.row_hash)

    async def _read(
        self, wanted: Select[tuple[int, object, str, str, str, str, str | None, str, str, str]]
    ) -> Sequence[ChainedEvent]:
        rows = await self._connection.execute(wanted)
        return [
            ChainedEvent(
                sequence=row.audit_sequence,
                time=row.event_time,
                actor=row.actor,
                verb=row.verb,
                subject=row.subject,
                because=row.because,
                payload=row.payload or "",
                payload_hash=row.payload_hash,
                previous_hash=row.previous_hash,
                row_hash=row.row_hash,
            )
            for row in rows
        ]
