"""Follow one kind of news of tenants: named by NOTIFY, found by the poll, read in batches, one reader at a time."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import psycopg
import structlog
from sqlalchemy.exc import DBAPIError

from kedge_bandit.domain.identifiers import TenantId

RETRY_SECONDS = 0.2
BATCH_TENANTS = 50
"""Tenants that one query reads."""
GONE = (DBAPIError, psycopg.Error, OSError)
"""What is raised where the database cannot be reached."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Feed:
    """What is known of one kind, tenant by tenant, and what NOTIFY named since.

    Attributes:
        load: reads tenants and takes them in; answers the versions they are at least as new as. Runs once at a time.
    """

    load: Callable[[Sequence[TenantId]], Awaitable[Mapping[TenantId, int]]]
    known: dict[TenantId, int] = field(default_factory=dict)
    named: dict[TenantId, None] = field(default_factory=dict)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def name(self, tenants: Iterable[TenantId]) -> None:
        """Note that tenants have news."""
        self.named.update(dict.fromkeys(tenants))
        self.wake.set()

    async def bring(self, tenants: Iterable[TenantId]) -> None:
        """Read tenants in batches; between two of them others may read."""
        waiting = deque(tenants)
        while waiting:
            batch = [waiting.popleft() for _ in range(min(BATCH_TENANTS, len(waiting)))]
            async with self.lock:
                self.known.update(await self.load(batch))

    async def follow(self) -> None:
        """Read what NOTIFY names, for ever. What cannot be read is left to the poll."""
        while True:
            await self.wake.wait()
            self.wake.clear()
            named = list(self.named)
            self.named.clear()
            try:
                await self.bring(named)
            except GONE as error:
                log.warning("snapshot.not_refreshed", error=type(error).__name__)
                await asyncio.sleep(RETRY_SECONDS)
