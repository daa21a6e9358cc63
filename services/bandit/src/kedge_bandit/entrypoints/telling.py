"""Tell the webhooks of all tenants: at once where somebody asked for it, and every two seconds where there are some."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import httpx2
import psycopg
import structlog
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.adapters.postgres.webhooks import CHANNEL
from kedge_bandit.adapters.webhook_post import HttpPost
from kedge_bandit.application.tell import TellWebhooks
from kedge_bandit.application.webhooks import Allowed
from kedge_bandit.domain.errors import KedgeError, TenantDenied
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.entrypoints.retention import LocalClock

POLL_SECONDS = 2.0
SEARCH_SECONDS = 60.0
"""How often every tenant is asked whether it has webhooks; NOTIFY says so sooner."""
AT_ONCE = 4

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Telling:
    """Send what is due, a few tenants at once, so that a slow receiver holds up its own tenant only.

    Attributes:
        engine, client: its own; a slow receiver keeps neither learning nor anchoring waiting.
        told: called with a message's state after each attempt.
        tenants: reads every tenant's name.
        connect: opens an autocommit connection that can LISTEN.
    """

    engine: AsyncEngine
    client: httpx2.AsyncClient
    allowed: Allowed
    told: Callable[[str], None]
    tenants: Callable[[], Awaitable[Iterable[TenantId]]]
    connect: Callable[[], Awaitable[psycopg.AsyncConnection[tuple[Any, ...]]]]
    _tell: TellWebhooks = field(init=False)
    _waiting: set[TenantId] = field(default_factory=set)
    _hooked: set[TenantId] = field(default_factory=set)
    _busy: dict[TenantId, "asyncio.Task[None]"] = field(default_factory=dict)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """Put together what tells one tenant."""
        ledgers, post = PostgresLedgers(self.engine), HttpPost(self.client)
        self._tell = TellWebhooks(ledgers, LocalClock(), self.allowed, post, self.told)

    async def close(self) -> None:
        """Close connections to receivers and to the database."""
        await self.client.aclose()
        await self.engine.dispose()

    async def run(self) -> None:
        """Go on for ever."""
        listening = asyncio.create_task(self._listen())
        searched = polled = float("-inf")
        try:
            while True:
                if monotonic() - searched >= SEARCH_SECONDS:
                    self._waiting |= await self._all()
                    searched = monotonic()
                if monotonic() - polled >= POLL_SECONDS:
                    self._waiting |= self._hooked
                    polled = monotonic()
                self._start()
                self._wake.clear()
                try:
                    async with asyncio.timeout(max(0.01, polled + POLL_SECONDS - monotonic())):
                        await self._wake.wait()
                except TimeoutError:
                    continue
        finally:
            for task in (listening, *self._busy.values()):
                task.cancel()
            await asyncio.gather(listening, *self._busy.values(), return_exceptions=True)

    def _start(self) -> None:
        """Look at as many of those that wait as may be looked at at once."""
        for tenant in sorted(self._waiting - self._busy.keys())[: AT_ONCE - len(self._busy)]:
            self._waiting.discard(tenant)
            self._busy[tenant] = asyncio.create_task(self._look(tenant))

    async def _look(self, tenant: TenantId) -> None:
        try:
            has_hooks = await self._tell(tenant)
            (self._hooked.add if has_hooks else self._hooked.discard)(tenant)
        except TenantDenied:
            self._hooked.discard(tenant)  # it was erased meanwhile
        except Exception as error:
            expected = isinstance(error, KedgeError | DBAPIError | psycopg.Error | OSError)
            facts = {"tenant": tenant, "error": type(error).__name__}
            log.warning("webhooks.not_told", **facts, exc_info=None if expected else error)
        finally:
            del self._busy[tenant]
            if self._waiting:
                self._wake.set()

    async def _all(self) -> set[TenantId]:
        try:
            return set(await self.tenants())
        except (KedgeError, DBAPIError, OSError) as error:
            log.warning("tenants.not_read", error=type(error).__name__)
            return set()

    async def _listen(self) -> None:
        while True:
            try:
                async with await self.connect() as connection:
                    await connection.execute(f"LISTEN {CHANNEL}")
                    async for notice in connection.notifies():
                        self._waiting.add(TenantId(notice.payload))
                        self._wake.set()
            except (psycopg.Error, OSError) as error:
                log.warning("listen.lost", error=type(error).__name__)
                await asyncio.sleep(POLL_SECONDS)
