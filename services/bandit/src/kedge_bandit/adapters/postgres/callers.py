"""Keep what a process knows of its callers' credentials true, and look at once for one that nobody knows."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

import structlog

from kedge_bandit.adapters.postgres.feed import GONE
from kedge_bandit.adapters.postgres.serving_reads import ServingReads
from kedge_bandit.domain.api_key import StoredKey
from kedge_bandit.domain.identity import Binding

PAUSE_SECONDS = 0.1
"""Between two looks: whatever strangers send, the database is asked no oftener."""
PATIENCE_SECONDS = 2.0
"""For one look; whom it was for is refused then."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class CallersView:
    """All live API keys, and what certificates are bound to, read when the database says that they changed.

    Attributes:
        changed: called with both whenever they were read.
    """

    reads: ServingReads
    changed: Callable[[list[StoredKey], list[Binding]], None]
    _version: int = -1
    _began: float = float("-inf")
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _next: "asyncio.Task[bool] | None" = None

    async def bring(self, version: int) -> None:
        """Read them, unless this version has been read."""
        if version != self._version:
            await self.read()
            self._version = version

    async def read(self) -> None:
        """Read them; one read at a time, so that an older one never comes after a newer."""
        async with self._reading:
            self.changed(*await self.reads.credentials())

    async def look(self) -> bool:
        """Wait for a look that begins after this call; False where the database does not answer.

        One look serves all who wait for it: strangers cost one small query each `PAUSE_SECONDS`, however many they are.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._look())
        return await asyncio.shield(self._next)

    async def _look(self) -> bool:
        async with self._looking:
            await asyncio.sleep(self._began + PAUSE_SECONDS - monotonic())
            self._began, self._next = monotonic(), None
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await self.bring(await self.reads.keys_version())
            except GONE as error:
                log.warning("callers.not_read", error=type(error).__name__)
                return False
            return True
