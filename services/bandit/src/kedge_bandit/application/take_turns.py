"""Let reports that read much of a log take turns, so that decisions of the same process are answered meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from kedge_bandit.domain.identifiers import TenantId

AT_ONCE: Final = 2
"""Such reports that a process computes at a time, each of another tenant: one may take some 100 MB."""
MOST_READ: Final = 500_000
"""Decisions that one report reads, those included that do not count."""
_BETWEEN: Final = 100

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TakeTurns:
    """Turns of one process: one at a time for each tenant, so that whoever asks often waits for itself alone."""

    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    tenants: WeakValueDictionary[TenantId, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    @asynccontextmanager
    async def turn(self, tenant: TenantId) -> AsyncIterator[None]:
        """Wait for a tenant's turn, before anything is opened; it ends with the block."""
        own = self.tenants.setdefault(tenant, asyncio.Lock())
        async with own, self.places:
            yield


async def giving_way(rows: AsyncIterator[T]) -> AsyncIterator[T]:
    """Hand rows on, and let others go first after every hundred: a page of them arrives at once."""
    read = 0
    async for row in rows:
        yield row
        read += 1
        if read % _BETWEEN == 0:
            await asyncio.sleep(0)
