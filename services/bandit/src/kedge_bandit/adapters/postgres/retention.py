"""Open a tenant's months: what is due, what was settled in them, and letting one go."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from typing import TypeVar

from sqlalchemy import delete, func, insert, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.sql.functions import Function

from kedge_bandit.adapters.postgres import control_tables, learning_tables
from kedge_bandit.adapters.postgres.ledger import PostgresLedger, role_of
from kedge_bandit.adapters.postgres.tenants import enter, transaction
from kedge_bandit.domain.errors import StoreUnavailable, TenantDenied
from kedge_bandit.domain.evidence_snapshot import Sealed
from kedge_bandit.domain.identifiers import PolicyName, TenantId

_T = TypeVar("_T")
_EVIDENCE = learning_tables.evidence.c


@dataclass(frozen=True, slots=True)
class PostgresMonths:
    """A tenant's months in the open transaction; acts as the tenant but for what needs the owner's rights."""

    tenant: TenantId
    connection: AsyncConnection
    ledger: PostgresLedger

    async def oldest(self) -> date | None:
        """Name the oldest month that is due."""
        found: date | None = await self._as_service(func.control.oldest_month_due(self.tenant))
        return found

    async def last_settled(self, policy: PolicyName, month: date) -> int:
        """Read the last sequence that was settled by the end of a month."""
        end = datetime(month.year + month.month // 12, month.month % 12 + 1, 1, tzinfo=UTC)
        mine = _EVIDENCE.policy == policy
        last = select(func.coalesce(func.max(_EVIDENCE.evidence_sequence), 0)).where(mine, _EVIDENCE.settle_time < end)
        first = select(func.min(_EVIDENCE.evidence_sequence)).where(mine, _EVIDENCE.settle_time >= end)
        through: int = (await self.connection.execute(last)).scalar_one()
        later = (await self.connection.execute(first)).scalar_one()
        if later is not None and later < through:
            raise StoreUnavailable("evidence was settled out of order, since a clock was turned back: keep the month")
        return through

    async def seal(self, policy: PolicyName, sealed: Sealed) -> None:
        """Put a snapshot in place of the earlier one."""
        for table in (learning_tables.evidence_snapshot, learning_tables.evidence_seal):
            await self.connection.execute(delete(table).where(table.c.policy == policy))
        snapshot = sealed.snapshot
        rows = [{"policy": policy, "part": part, **asdict(row)} for part, row in enumerate(snapshot.rows)]
        if rows:
            await self.connection.execute(insert(learning_tables.evidence_snapshot), rows)
        head = {
            "policy": policy,
            "through": snapshot.through,
            "log_end": snapshot.end,
            "key_id": sealed.key_id,
            "signature": sealed.signature,
        }
        await self.connection.execute(insert(learning_tables.evidence_seal).values(head))

    async def drop(self, month: date) -> int:
        """Let a month go."""
        rows: int = await self._as_service(func.control.drop_month(self.tenant, month))
        return rows

    async def _as_service(self, call: Function[_T]) -> _T:
        await self.connection.execute(select(func.set_config("role", "none", True)))
        try:
            found: _T = (await self.connection.execute(select(call))).scalar_one()
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) in ("55P03", "55006"):
                why = str(error.orig).partition("\n")[0]
                raise StoreUnavailable(f"{why}: try again later, nothing is gone") from error
            raise
        await self.connection.execute(select(func.set_config("role", role_of(self.tenant), True)))
        return found


class PostgresRetention:
    """Open months over an engine."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    @asynccontextmanager
    async def open(self, tenant: TenantId) -> AsyncIterator[PostgresMonths]:
        """Open a tenant's months; commits on a clean exit, else rolls back."""
        known = select(control_tables.control_tenant.c.name).where(control_tables.control_tenant.c.name == tenant)
        async with transaction(self._engine) as connection:
            if (await connection.execute(known)).one_or_none() is None:
                raise TenantDenied
            yield PostgresMonths(tenant, connection, await enter(connection, tenant))
