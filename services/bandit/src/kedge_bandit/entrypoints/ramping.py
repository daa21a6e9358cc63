"""Look at detectors and ramps of all tenants, now and every half minute; one tenant that fails stops no other."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

import psycopg
import structlog
from sqlalchemy.exc import DBAPIError

from kedge_bandit.application.step_ramps import StepRamps
from kedge_bandit.application.watch_blind import WatchBlind
from kedge_bandit.application.watch_detectors import WatchDetectors
from kedge_bandit.domain.errors import KedgeError, TenantDenied
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.entrypoints.worker_metrics import WorkerMetrics

RAMP_SECONDS = 30.0

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Ramping:
    """Take the looks and the steps that are due.

    Attributes:
        tenants: reads every tenant's name.
        seconds: between two looks at every tenant.
    """

    watch: WatchDetectors
    blind: WatchBlind
    step: StepRamps
    tenants: Callable[[], Awaitable[Iterable[TenantId]]]
    metrics: WorkerMetrics
    seconds: float = RAMP_SECONDS

    async def run(self) -> None:
        """Go on for ever."""
        while True:
            try:
                names = list(await self.tenants())
            except (KedgeError, DBAPIError, OSError) as error:
                log.warning("tenants.not_read", error=type(error).__name__)
                names = []
            for tenant in names:
                await self.look(tenant)
            await asyncio.sleep(self.seconds)

    async def look(self, tenant: TenantId) -> None:
        """Take the looks and the steps of one tenant."""
        try:
            await self.watch(tenant)
            await self.blind(tenant)
            done = await self.step(tenant)
        except TenantDenied:
            return  # it was erased meanwhile
        except Exception as error:
            expected = isinstance(error, KedgeError | DBAPIError | psycopg.Error | OSError)
            facts = {"tenant": tenant, "error": type(error).__name__}
            log.warning("ramps.not_looked_at", **facts, exc_info=None if expected else error)
            return
        for policy, steps in done.items():
            for step in steps:
                self.metrics.ramp_moved(tenant, policy, step)
