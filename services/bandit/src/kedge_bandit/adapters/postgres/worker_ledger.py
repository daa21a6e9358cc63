"""Open ledgers for the worker: on a few connections that stay open, with a memory of what it learned.

A pass is short, so what it would spend on a pool, a transaction object and a role is a good part of it: here they are
one message. Everything else about a ledger is as everywhere.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final
from zlib import crc32

import psycopg
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from kedge_bandit.adapters.postgres.learned_memory import LearnedMemory
from kedge_bandit.adapters.postgres.ledger import UNKNOWN_TENANT, PostgresLedger, role_of, schema_of
from kedge_bandit.adapters.postgres.tables import TENANT
from kedge_bandit.adapters.postgres.tenant_sql import run, text
from kedge_bandit.domain.errors import StoreUnavailable, TenantDenied
from kedge_bandit.domain.identifiers import TenantId

LANES: Final = 3
"""Connections on which passes run."""
LIFETIME_SECONDS: Final = 1800.0
"""A connection remembers every schema it has touched; a new one starts small."""

_BEGIN, _COMMIT = text("BEGIN"), text("COMMIT")
_MODES = text("SELECT count(*)::text AS modes FROM control.mode_change")  # rows are only ever added
_ROLE = text("SELECT set_config('role', %(role)s, true), to_regnamespace(%(schema)s) AS found")
_NOBODY: Final = "pg_catalog"


@dataclass(slots=True)
class _Lane:
    """A connection in autocommit mode, on which transactions begin and end by statements."""

    connection: AsyncConnection
    raw: psycopg.AsyncConnection[Any]
    opened: float = field(default_factory=monotonic)


@dataclass(slots=True)
class WorkerLedgers:
    """Open ledgers over an engine, a tenant's always on the same of a few connections.

    A connection keeps close to a megabyte for every tenant that it has touched, so no two should touch the same.

    Attributes:
        engine: its connections are in autocommit mode.
    """

    engine: AsyncEngine
    memory: LearnedMemory = field(default_factory=LearnedMemory)
    _idle: dict[int, _Lane] = field(default_factory=dict)

    @asynccontextmanager
    async def open(self, tenant: TenantId, *, one_view: bool = False) -> AsyncIterator[PostgresLedger]:
        """Open a tenant's ledger under its role; commits on a clean exit, else rolls back and closes the connection.

        Raises:
            TenantDenied: there is no such tenant.
            StoreUnavailable: the database cannot be reached.
        """
        assert not one_view  # noqa: S101 - a pass reads with its lock in hand
        lane = None
        try:
            lane = await self._take(tenant)
            ledger = await self._begin(lane, tenant)
            yield ledger
            await run(lane.raw, _NOBODY, (_COMMIT, {}))
            if lane.connection.in_transaction():
                await lane.connection.commit()
        except BaseException as error:
            if lane is not None:
                await _close(lane)
            if isinstance(error, psycopg.Error | DBAPIError):
                raise _meaning(error) from error
            if isinstance(error, OSError):
                raise StoreUnavailable("the database cannot be reached") from error
            raise
        ledger.learning.committed()
        if (left := self._idle.get(lane_of(tenant))) is not None:
            await _close(left)
        self._idle[lane_of(tenant)] = lane

    async def close(self) -> None:
        """Close every connection."""
        while self._idle:
            await _close(self._idle.popitem()[1])

    async def _take(self, tenant: TenantId) -> _Lane:
        lane = self._idle.pop(lane_of(tenant), None)
        if lane is not None:
            if monotonic() - lane.opened < LIFETIME_SECONDS:
                return lane
            await _close(lane)
        connection = await self.engine.connect()
        raw: Any = (await connection.get_raw_connection()).driver_connection
        return _Lane(connection, raw)

    async def _begin(self, lane: _Lane, tenant: TenantId) -> PostgresLedger:
        schema = schema_of(tenant)
        await lane.connection.execution_options(schema_translate_map={TENANT: schema})
        asked = {"role": role_of(tenant), "schema": schema}
        _, modes, found = await run(lane.raw, schema, (_BEGIN, {}), (_MODES, {}), (_ROLE, asked))
        if found[0].found is None:
            raise TenantDenied
        return PostgresLedger(tenant, lane.connection, raw=lane.raw, memory=self.memory, everywhere=modes[0].modes)


def lane_of(tenant: TenantId) -> int:
    """Name the lane of a tenant, the same in every process: 0 to LANES - 1."""
    return crc32(tenant.encode()) % LANES


async def _close(lane: _Lane) -> None:
    """Close the connection itself: whatever it was in the middle of ends with it."""
    await lane.raw.close()
    await lane.connection.invalidate()
    await lane.connection.close()


def _meaning(error: psycopg.Error | DBAPIError) -> Exception:
    found: Any = error.orig if isinstance(error, DBAPIError) else error
    if getattr(found, "sqlstate", None) in UNKNOWN_TENANT:
        return TenantDenied()
    if isinstance(error, OperationalError | InterfaceError | psycopg.OperationalError | psycopg.InterfaceError):
        return StoreUnavailable("the database cannot be reached: send the same request again later")
    return error
