"""Keep a replica's plain view of tenants, policies, modes and allocations: told by NOTIFY, made sure by a poll.

A NOTIFY is a hint and may be lost; the poll every second is the guarantee, and it alone renews the lease (5 s). Without
it the view is stale, and `Decide` answers the baseline.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import psycopg
import structlog
from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from kedge_bandit.adapters.postgres import tables
from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.application.ports import Serving
from kedge_bandit.domain.api_key import StoredKey
from kedge_bandit.domain.errors import KedgeError, PolicyNotFound, StoreUnavailable, TenantDenied
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.mode import Mode, most_restrictive
from kedge_bandit.domain.principal import Role
from kedge_bandit.domain.published import Allocation

LEASE_SECONDS = 5.0
POLL_SECONDS = 1.0
RETRY_SECONDS = 0.2
CHANNEL = "kedge_serving"

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class DatabaseClock:
    """The local clock corrected by its measured offset to the database's."""

    offset: timedelta = timedelta()

    def measure(self, before: datetime, there: datetime, after: datetime) -> None:
        """Take in one reading: the database's clock stood at `there` at some moment between `before` and `after`.

        An offset that the reading does not contradict stays, so a slow answer does not shake the clock.
        """
        if not before <= there - self.offset <= after:
            self.offset = there - (before + (after - before) / 2)

    def now(self) -> datetime:
        """Read the database's time, aware UTC."""
        return datetime.now(UTC) + self.offset


@dataclass(slots=True)
class ReplicaSnapshot:
    """What this replica serves from.

    Attributes:
        override: a mode of a policy from outside the database; it can only restrict.
        keys_changed: called with all live keys at every refresh.
    """

    engine: AsyncEngine
    ledgers: PostgresLedgers
    listen: Callable[[], Awaitable[psycopg.AsyncConnection[tuple[Any, ...]]]]
    clock: DatabaseClock
    override: Callable[[TenantId, PolicyName], Mode]
    keys_changed: Callable[[list[StoredKey]], None]
    _everything: Mode = Mode.APPLY
    _tenants: dict[TenantId, dict[PolicyName, Serving]] = field(default_factory=dict)
    _refreshed: float = float("-inf")
    _dirty: set[str] = field(default_factory=set)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def serving(self, tenant: TenantId, policy: PolicyName) -> Serving:
        """Read a policy."""
        policies = self._tenants.get(tenant)
        if policies is None:
            raise TenantDenied
        found = policies.get(policy)
        if found is None:
            raise PolicyNotFound(policy)
        return found

    @property
    def stale(self) -> bool:
        """Whether no poll has succeeded within the lease; a NOTIFY renews one tenant, not the whole view."""
        return monotonic() - self._refreshed > LEASE_SECONDS

    @property
    def age_seconds(self) -> float:
        """Seconds since the last refresh that succeeded."""
        return monotonic() - self._refreshed

    @property
    def policies(self) -> Mapping[TenantId, Mapping[PolicyName, Serving]]:
        """Everything known, for metrics."""
        return self._tenants

    async def run(self) -> None:
        """Refresh for ever; a database that is gone is tried again, and the view ages meanwhile."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen())
            group.create_task(self._refresh_loop())

    async def _listen(self) -> None:
        while True:
            try:
                async with await self.listen() as connection:
                    await connection.execute(f"LISTEN {CHANNEL}")
                    self.wake()
                    async for notice in connection.notifies():
                        self.wake(notice.payload)
            except (psycopg.Error, OSError) as error:
                log.warning("listen.lost", error=type(error).__name__)
                await asyncio.sleep(POLL_SECONDS)

    def wake(self, tenant: str | None = None) -> None:
        """Note news of a tenant, or that some of any tenant may have been missed."""
        if tenant is None:
            self._dirty.update(self._tenants)
        else:
            self._dirty.add(tenant)
        self._wake.set()

    async def _refresh_loop(self) -> None:
        polled = float("-inf")
        while True:
            try:
                if monotonic() - polled >= POLL_SECONDS:
                    polled = monotonic()
                    await self.refresh()
                else:
                    await self._reload_dirty()
            except (KedgeError, DBAPIError, OSError) as error:
                log.warning("snapshot.not_refreshed", error=type(error).__name__)
                await asyncio.sleep(RETRY_SECONDS)
            self._wake.clear()
            if self._dirty:
                continue
            try:
                async with asyncio.timeout(max(0.01, polled + POLL_SECONDS - monotonic())):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def refresh(self) -> None:
        """Read clock, keys, tenants and everything of every tenant anew."""
        async with self.engine.connect() as connection:
            before = datetime.now(UTC)
            now = (await connection.execute(select(func.clock_timestamp()))).scalar_one()
            self.clock.measure(before, now, datetime.now(UTC))
            row = tables.api_key.c
            keys = await connection.execute(
                select(row.key_id, row.key_hash, row.principal, row.role, row.tenant).where(row.revoke_time.is_(None))
            )
            self.keys_changed(
                [
                    StoredKey(
                        key_id=found.key_id,
                        key_hash=found.key_hash,
                        principal=found.principal,
                        role=Role(found.role),
                        tenant=None if found.tenant is None else TenantId(found.tenant),
                    )
                    for found in keys
                ]
            )
            names = [
                TenantId(name) for name in (await connection.execute(select(tables.control_tenant.c.name))).scalars()
            ]
        for gone in set(self._tenants) - set(names):
            del self._tenants[gone]
        self._dirty.update(names)
        await self._reload_dirty()
        self._refreshed = monotonic()

    async def _reload_dirty(self) -> None:
        if self._dirty:
            self._everything = await self._global_mode()
        while self._dirty:
            tenant = TenantId(self._dirty.pop())
            try:
                await self._reload(tenant)
            except StoreUnavailable:
                self._dirty.add(tenant)
                raise
            except TenantDenied:
                self._tenants.pop(tenant, None)

    async def _global_mode(self) -> Mode:
        row = tables.global_mode_change.c
        async with self.engine.connect() as connection:
            newest = select(row.mode).order_by(row.change_id.desc()).limit(1)
            found = (await connection.execute(newest)).scalar_one_or_none()
        return Mode.APPLY if found is None else Mode(found)

    async def _reload(self, tenant: TenantId) -> None:
        known = self._tenants.get(tenant, {})
        async with self.ledgers.open(tenant) as ledger:
            shared = (self._everything, await ledger.policies.tenant_mode())
            fresh: dict[PolicyName, Serving] = {}
            for policy in await ledger.policies.list():
                before = known.get(policy.name)
                allocations = {} if before is None else before.allocations
                after = max((a.version for a in allocations.values()), default=0)
                newer = await ledger.decisions.newest_allocations(policy.name, after=after)
                merged: dict[str, Allocation] = (
                    {**allocations, **{a.bucket: a for a in newer}} if newer else allocations
                )
                mode = most_restrictive((*shared, policy.mode, self.override(tenant, policy.name)))
                fresh[policy.name] = Serving(policy, mode, merged)
        self._tenants[tenant] = fresh
