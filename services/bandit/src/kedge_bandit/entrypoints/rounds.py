"""Go from tenant to tenant: the ones with new rows first, everybody now and then, a failing one later and later."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import psycopg
import structlog
from sqlalchemy.exc import DBAPIError

from kedge_bandit.adapters.postgres.snapshot import EVERYBODY, SERVING_CHANNEL
from kedge_bandit.adapters.postgres.worker_ledger import LANES, lane_of
from kedge_bandit.application.learn import Learn
from kedge_bandit.domain.errors import KedgeError, StoreUnavailable, TenantDenied
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.entrypoints.worker_metrics import WorkerMetrics

ROWS_CHANNEL = "kedge_rows"
SWEEP_SECONDS = 1.0
SWEEP_TENANTS, SWEEP_ROUND = 16, 15
"""Tenants that one sweep looks at, those not looked at for longest: so many, and more where all would take longer than
so many seconds. NOTIFY is a hint, the sweep is the guarantee; it also finds what falls due."""
ONLY_DECISIONS = "~"
LONGEST_BACKOFF = 30.0
UNBLOCKING_SECONDS = 0.01
"""A transaction that keeps rows from being final is another writer's or another pass, and mostly over in no time."""
PARTITION_SECONDS = 60.0
RETENTION_SECONDS = 3600.0
DIVIDE_NEXT = "SELECT control.divide_next()"
EXTEND_PARTITIONS = "SELECT control.extend_partitions(%s)"

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Place:
    """When a tenant was last looked at, when it may be again, how often in a row that failed or found rows blocked."""

    looked: float = float("-inf")
    not_before: float = float("-inf")
    failures: int = 0
    blocked: int = 0


async def _nothing() -> None:
    """Keep every month."""


