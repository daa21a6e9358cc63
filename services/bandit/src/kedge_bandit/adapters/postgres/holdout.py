"""Open one tenant's holdout for one transaction, as the gate's login, with a way into the tenant's own record."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from kedge_bandit.adapters.postgres import control_tables, tables
from kedge_bandit.adapters.postgres.divergence import PostgresDivergences
from kedge_bandit.adapters.postgres.holdout_cases import PostgresCases
from kedge_bandit.adapters.postgres.holdout_ledger import PostgresAnswerers, PostgresPeekLedger
from kedge_bandit.adapters.postgres.ledger import PostgresLedger, schema_of
from kedge_bandit.adapters.postgres.tenants import enter, transaction
from kedge_bandit.domain.divergence_check import DivergenceCheck
from kedge_bandit.domain.errors import TenantDenied
from kedge_bandit.domain.holdout import Reserved, is_reserved
from kedge_bandit.domain.identifiers import PolicyName, TenantId

_D: Final = tables.decision.c
_K: Final = tables.decision_key.c
_OPEN: Final = control_tables.proposal_open.c
_DUE: Final = control_tables.divergence_due.c
_PAGE: Final = 2_000
"""Episodes that are looked through at once for reserved ones, of which one in twenty is."""


class PostgresHoldout:
    """One tenant's holdout, open for one transaction."""

    def __init__(self, tenant: TenantId, connection: AsyncConnection) -> None:
        self._tenant, self._connection = tenant, connection
        self.cases = PostgresCases(tenant, connection)
        self.ledger = PostgresPeekLedger(tenant, connection)
        self.answerers = PostgresAnswerers(tenant, connection)

    @asynccontextmanager
    async def tenant(self) -> AsyncIterator[PostgresLedger]:
        """Go on under the tenant's role for a while. Raises TenantDenied where it was erased meanwhile."""
        ledger = await enter(self._connection, self._tenant)
        yield ledger
        await self._connection.execute(select(func.set_config("role", "none", True)))

    async def add_check(self, check: DivergenceCheck) -> None:
        """Add a divergence check to the tenant's record."""
        await PostgresDivergences(self._connection).add(check)

    async def reserved(self, policy: PolicyName, *, after: str, limit: int) -> Sequence[Reserved]:
        """Read reserved episodes by id."""
        found: list[Reserved] = []
        async with self.tenant():
            while len(found) < limit:
                asked = select(tables.decision_key).where(_K.policy == policy, _K.episode_id > after)
                keys = (await self._connection.execute(asked.order_by(_K.episode_id).limit(_PAGE))).all()
                ids = [key.decision_id for key in keys if is_reserved(self._tenant, policy, key.episode_id)]
                found += await self._decided(ids)
                if len(keys) < _PAGE:
                    break
                after = keys[-1].episode_id
        return found[:limit]

    async def _decided(self, ids: Sequence[str]) -> list[Reserved]:
        """Read what was known at some decisions, by episode; a context may be gone with its month."""
        asked = select(_D.episode_id, _D.bucket, _D.decision_time, _D.context).where(_D.decision_id.in_(ids))
        rows = (await self._connection.execute(asked.order_by(_D.episode_id))).all()
        contexts = [row.context or {} for row in rows]
        return [
            Reserved(
                row.episode_id, row.bucket, row.decision_time, known.get("categories", {}), known.get("numbers", {})
            )
            for row, known in zip(rows, contexts, strict=True)
        ]


class PostgresHoldouts:
    """Open holdouts over the gate's engine."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    @asynccontextmanager
    async def open(self, tenant: TenantId) -> AsyncIterator[PostgresHoldout]:
        """Open a tenant's holdout; commits on a clean exit, else rolls back.

        Raises:
            TenantDenied: there is no such tenant.
            StoreUnavailable: the database cannot be reached.
        """
        async with transaction(self._engine) as connection:
            known = select(control_tables.control_tenant.c.name).where(control_tables.control_tenant.c.name == tenant)
            if (await connection.execute(known)).one_or_none() is None:
                raise TenantDenied
            await connection.execution_options(schema_translate_map={tables.TENANT: schema_of(tenant)})
            await connection.execute(select(func.set_config("kedge.tenant", tenant, True)))
            yield PostgresHoldout(tenant, connection)

    async def all(self) -> Sequence[tuple[TenantId, PolicyName]]:
        """Name every policy that has a holdout; one short transaction a tenant."""
        async with transaction(self._engine) as connection:
            names = [row.name for row in await connection.execute(select(control_tables.control_tenant.c.name))]
        found: list[tuple[TenantId, PolicyName]] = []
        for name in names:
            async with self.open(TenantId(name)) as record:
                found += [(TenantId(name), policy) for policy in await record.cases.policies()]
        return found

    async def waiting(self) -> Sequence[tuple[TenantId, str]]:
        """Name the proposals of all tenants that the gate is to run."""
        asked = select(_OPEN.tenant, _OPEN.proposal_id).where(_OPEN.state == "GATE_RUNNING").order_by(_OPEN.tenant)
        async with transaction(self._engine) as connection:
            return [(TenantId(row.tenant), row.proposal_id) for row in await connection.execute(asked)]

    async def due(self, at: datetime) -> Sequence[tuple[TenantId, PolicyName]]:
        """Name the policies of all tenants at whose divergence the gate is to look."""
        asked = select(_DUE.tenant, _DUE.policy).where(_DUE.due_time <= at).order_by(_DUE.due_time)
        async with transaction(self._engine) as connection:
            return [(TenantId(row.tenant), PolicyName(row.policy)) for row in await connection.execute(asked)]
