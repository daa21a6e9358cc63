"""Wire the gate by hand: its own login, its own callers, the holdout's service, and the rounds that run queries."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import structlog
from google.protobuf.descriptor import ServiceDescriptor
from prometheus_client import REGISTRY, CollectorRegistry
from sqlalchemy.ext.asyncio import AsyncEngine

from kedge.bandit.v1 import holdout_service_pb2
from kedge_bandit.adapters.grpc.credentials import Keyring
from kedge_bandit.adapters.grpc.holdout import HoldoutServicer
from kedge_bandit.adapters.holdout.connect import LOOPBACK, Connections
from kedge_bandit.adapters.identity.proof import KeptKeys
from kedge_bandit.adapters.postgres.callers import CallersView
from kedge_bandit.adapters.postgres.holdout import PostgresHoldouts
from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.adapters.postgres.serving_reads import ServingReads
from kedge_bandit.adapters.postgres.snapshot import DatabaseClock
from kedge_bandit.application.ask_sensor import AskSensor
from kedge_bandit.application.keep_holdout import ImportCases, RecordTraining, RotateHoldout
from kedge_bandit.application.put_answerer import PutAnswerer
from kedge_bandit.application.read_divergence import ReadDivergence
from kedge_bandit.application.read_holdout import GetAnswerer, GetHoldout, OpenCases, ProposeCases
from kedge_bandit.application.run_gate import RunGate
from kedge_bandit.application.watch_divergence import WatchDivergence
from kedge_bandit.domain.errors import KedgeError
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.peek import MAX_QUERIES
from kedge_bandit.entrypoints.connections import engine_of
from kedge_bandit.entrypoints.divergence_metrics import DivergenceMetrics
from kedge_bandit.entrypoints.doors import callers_of, keyring_of
from kedge_bandit.entrypoints.gate_metrics import GateMetrics
from kedge_bandit.entrypoints.gate_watching import Watching
from kedge_bandit.entrypoints.settings import Profile, Settings

LOOK_SECONDS: Final = 1.0
"""Between two looks for proposals that wait, and for keys that changed."""
MEASURE_SECONDS: Final = 300.0
"""Between two measurements of all holdouts."""
MOST_RUNNING: Final = 4
"""Queries that one process runs at once, each of another tenant."""

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Gate:
    """The gate process: what it serves, and its rounds."""

    engine: AsyncEngine
    holdouts: PostgresHoldouts
    reads: ServingReads
    keyring: Keyring
    callers: CallersView
    issuer_keys: KeptKeys | None
    clock: DatabaseClock
    run_gate: RunGate
    get_holdout: GetHoldout
    metrics: GateMetrics
    watching: Watching
    servicers: tuple[tuple[ServiceDescriptor, object], ...]
    _running: dict[TenantId, "asyncio.Task[None]"] = field(default_factory=dict)
    _turns: dict[TenantId, int] = field(default_factory=dict)
    _turn: int = 0

    async def keep_view(self) -> None:
        """Keep callers' credentials and the clock true for ever, every second."""
        async with asyncio.TaskGroup() as group:
            group.create_task(_forever(self.refresh, LOOK_SECONDS, "gate.refresh_failed"))
            group.create_task(_forever(self.look, LOOK_SECONDS, "gate.look_failed"))
            group.create_task(_forever(self.measure, MEASURE_SECONDS, "gate.measure_failed"))
            group.create_task(_forever(self.watching.look, LOOK_SECONDS, "gate.watch_failed"))
            group.create_task(_forever(self.watching.measure, MEASURE_SECONDS, "gate.watch_failed"))
            if self.issuer_keys is not None:
                group.create_task(self.issuer_keys.run())

    async def refresh(self) -> None:
        """Read the database's clock, and keys and bindings if they changed."""
        before = time.monotonic()
        now = await self.reads.now()
        self.clock.measure(before, now, time.monotonic())
        await self.callers.bring(await self.reads.keys_version())

    async def look(self) -> None:
        """Start runs of proposals that wait, one a tenant, as far as there is room; tenants take turns."""
        self._running = {tenant: task for tenant, task in self._running.items() if not task.done()}
        waiting = await self.holdouts.waiting()
        for tenant, proposal in sorted(waiting, key=lambda one: self._turns.get(one[0], 0)):
            if tenant not in self._running and len(self._running) < MOST_RUNNING:
                self._turn += 1
                self._turns[tenant] = self._turn
                self._running[tenant] = asyncio.create_task(self._run(tenant, proposal))

    async def measure(self) -> None:
        """State how every holdout stands, for /metrics."""
        now = self.clock.now()
        for tenant, policy in await self.holdouts.all():
            status = await self.get_holdout(tenant, policy)
            if status.version is not None:
                age = (now - status.version.create_time).total_seconds()
                self.metrics.looked(tenant, policy, status, age, MAX_QUERIES - len(status.ledger))

    async def close(self) -> None:
        """End what runs, whose queries are taken for crashed and used, and close the pools."""
        for task in list(self._running.values()):
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)
        await self.watching.close()
        await self.reads.close()
        await self.engine.dispose()

    async def _run(self, tenant: TenantId, proposal: str) -> None:
        began = time.monotonic()
        self.metrics.began()
        try:
            result = await self.run_gate(tenant, proposal)
        except KedgeError as error:
            log.warning("gate.run_refused", tenant=tenant, proposal=proposal, reason=error.reason)
        except Exception as error:  # noqa: BLE001 - a run is a boundary: its query ends as CRASHED, the others go on
            self.metrics.failed(tenant)
            log.error("gate.run_failed", tenant=tenant, proposal=proposal, error=type(error).__name__)
        else:
            if result is not None:
                self.metrics.concluded(tenant, result)
                log.info("gate.concluded", tenant=tenant, proposal=proposal, verdict=result.verdict)
        finally:
            self.metrics.ended(time.monotonic() - began)


