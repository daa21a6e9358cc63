"""Make the divergence checks that are due, of all tenants; one policy's failure does not stop the others."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

import structlog

from kedge_bandit.adapters.postgres.holdout import PostgresHoldouts
from kedge_bandit.application.read_divergence import ReadDivergence
from kedge_bandit.application.watch_divergence import WatchDivergence
from kedge_bandit.application.watch_if_answered import watch_if_answered
from kedge_bandit.domain.errors import KedgeError
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.entrypoints.divergence_metrics import DivergenceMetrics

MOST_CHECKING: Final = 4
"""Checks that one process makes at once, of as many tenants: one whose answerer hangs holds up its own alone."""

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Watching:
    """The gate's rounds over policies that are watched."""

    holdouts: PostgresHoldouts
    watch: WatchDivergence
    read: ReadDivergence
    metrics: DivergenceMetrics
    _running: dict[TenantId, "asyncio.Task[None]"] = field(default_factory=dict)

    async def look(self) -> None:
        """Start the checks that are due, the longest due first, as far as there is room."""
        self._running = {tenant: task for tenant, task in self._running.items() if not task.done()}
        for tenant, policy in await self.holdouts.due(self.watch.clock.now()):
            if tenant not in self._running and len(self._running) < MOST_CHECKING:
                self._running[tenant] = asyncio.create_task(self._check(tenant, policy))

    async def measure(self) -> None:
        """Begin to watch what can be watched, and state how every policy stands, for /metrics."""
        for tenant, policy in await self.holdouts.all():
            try:
                async with self.holdouts.open(tenant) as record:
                    await watch_if_answered(record, policy, self.watch.clock.now())
                await self._state(tenant, policy)
            except KedgeError as error:  # erased meanwhile, for one
                log.warning("divergence.not_stated", tenant=tenant, policy=policy, reason=error.reason)

    async def close(self) -> None:
        """End what runs; another process makes it once the lease is over."""
        for task in list(self._running.values()):
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _check(self, tenant: TenantId, policy: PolicyName) -> None:
        try:
            check = await self.watch(tenant, policy)
            if check is not None:
                self.metrics.checked(tenant, check.outcome)
                await self._state(tenant, policy)
        except KedgeError as error:
            log.warning("divergence.not_checked", tenant=tenant, policy=policy, reason=error.reason)
        except Exception as error:  # noqa: BLE001 - a check is a boundary: it is tried again, the others go on
            log.error("divergence.check_failed", tenant=tenant, policy=policy, error=type(error).__name__)

    async def _state(self, tenant: TenantId, policy: PolicyName) -> None:
        standing = await self.read(tenant, policy, before=None, limit=1)
        if standing.watch is not None:
            self.metrics.stands(tenant, policy, standing)
