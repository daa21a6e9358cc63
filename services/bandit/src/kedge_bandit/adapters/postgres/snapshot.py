"""Keep a replica's plain view of tenants, policies, modes and allocations: told by NOTIFY, made sure by a poll.

A NOTIFY is a hint and may be lost; the poll every second is the guarantee, and it alone renews the lease (5 s). Without
it the view is stale, and `Decide` answers the baseline. Only what changed is read; modes and policies apart from
allocations, so that a freeze never waits for them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import psycopg
import structlog

from kedge_bandit.adapters.postgres.callers import CallersView
from kedge_bandit.adapters.postgres.feed import GONE, RETRY_SECONDS, Feed
from kedge_bandit.adapters.postgres.serving_reads import ModeNotice, ServingReads
from kedge_bandit.application.ports import Serving
from kedge_bandit.domain.errors import PolicyNotFound, TenantDenied
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.mode import Mode, most_restrictive
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.published import Allocation
from kedge_bandit.domain.quota import Quota

LEASE_SECONDS = 5.0
POLL_SECONDS = 1.0
PATIENCE_SECONDS = 10.0
"""For one poll, which takes milliseconds; a connection that is open and carries nothing any more is given up then."""
SERVING_CHANNEL, MODES_CHANNEL, ALLOCATIONS_CHANNEL, KEYS_CHANNEL = CHANNELS = (
    "kedge_serving",
    "kedge_modes",
    "kedge_allocations",
    "kedge_keys",
)
EVERYBODY = "many"

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class DatabaseClock:
    """The database's clock, carried on by this machine's monotonic one, so that a step of the wall clock is not felt.

    Attributes:
        zero: what the database's clock showed when the monotonic one stood at 0; guessed until it is measured.
    """

    zero: datetime = field(default_factory=lambda: datetime.now(UTC) - timedelta(seconds=monotonic()))

    def measure(self, before: float, there: datetime, after: float) -> None:
        """Take in one reading: the database's clock stood at `there` at some moment between two monotonic ones.

        What the reading does not contradict stays, so a slow answer does not shake the clock.
        """
        if not before <= (there - self.zero).total_seconds() <= after:
            self.zero = there - timedelta(seconds=(before + after) / 2)

    def now(self) -> datetime:
        """Read the database's time, aware UTC."""
        return self.zero + timedelta(seconds=monotonic())