@dataclass(slots=True, kw_only=True)
class Rounds:
    """Run passes over tenants, a few at a time and one at a time over each: while one waits, another computes.

    Attributes:
        tenants: reads every tenant's name.
        connect: opens an autocommit connection that can LISTEN.
        interval: least seconds between two passes over a tenant that is not behind.
        retain: lets old months of every tenant go; called once an hour.
    """

    learn: Learn
    tenants: Callable[[], Awaitable[Iterable[TenantId]]]
    connect: Callable[[], Awaitable[psycopg.AsyncConnection[tuple[Any, ...]]]]
    metrics: WorkerMetrics
    interval: float
    retain: Callable[[], Awaitable[None]] = _nothing
    _places: dict[TenantId, _Place] = field(default_factory=dict)
    _waiting: dict[TenantId, None] = field(default_factory=dict)
    _quiet: dict[TenantId, float] = field(default_factory=dict)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, stop: asyncio.Event) -> None:
        """Go round until `stop` is set; the pass that runs then is finished."""
        helpers = [
            asyncio.create_task(task())
            for task in (self._listen, self._sweep, self._extend_partitions, self._let_months_go)
        ]
        stopped = asyncio.create_task(stop.wait())
        stopped.add_done_callback(lambda _task: self._wake.set())
        try:
            async with asyncio.TaskGroup() as lanes:
                for lane in range(LANES):
                    lanes.create_task(self._go_round(lane, stop))
        finally:
            for task in (*helpers, stopped):
                task.cancel()
            await asyncio.gather(*helpers, stopped, return_exceptions=True)

    async def _go_round(self, lane: int, stop: asyncio.Event) -> None:
        while not stop.is_set():
            tenant = self._next(lane)
            if tenant is None:
                await self._sleep(lane, stop)
            else:
                await self._look(tenant)

    def touch(self, names: Iterable[str]) -> None:
        """Note that tenants have news, or decisions only (`~` before the name), which may wait for more."""
        for name in names:
            tenant = TenantId(name.removeprefix(ONLY_DECISIONS))
            if tenant == name:
                self._quiet.pop(tenant, None)
                self._waiting.setdefault(tenant)
            elif tenant not in self._waiting:
                self._quiet.setdefault(tenant, monotonic() + SWEEP_SECONDS)
        self._wake.set()

    def _next(self, lane: int) -> TenantId | None:
        """Take the tenant of a lane that has waited longest of those that may be looked at."""
        now = monotonic()
        for tenant in self._waiting:
            if self._place(tenant).not_before <= now and lane_of(tenant) == lane:
                del self._waiting[tenant]
                return tenant
        return None

    async def _sleep(self, lane: int, stop: asyncio.Event) -> None:
        """Sleep until a tenant that waits may be looked at, or something new is heard."""
        if stop.is_set():
            return
        times = (self._place(tenant).not_before for tenant in self._waiting if lane_of(tenant) == lane)
        soonest = min(times, default=monotonic() + SWEEP_SECONDS)
        self._wake.clear()
        try:
            async with asyncio.timeout(max(0.001, soonest - monotonic())):
                await self._wake.wait()
        except TimeoutError:
            return

    def _place(self, tenant: TenantId) -> _Place:
        return self._places.setdefault(tenant, _Place())

    async def _look(self, tenant: TenantId) -> None:
        place = self._place(tenant)
        place.looked = begin = monotonic()
        try:
            done = await self.learn(tenant)
        except TenantDenied:
            self._places.pop(tenant, None)
            return
        except Exception as error:  # noqa: BLE001 - one tenant's failure must not stop the others
            self._failed(tenant, place, error)
            return
        place.failures = 0
        place.not_before = monotonic() + self.interval
        if done is None:
            return
        self.metrics.passed(tenant, done, monotonic() - begin)
        place.blocked = place.blocked + 1 if done.is_blocked else 0
        if done.is_blocked:
            place.not_before = monotonic() + min(SWEEP_SECONDS, UNBLOCKING_SECONDS * 2.0**place.blocked)
            self.touch([tenant])
        if done.is_truncated:
            place.not_before = monotonic()
            self.touch([tenant])

    def _failed(self, tenant: TenantId, place: _Place, error: Exception) -> None:
        place.failures += 1
        wait = min(LONGEST_BACKOFF, 0.1 * 2.0**place.failures)
        place.not_before = monotonic() + wait
        self.metrics.failed(tenant)
        self.touch([tenant])
        facts = {"tenant": tenant, "error": type(error).__name__, "retry_seconds": wait}
        if isinstance(error, StoreUnavailable | DBAPIError | psycopg.Error | OSError):
            log.warning("pass.failed", **facts, sqlstate=getattr(getattr(error, "orig", None), "sqlstate", None))
        elif isinstance(error, KedgeError):
            log.error("pass.failed", **facts, reason=error.reason)
        else:
            log.error("pass.failed", **facts, exc_info=error)

    async def _listen(self) -> None:
        while True:
            try:
                async with await self.connect() as connection:
                    await connection.execute(f"LISTEN {ROWS_CHANNEL}")
                    await connection.execute(f"LISTEN {SERVING_CHANNEL}")
                    async for notice in connection.notifies():
                        heard = notice.payload.split()
                        self.touch(self._places if EVERYBODY in heard else heard)
            except (psycopg.Error, OSError) as error:
                log.warning("listen.lost", error=type(error).__name__)
                await asyncio.sleep(SWEEP_SECONDS)

    async def _extend_partitions(self) -> None:
        """Divide tables that have grown, and ask for the next month of those that are divided, now and every minute."""
        while True:
            try:
                async with await self.connect() as connection:
                    while divided := (await anext(await connection.execute(DIVIDE_NEXT)))[0]:
                        log.info("table.divided", table=divided)
                    seen: str | None = ""
                    while seen is not None:
                        (seen,) = await anext(await connection.execute(EXTEND_PARTITIONS, [seen]))
            except (psycopg.Error, OSError) as error:
                log.warning("partitions.not_extended", error=type(error).__name__)
            await asyncio.sleep(PARTITION_SECONDS)

    async def _let_months_go(self) -> None:
        """Let months go that are older than their tenants keep them, now and every hour."""
        while True:
            try:
                await self.retain()
            except (DBAPIError, OSError) as error:
                log.warning("tenants.not_read", error=type(error).__name__)
            await asyncio.sleep(RETENTION_SECONDS)

    async def _sweep(self) -> None:
        while True:
            try:
                names = list(await self.tenants())
            except (KedgeError, DBAPIError, OSError) as error:
                log.warning("tenants.not_read", error=type(error).__name__)
            else:
                for gone in set(self._places) - set(names):
                    del self._places[gone]
                    self._waiting.pop(gone, None)
                longest = sorted(names, key=lambda name: self._place(name).looked)
                self.touch(longest[: max(SWEEP_TENANTS, len(names) // SWEEP_ROUND)])
                self.touch([tenant for tenant, due in self._quiet.items() if due <= monotonic()])
            await asyncio.sleep(SWEEP_SECONDS)
