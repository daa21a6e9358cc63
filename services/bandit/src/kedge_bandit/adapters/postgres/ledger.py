"""Open one tenant's record for exactly one transaction. Nobody else begins, commits or names a schema."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from kedge_bandit.adapters.postgres.audit import PostgresAuditLog
from kedge_bandit.adapters.postgres.browsing import PostgresBrowsing
from kedge_bandit.adapters.postgres.decisions import PostgresDecisions
from kedge_bandit.adapters.postgres.detectors import PostgresDetectors
from kedge_bandit.adapters.postgres.divergence import PostgresDivergences
from kedge_bandit.adapters.postgres.experiments import PostgresExperiments
from kedge_bandit.adapters.postgres.governance import PostgresPolicies
from kedge_bandit.adapters.postgres.incidents import PostgresIncidents
from kedge_bandit.adapters.postgres.learned_memory import LearnedMemory
from kedge_bandit.adapters.postgres.learning import PostgresLearning
from kedge_bandit.adapters.postgres.proposal_notes import PostgresProposalNotes
from kedge_bandit.adapters.postgres.proposals import PostgresProposals
from kedge_bandit.adapters.postgres.ramps import PostgresRamps
from kedge_bandit.adapters.postgres.readiness import PostgresReadiness
from kedge_bandit.adapters.postgres.tables import TENANT
from kedge_bandit.adapters.postgres.tenant_sql import TenantConnection
from kedge_bandit.adapters.postgres.webhooks import PostgresWebhooks
from kedge_bandit.domain.errors import StoreUnavailable, TenantDenied, VersionMismatch
from kedge_bandit.domain.identifiers import TenantId

_OVERTAKEN = ("40P01", "40001")  # deadlock_detected, serialization_failure
_GONE = (OperationalError, InterfaceError, psycopg.OperationalError, psycopg.InterfaceError, OSError, PoolTimeout)
_LEFT_IDLE = select(func.set_config("idle_in_transaction_session_timeout", "60s", True))
"""A reader who stops reading holds a connection and the database's oldest view: not for ever."""
ON_DISK = select(func.pg_logical_emit_message(True, "kedge", ""))
"""Wait for the disk, also for all that was committed without waiting; in a transaction of its own."""
UNKNOWN_TENANT = ("42704", "22023", "42501")  # undefined_object, invalid_parameter_value, insufficient_privilege


def schema_of(tenant: TenantId) -> str:
    """Name the tenant's schema, as control.create_tenant does."""
    return "t_" + tenant.replace("-", "_")


def role_of(tenant: TenantId) -> str:
    """Name the tenant's role, as control.create_tenant does."""
    return "kedge_t_" + tenant.replace("-", "_")


class PostgresLedger:
    """One tenant's record, open for one transaction.

    Args:
        raw: the driver's connection below, where it is known already.
        memory: what a worker remembers between passes.
        everywhere: stamp of the modes of all tenants, for that memory.
    """

    def __init__(
        self,
        tenant: TenantId,
        connection: AsyncConnection,
        *,
        raw: psycopg.AsyncConnection[Any] | None = None,
        memory: LearnedMemory | None = None,
        everywhere: str = "",
    ) -> None:
        self.tenant = tenant
        self.policies = PostgresPolicies(tenant, connection)
        self.audit = PostgresAuditLog(tenant, connection)
        self.decisions = PostgresDecisions(tenant, connection)
        self.browsing = PostgresBrowsing(self.decisions, connection)
        self.ramps = PostgresRamps(tenant, connection)
        self.detectors = PostgresDetectors(connection)
        self.incidents = PostgresIncidents(tenant, connection)
        self.experiments = PostgresExperiments(tenant, connection)
        self.divergence = PostgresDivergences(connection)
        self.webhooks = PostgresWebhooks(tenant, connection)
        self.proposals = PostgresProposals(tenant, connection)
        self.notes = PostgresProposalNotes(tenant, connection)
        place = TenantConnection(connection, schema_of(tenant), raw)
        self.learning = PostgresLearning(tenant, place, memory=memory, everywhere=everywhere)
        self.readiness = PostgresReadiness(tenant, connection, self.learning)


class PostgresLedgers:
    """Open ledgers over one engine."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    @asynccontextmanager
    async def open(self, tenant: TenantId, *, one_view: bool = False) -> AsyncIterator[PostgresLedger]:
        """Open a tenant's ledger under its role; commits on a clean exit, else rolls back.

        Args:
            tenant: whose ledger.
            one_view: see one state of the database throughout (REPEATABLE READ), for long reads.

        Raises:
            TenantDenied: there is no such tenant; the same error as for a foreign one.
            StoreUnavailable: the database cannot be reached.
        """
        try:
            async with self._engine.connect() as connection:
                await connection.execution_options(schema_translate_map={TENANT: schema_of(tenant)})
                if one_view:
                    await connection.execution_options(isolation_level="REPEATABLE READ")
                async with connection.begin():
                    await _take_role(connection, tenant)
                    if one_view:
                        await connection.execute(_LEFT_IDLE)
                    ledger = PostgresLedger(tenant, connection)
                    yield ledger
                if ledger.policies.changed_mode:
                    await connection.execute(ON_DISK)
                    await connection.commit()
        except _GONE as error:
            if _sqlstate(error) in _OVERTAKEN:
                raise Overtaken from error
            raise StoreUnavailable("the database cannot be reached: send the same request again later") from error


class Overtaken(VersionMismatch):
    """Refuse a change that waited for another, which waited for it: nothing of it was made; it may be repeated."""

    def __init__(self) -> None:
        super(VersionMismatch, self).__init__("another change of this tenant came first: repeat the request.")


def _sqlstate(error: Exception) -> str | None:
    found: str | None = getattr(getattr(error, "orig", error), "sqlstate", None)
    return found


async def _take_role(connection: AsyncConnection, tenant: TenantId) -> None:
    """Act as the tenant until the transaction ends. Raises TenantDenied where there is no such tenant."""
    try:
        taken = select(func.set_config("role", role_of(tenant), True), func.to_regnamespace(schema_of(tenant)))
        found = (await connection.execute(taken)).one()
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) in UNKNOWN_TENANT:
            raise TenantDenied from error
        raise
    # A role belongs to the server: one of another database's tenant does not make a tenant here.
    if found[1] is None:
        raise TenantDenied
