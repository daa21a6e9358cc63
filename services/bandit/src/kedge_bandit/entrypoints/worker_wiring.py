"""Wire the worker by hand; it loads nothing of what serves calls."""

from dataclasses import dataclass
from functools import partial

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from kedge_bandit.adapters.flags.watch import FlagWatch
from kedge_bandit.adapters.postgres import control_tables as tables
from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.adapters.postgres.worker_ledger import WorkerLedgers
from kedge_bandit.adapters.webhook_post import new_client
from kedge_bandit.application.attend_proposals import AttendProposals
from kedge_bandit.application.learn import Learn
from kedge_bandit.application.step_ramps import StepRamps
from kedge_bandit.application.watch_blind import WatchBlind
from kedge_bandit.application.watch_detectors import WatchDetectors
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.entrypoints.anchoring import Anchoring
from kedge_bandit.entrypoints.attending import Attending
from kedge_bandit.entrypoints.connections import connector, engine_of
from kedge_bandit.entrypoints.outside_switches import flag_watch, overrides
from kedge_bandit.entrypoints.ramping import Ramping
from kedge_bandit.entrypoints.retention import LocalClock, let_all_months_go
from kedge_bandit.entrypoints.rounds import Rounds
from kedge_bandit.entrypoints.settings import Settings
from kedge_bandit.entrypoints.telling import Telling
from kedge_bandit.entrypoints.webhook_hosts import allowed_of
from kedge_bandit.entrypoints.worker_metrics import WorkerMetrics


@dataclass(slots=True)
class Worker:
    """One worker: what it runs, and the pool it runs on."""

    engine: AsyncEngine
    passes: WorkerLedgers
    rounds: Rounds
    flags: FlagWatch | None
    anchoring: Anchoring
    ramping: Ramping
    attending: Attending
    telling: Telling


def build_worker(settings: Settings, url: str) -> Worker:
    """Build what a worker process runs; it opens its first connection when it runs."""
    engine = engine_of(url, size=2)
    ledgers = PostgresLedgers(engine)
    tenants = partial(_tenants, engine)
    metrics = WorkerMetrics()
    flags = flag_watch(settings, metrics.registry)
    override = overrides(settings, flags)
    passes = WorkerLedgers(engine.execution_options(isolation_level="AUTOCOMMIT"))
    learn = Learn(ledgers=passes, batch=settings.worker_batch, override=override)
    rounds = Rounds(
        learn=learn,
        tenants=tenants,
        connect=connector(url),
        metrics=metrics,
        interval=settings.worker_interval_ms / 1000.0,
        retain=partial(let_all_months_go, engine),
    )
    anchoring = Anchoring(
        ledgers=ledgers, folder=settings.data_dir, tenants=tenants, connect=connector(url), metrics=metrics
    )
    ramping = Ramping(
        watch=WatchDetectors(ledgers, LocalClock(), override),
        blind=WatchBlind(ledgers, LocalClock()),
        step=StepRamps(ledgers, override),
        tenants=tenants,
        metrics=metrics,
    )
    attending = Attending(engine=engine, attend=AttendProposals(ledgers, LocalClock()), metrics=metrics)
    telling = Telling(
        engine=engine_of(url, size=2),
        client=new_client(),
        allowed=allowed_of(settings),
        tenants=tenants,
        connect=connector(url),
        told=metrics.told,
    )
    return Worker(engine, passes, rounds, flags, anchoring, ramping, attending, telling)


async def _tenants(engine: AsyncEngine) -> list[TenantId]:
    """Read every tenant's name."""
    async with engine.connect() as connection:
        row = tables.control_tenant.c
        return [TenantId(name) for name in (await connection.execute(select(row.name))).scalars()]