@dataclass(slots=True)
class ReplicaSnapshot:
    """What this replica serves from.

    Attributes:
        override: a mode of a policy from outside the database; it can only restrict.
        quotas_read: called with the quotas of all tenants that have one, at every poll.
        callers: kept true beside it.
        changed: called with a tenant whose view changed.
        mode_reached: called with the seconds that a change of mode took from the database to this view.
        patience: seconds for one poll.
    """

    reads: ServingReads
    listen: Callable[[], Awaitable[psycopg.AsyncConnection[tuple[Any, ...]]]]
    clock: DatabaseClock
    override: Callable[[TenantId, PolicyName], Mode]
    callers: CallersView
    mode_reached: Callable[[float], None] = lambda _seconds: None
    changed: Callable[[TenantId], None] = lambda _tenant: None
    quotas_read: Callable[[Mapping[TenantId, Quota]], None] = lambda _quotas: None
    patience: float = PATIENCE_SECONDS
    _everything: Mode = Mode.APPLY
    _tenant_modes: dict[TenantId, Mode] = field(default_factory=dict)
    _announced: dict[TenantId, int] = field(default_factory=dict)
    _durable: set[TenantId] = field(default_factory=set)
    _allocations: dict[TenantId, dict[PolicyName, dict[str, Allocation]]] = field(default_factory=dict)
    _tenants: dict[TenantId, dict[PolicyName, Serving]] = field(default_factory=dict)
    _refreshed: float = float("-inf")
    _modes_version: int = -1
    _shared: asyncio.Lock = field(default_factory=asyncio.Lock)
    _of_policies: Feed = field(init=False)
    _of_allocations: Feed = field(init=False)

    def __post_init__(self) -> None:
        """Set up the two feeds."""
        self._of_policies, self._of_allocations = Feed(self._load_policies), Feed(self._load_allocations)

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
        """Seconds since the last refresh that succeeded began."""
        return monotonic() - self._refreshed

    @property
    def policies(self) -> Mapping[TenantId, Mapping[PolicyName, Serving]]:
        """Everything known, for metrics."""
        return self._tenants

    async def run(self) -> None:
        """Refresh for ever; a database that is gone is tried again, and the view ages meanwhile."""
        try:
            async with asyncio.TaskGroup() as group:
                for task in (self._listen(), self._poll(), self._of_policies.follow(), self._of_allocations.follow()):
                    group.create_task(task)
        finally:
            await self.reads.close()

    async def _listen(self) -> None:
        while True:
            try:
                async with await self.listen() as connection:
                    for channel in CHANNELS:
                        await connection.execute(f"LISTEN {channel}")
                    async for notice in connection.notifies():
                        await self.hear(notice.channel, notice.payload)
            except GONE as error:
                log.warning("listen.lost", error=type(error).__name__)
                await asyncio.sleep(POLL_SECONDS)

    async def hear(self, channel: str, payload: str) -> None:
        """Take in a NOTIFY."""
        if channel == MODES_CHANNEL:
            self._obey(ModeNotice.read(payload))
        elif channel == KEYS_CHANNEL:
            await self.callers.read()
        elif channel == ALLOCATIONS_CHANNEL:
            self._of_allocations.name([TenantId(payload)])
        elif payload == EVERYBODY:
            await self._load_everything()
        else:
            self._of_policies.name([TenantId(payload)])

    async def _poll(self) -> None:
        while True:
            began = monotonic()
            try:
                async with asyncio.timeout(self.patience):
                    await self.refresh()
            except GONE as error:
                log.warning("snapshot.not_refreshed", error=type(error).__name__)
                if isinstance(error, TimeoutError):
                    await self.reads.close()  # what else is in the pool may be as dead
                await asyncio.sleep(RETRY_SECONDS)
            else:
                await asyncio.sleep(max(0.0, began + POLL_SECONDS - monotonic()))

    async def refresh(self) -> None:
        """Find out what changed and read that, so that the view is as new as the beginning of this call."""
        began = monotonic()
        await self._measure_clock()
        there = await self.reads.versions()
        if there.modes != self._modes_version:
            await self._load_everything()
            self._modes_version = there.modes
        await self.callers.bring(there.keys)
        self.quotas_read(there.quotas)
        self._forget(set(self._tenants) - set(there.policies))
        for feed, versions in ((self._of_policies, there.policies), (self._of_allocations, there.allocations)):
            await feed.bring([tenant for tenant, version in versions.items() if feed.known.get(tenant) != version])
        self.look_at_overrides()
        self._refreshed = began

    async def _measure_clock(self) -> None:
        before = monotonic()
        there = await self.reads.now()
        self.clock.measure(before, there, monotonic())

    def _forget(self, gone: Iterable[TenantId]) -> None:
        for tenant in gone:
            for kept in (self._tenants, self._tenant_modes, self._allocations):
                kept.pop(tenant, None)
            self._durable.discard(tenant)
            for feed in (self._of_policies, self._of_allocations):
                feed.known.pop(tenant, None)

    async def _load_everything(self) -> None:
        async with self._shared:
            self._everything, changed = await self.reads.everything_mode()
            for tenant in self._tenants:
                self._compose(tenant, self._policies_of(tenant), changed)

    def _obey(self, notice: ModeNotice) -> None:
        """Change a mode by what NOTIFY says of it, before it can be read; reading it follows."""
        tenant, policy = notice.tenant, notice.policy
        if tenant not in self._tenants:
            return
        self._announced[tenant] = notice.version
        policies = self._policies_of(tenant)
        if policy is None:
            self._tenant_modes[tenant] = notice.mode
        else:
            policies = [replace(each, mode=notice.mode) if each.name == policy else each for each in policies]
        self._compose(tenant, policies, notice.change_time)

    async def _load_policies(self, tenants: Sequence[TenantId]) -> Mapping[TenantId, int]:
        """Read policies and modes. What was read before a mode was announced is left: the next read brings both."""
        read = await self.reads.policies(tenants)
        found = {tenant: news for tenant, news in read.items() if news.version >= self._announced.pop(tenant, 0)}
        for tenant, news in found.items():
            self._tenant_modes[tenant] = news.mode
            (self._durable.add if news.durable else self._durable.discard)(tenant)
            self._compose(tenant, news.policies, news.change_time)
        return {tenant: news.version for tenant, news in found.items()}

    async def _load_allocations(self, tenants: Sequence[TenantId]) -> Mapping[TenantId, int]:
        """Read what is newer than the newest known; of a tenant whose version fell, the database was restored: all."""
        found = await self.reads.allocations({tenant: self._newest(tenant) for tenant in tenants})
        known = self._of_allocations.known
        restored = [tenant for tenant, news in found.items() if news.version < known.get(tenant, 0)]
        if restored:
            for tenant in restored:
                self._allocations.pop(tenant, None)
            found = {**found, **await self.reads.allocations({tenant: {} for tenant in restored})}
        for tenant, news in found.items():
            self._take_in(tenant, news.allocations)
        return {tenant: news.version for tenant, news in found.items()}

    def _newest(self, tenant: TenantId) -> dict[PolicyName, int]:
        of_tenant = self._allocations.get(tenant, {})
        return {name: max(a.version for a in buckets.values()) for name, buckets in of_tenant.items()}

    def _take_in(self, tenant: TenantId, allocations: Iterable[Allocation]) -> None:
        fresh: dict[PolicyName, dict[str, Allocation]] = {}
        for allocation in allocations:
            fresh.setdefault(allocation.policy, {})[allocation.bucket] = allocation
        of_tenant = self._allocations.setdefault(tenant, {})
        for name, buckets in fresh.items():
            of_tenant[name] = {**of_tenant.get(name, {}), **buckets}
        if fresh and tenant in self._tenants:
            self._compose(tenant, self._policies_of(tenant), None)

    def _policies_of(self, tenant: TenantId) -> list[Policy]:
        return [serving.policy for serving in self._tenants[tenant].values()]

    def _compose(self, tenant: TenantId, policies: Iterable[Policy], changed: datetime | None) -> None:
        """Put a tenant's view together; `changed` is when, where the cause is a change of modes or policies."""
        before, allocations = self._tenants.get(tenant, {}), self._allocations.get(tenant, {})
        durable = tenant in self._durable
        fresh = {
            policy.name: Serving(policy, self._effective(tenant, policy), allocations.get(policy.name, {}), durable)
            for policy in policies
        }
        self._tenants[tenant] = fresh
        self.changed(tenant)
        if changed is not None and any(before[n].mode is not fresh[n].mode for n in before.keys() & fresh.keys()):
            self.mode_reached(max(0.0, (self.clock.now() - changed).total_seconds()))

    def _effective(self, tenant: TenantId, policy: Policy) -> Mode:
        shared = (self._everything, self._tenant_modes.get(tenant, Mode.APPLY))
        return most_restrictive((*shared, policy.mode, self.override(tenant, policy.name)))

    def look_at_overrides(self) -> None:
        """Look at the override of every policy, which changes without a word."""
        for tenant, policies in self._tenants.items():
            if any(self._effective(tenant, each.policy) is not each.mode for each in policies.values()):
                self._compose(tenant, self._policies_of(tenant), None)
