"""Watch: give a policy's vectors, mode and a lease to clients that decide in their own process, and all that changes.

What a client may decide by is never older than the lease, however many hands it went through: the lease of a message is
what is left of this replica's own. A client that reads slowly holds its own stream up and nobody else's; what changed
meanwhile comes as one message.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from kedge_bandit.application.ports import Snapshot
from kedge_bandit.domain.errors import StoreUnavailable
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.local_decision import LEASE
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.published import Allocation

HEARTBEAT_SECONDS = 1.0
AT_ONCE = 250
"""Allocations of one message at most; so many of 36 actions are about 1 MB."""


class AgeingSnapshot(Snapshot, Protocol):
    """A snapshot that knows how old it is."""

    @property
    def age_seconds(self) -> float:
        """Seconds since the view was certainly true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What changed since the message before.

    Attributes:
        policy: None where it is as it was.
        lease: seconds for which the receiver may decide by what it has; None while the rest of it follows.
    """

    allocations: Sequence[Allocation]
    policy: Policy | None
    mode: Mode
    lease: float | None


@dataclass(slots=True)
class WatchAllocations:
    """Feed the clients that decide by themselves."""

    snapshot: AgeingSnapshot
    _hearers: defaultdict[TenantId, set[asyncio.Event]] = field(default_factory=lambda: defaultdict(set))
    _is_closing: bool = False

    @property
    def connected(self) -> int:
        """Clients that watch now."""
        return sum(map(len, self._hearers.values()))

    def changed(self, tenant: TenantId) -> None:
        """Hear that a tenant's view changed."""
        for news in self._hearers.get(tenant, ()):
            news.set()

    def close(self) -> None:
        """End every stream, so that its client connects to another replica."""
        self._is_closing = True
        for tenant in self._hearers:
            self.changed(tenant)

    async def __call__(self, tenant: TenantId, policy: PolicyName) -> AsyncIterator[News]:
        """Give everything, then what changes, and at least every second a sign of life.

        Raises:
            TenantDenied, PolicyNotFound: there is no such policy, or no longer.
            StoreUnavailable: this replica's own view is too old to be handed on; another one's may not be.
        """
        sent: dict[str, int] = {}
        seen: dict[str, Allocation] | None = None
        version = -1
        with self._hearing(tenant) as news:
            while not self._is_closing:
                news.clear()
                if self.snapshot.stale:
                    raise StoreUnavailable("this replica lost the database: watch again, at another replica")
                serving = self.snapshot.serving(tenant, policy)
                fresh: list[Allocation] = []
                if serving.allocations is not seen:
                    seen = serving.allocations
                    fresh = [each for each in seen.values() if sent.get(each.bucket) != each.version]
                    sent |= {each.bucket: each.version for each in fresh}
                told = serving.policy if serving.policy.version != version else None
                version = serving.policy.version
                while len(fresh) > AT_ONCE:
                    yield News(allocations=fresh[:AT_ONCE], policy=told, mode=serving.mode, lease=None)
                    fresh, told = fresh[AT_ONCE:], None
                lease = max(0.0, LEASE.total_seconds() - self.snapshot.age_seconds)
                yield News(allocations=fresh, policy=told, mode=serving.mode, lease=lease)
                await _either(news, HEARTBEAT_SECONDS)

    @contextmanager
    def _hearing(self, tenant: TenantId) -> Iterator[asyncio.Event]:
        news = asyncio.Event()
        self._hearers[tenant].add(news)
        try:
            yield news
        finally:
            self._hearers[tenant].discard(news)
            if not self._hearers[tenant]:
                del self._hearers[tenant]


async def _either(news: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await news.wait()
    except TimeoutError:
        return
