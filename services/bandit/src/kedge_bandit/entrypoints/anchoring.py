"""Anchor the heads of all audit chains: at start, every hour, and where a freeze or another change was heard of.

It never gives up, and never stops the worker: a head that could not be anchored is logged and counted, and tried again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import structlog
from sqlalchemy.exc import DBAPIError

from kedge_bandit.adapters.anchors import AnchorFile
from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.adapters.postgres.snapshot import EVERYBODY, SERVING_CHANNEL
from kedge_bandit.domain.anchor import Anchor
from kedge_bandit.domain.errors import KedgeError, TenantDenied
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.entrypoints.worker_metrics import WorkerMetrics

ANCHOR_SECONDS = 3600.0
RETRY_SECONDS = 10.0

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Anchoring:
    """Keep the file of anchors up with the chains.

    Attributes:
        folder: data folder with the key and the file.
        tenants: reads every tenant's name.
        connect: opens an autocommit connection that can LISTEN.
        seconds: between two looks at every chain.
    """

    ledgers: PostgresLedgers
    folder: Path
    tenants: Callable[[], Awaitable[Iterable[TenantId]]]
    connect: Callable[[], Awaitable[psycopg.AsyncConnection[tuple[Any, ...]]]]
    metrics: WorkerMetrics
    seconds: float = ANCHOR_SECONDS
    _anchored: dict[TenantId, int] = field(default_factory=dict)

    async def run(self) -> None:
        """Go on for ever."""
        while True:
            try:
                async with await self.connect() as connection:
                    await connection.execute(f"LISTEN {SERVING_CHANNEL}")
                    await self._listen(connection)
            except Exception as error:
                self.metrics.not_anchored()
                expected = isinstance(error, KedgeError | DBAPIError | psycopg.Error | OSError)
                log.error("audit.not_anchored", error=type(error).__name__, exc_info=None if expected else error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _listen(self, connection: psycopg.AsyncConnection[tuple[Any, ...]]) -> None:
        """Anchor every chain once an hour, and those that are named in between."""
        loop = asyncio.get_running_loop()
        while True:
            await self.anchor(await self.tenants())
            due = loop.time() + self.seconds
            while (left := due - loop.time()) > 0:
                notices = connection.notifies(timeout=left, stop_after=1)
                named = {TenantId(name) async for notice in notices for name in notice.payload.split()}
                await self.anchor(await self.tenants() if EVERYBODY in named else named)

    async def anchor(self, tenants: Iterable[TenantId]) -> None:
        """Write the heads of tenants that moved since this process wrote them last."""
        heads = [head for tenant in tenants if (head := await self._head(tenant)) is not None]
        moved = [head for head in heads if self._anchored.get(TenantId(head.tenant)) != head.sequence]
        if not moved:
            return
        await asyncio.to_thread(self._write, moved)
        for head in moved:
            self._anchored[TenantId(head.tenant)] = head.sequence
            self.metrics.anchored(head.tenant, head.sequence)
        log.info("audit.anchored", tenants=len(moved))

    async def _head(self, tenant: TenantId) -> Anchor | None:
        """Read where a chain ends; None where the tenant is gone."""
        try:
            async with self.ledgers.open(tenant) as ledger:
                head = await ledger.audit.head()
        except TenantDenied:
            return None
        return Anchor(tenant=tenant, sequence=head.sequence, row_hash=head.row_hash, time=datetime.now(UTC))

    def _write(self, anchors: list[Anchor]) -> None:
        AnchorFile.open(self.folder).append(anchors)