async def _forever(do: Callable[[], Awaitable[None]], seconds: float, event: str) -> None:
    while True:
        try:
            await do()
        except Exception as error:  # noqa: BLE001 - the database may be away; the next turn tries again
            log.warning(event, error=type(error).__name__)
        await asyncio.sleep(seconds)


def build_gate(settings: Settings, url: str, registry: CollectorRegistry = REGISTRY) -> Gate:
    """Build the gate over its own login."""
    engine = engine_of(url)
    holdouts, clock = PostgresHoldouts(engine), DatabaseClock()
    folder = settings.data_dir / "gate"
    hosts = {host.strip().lower() for host in settings.gate_hosts.split(",") if host.strip()}
    if settings.profile is Profile.DEMO:
        hosts |= LOOPBACK
    connect = Connections(secrets=folder / "secrets", scripts=folder / "scripts", hosts=hosts)
    keyring, issuer_keys = keyring_of(settings)
    callers = callers_of(ServingReads(engine_of(url, size=2)), keyring)
    get = GetHoldout(holdouts, clock)
    servicer = HoldoutServicer(
        keyring=keyring,
        import_cases=ImportCases(holdouts, connect, clock),
        propose=ProposeCases(holdouts),
        get=get,
        rotate=RotateHoldout(holdouts, clock),
        put_answerer=PutAnswerer(holdouts, connect, clock),
        get_answerer=GetAnswerer(holdouts),
        open_cases=OpenCases(holdouts, clock),
        record_training=RecordTraining(holdouts, clock),
    )
    return Gate(
        engine=engine,
        holdouts=holdouts,
        reads=callers.reads,
        keyring=keyring,
        callers=callers,
        issuer_keys=issuer_keys,
        clock=clock,
        run_gate=RunGate(holdouts=holdouts, connect=connect, clock=clock, randomness=secrets.token_bytes),
        get_holdout=get,
        metrics=GateMetrics(registry),
        watching=_watching(engine, connect, clock, registry),
        servicers=((holdout_service_pb2.DESCRIPTOR.services_by_name["HoldoutService"], servicer),),
    )


def _watching(engine: AsyncEngine, connect: Connections, clock: DatabaseClock, registry: CollectorRegistry) -> Watching:
    holdouts = PostgresHoldouts(engine)
    watch = WatchDivergence(holdouts=holdouts, ask=AskSensor(connect), clock=clock, randomness=secrets.token_bytes)
    read = ReadDivergence(PostgresLedgers(engine))
    return Watching(holdouts=holdouts, watch=watch, read=read, metrics=DivergenceMetrics(registry))
