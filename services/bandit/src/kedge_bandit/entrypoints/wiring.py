"""Wire the processes by hand: every object is made once, here, from the settings."""

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import orjson
import psycopg
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import ServiceDescriptor
from prometheus_client import CollectorRegistry
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from kedge_bandit.adapters.flags.override import Overrides
from kedge_bandit.adapters.flags.plugged import client_of, provider_of
from kedge_bandit.adapters.flags.watch import FlagWatch
from kedge_bandit.adapters.grpc.answers import DecideAnswers
from kedge_bandit.adapters.grpc.credentials import Keyring
from kedge_bandit.adapters.grpc.decisions import DecisionServicer
from kedge_bandit.adapters.grpc.episodes import EpisodeServicer
from kedge_bandit.adapters.grpc.feedback import FeedbackServicer
from kedge_bandit.adapters.grpc.permissions import PACKAGE
from kedge_bandit.adapters.postgres import tables
from kedge_bandit.adapters.postgres.group_writer import GroupWriter
from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.adapters.postgres.serving_reads import ServingReads
from kedge_bandit.adapters.postgres.snapshot import DatabaseClock, ReplicaSnapshot
from kedge_bandit.adapters.postgres.worker_ledger import WorkerLedgers
from kedge_bandit.adapters.telemetry import FlagCollector, SnapshotCollector, Telemetry
from kedge_bandit.adapters.tokens import HmacTokens
from kedge_bandit.application.decide import Decide
from kedge_bandit.application.explain import Explain, ReadDecision
from kedge_bandit.application.export import ExportDecisions
from kedge_bandit.application.import_episodes import ImportEpisodes
from kedge_bandit.application.learn import Learn
from kedge_bandit.application.record import RecordEpisode, RecordOutcomes
from kedge_bandit.application.replay import Replay
from kedge_bandit.application.report import ReportDecisions
from kedge_bandit.application.watch import WatchAllocations
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.mode import Mode
from kedge_bandit.entrypoints.administration import administration
from kedge_bandit.entrypoints.rounds import Rounds
from kedge_bandit.entrypoints.settings import Settings
from kedge_bandit.entrypoints.worker_metrics import WorkerMetrics

Connect = Callable[[], Awaitable[psycopg.AsyncConnection[tuple[Any, ...]]]]

# A database that vanished without a word is noticed in about ten seconds, not in the system's two hours.
_CONNECTION: Final[dict[str, Any]] = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}


def engine_of(url: str, *, size: int = 4) -> AsyncEngine:
    """Open a small pool; connections live for half an hour, since each remembers every schema it has touched."""
    return create_async_engine(
        url.replace("postgresql://", "postgresql+psycopg://", 1),
        pool_size=size,
        max_overflow=4,
        pool_recycle=1800,
        json_deserializer=orjson.loads,
        connect_args=_CONNECTION,
    )


def connector(url: str) -> Connect:
    """Make a function that opens an autocommit connection beside the pool."""

    async def connect() -> psycopg.AsyncConnection[tuple[Any, ...]]:
        return await psycopg.AsyncConnection.connect(url, autocommit=True, **_CONNECTION)

    return connect


def flag_watch(settings: Settings, registry: CollectorRegistry) -> FlagWatch | None:
    """Plug the flag provider in that the settings name; None without one. Raises SystemExit for one that cannot be."""
    if not settings.flag_provider:
        return None
    provider = provider_of(settings.flag_provider, settings.flag_provider_token)
    watch = FlagWatch(client_of(provider))
    registry.register(FlagCollector(lambda: watch.silent))
    return watch


def overrides(settings: Settings, flags: FlagWatch | None) -> Overrides:
    """Make what restricts this process from outside the database."""
    return Overrides(environment=settings.mode_override, file=settings.data_dir / "mode_override", flags=flags)


@dataclass(slots=True)
class Replica:
    """One replica: its servicers, and the background work that keeps them going."""

    engine: AsyncEngine
    snapshot: ReplicaSnapshot
    writer: GroupWriter
    telemetry: Telemetry
    keyring: Keyring
    flags: FlagWatch | None
    watch: WatchAllocations
    servicers: Sequence[tuple[ServiceDescriptor, object]]

    async def keep_view(self) -> None:
        """Keep the view true for ever: what the database says, and what a flag provider says."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.snapshot.run())
            if self.flags is not None:
                group.create_task(self.flags.run(self.snapshot.look_at_overrides))


async def build_replica(settings: Settings, url: str) -> Replica:
    """Build what a server process and a web process share. Reads the token keys; everything else comes later."""
    engine = engine_of(url)
    ledgers = PostgresLedgers(engine)
    async with engine.connect() as connection:
        keys = {key.key_id: key.secret for key in await connection.execute(select(tables.token_key))}
    telemetry = Telemetry()
    keyring = Keyring()
    clock = DatabaseClock()
    flags = flag_watch(settings, telemetry.registry)
    override = overrides(settings, flags)
    snapshot = ReplicaSnapshot(
        reads=ServingReads(engine),
        listen=connector(url),
        clock=clock,
        override=override,
        keys_changed=keyring.replace,
        mode_reached=telemetry.mode_reached,
    )
    writer = GroupWriter(connector(url), dropped=telemetry.dropped, committed=telemetry.committed)
    telemetry.registry.register(
        SnapshotCollector(partial(_served, snapshot), lambda: snapshot.age_seconds, lambda: writer.queued)
    )
    watch = WatchAllocations(snapshot)
    snapshot.changed = watch.changed
    telemetry.watched(lambda: watch.connected)
    replica = Replica(engine, snapshot, writer, telemetry, keyring, flags, watch, ())
    replica.servicers = (
        *_hot_path(replica, ledgers, keyring, HmacTokens(keys)),
        *administration(engine=engine, ledgers=ledgers, keyring=keyring, clock=clock, override=override),
    )
    return replica


def _hot_path(
    replica: Replica, ledgers: PostgresLedgers, keyring: Keyring, tokens: HmacTokens
) -> list[tuple[ServiceDescriptor, object]]:
    """Build the servicers that core applications call."""
    snapshot, writer, telemetry = replica.snapshot, replica.writer, replica.telemetry
    record, read = RecordEpisode(snapshot, writer, tokens), ReadDecision(ledgers)
    decisions = DecisionServicer(
        keyring=keyring,
        decide=_decide(replica, ledgers),
        record=record,
        read=read,
        explain=Explain(read),
        replay=Replay(ledgers),
        watch=replica.watch,
        report=ReportDecisions(snapshot, ledgers, writer, snapshot.clock),
        clock=snapshot.clock,
        tokens=tokens,
        ledgers=ledgers,
        answers=DecideAnswers(tokens),
        telemetry=telemetry,
    )
    episodes = EpisodeServicer(
        keyring=keyring,
        record=record,
        importer=ImportEpisodes(snapshot, writer),
        export=ExportDecisions(ledgers),
        ledgers=ledgers,
        telemetry=telemetry,
    )
    feedback = FeedbackServicer(keyring, RecordOutcomes(snapshot, writer, tokens, snapshot.clock), telemetry)
    return [
        (_service("DecisionService"), decisions),
        (_service("EpisodeService"), episodes),
        (_service("FeedbackService"), feedback),
    ]


def _decide(replica: Replica, ledgers: PostgresLedgers) -> Decide:
    """Build what decides."""
    return Decide(
        snapshot=replica.snapshot,
        rows=replica.writer,
        ledgers=ledgers,
        clock=replica.snapshot.clock,
        # Ids need not be unguessable, only unlike those of every other process.
        randomness=partial(random.Random(secrets.randbits(256)).getrandbits, 74),  # noqa: S311
        failed=replica.telemetry.failed,
    )


def _served(snapshot: ReplicaSnapshot) -> Iterator[tuple[str, str, Mode, int]]:
    """Give tenant, policy, effective mode and newest allocation of everything the replica knows."""
    for tenant, policies in snapshot.policies.items():
        for name, serving in policies.items():
            yield tenant, name, serving.mode, max((a.version for a in serving.allocations.values()), default=0)


def _service(name: str) -> ServiceDescriptor:
    """Find the descriptor of a service of the API."""
    return descriptor_pool.Default().FindServiceByName(f"{PACKAGE}.{name}")


@dataclass(slots=True)
class Worker:
    """One worker: what it runs, and the pool it runs on."""

    engine: AsyncEngine
    passes: WorkerLedgers
    rounds: Rounds
    flags: FlagWatch | None


def build_worker(settings: Settings, url: str) -> Worker:
    """Build what a worker process runs; it opens its first connection when it runs."""
    engine = engine_of(url, size=2)

    async def tenants() -> list[TenantId]:
        async with engine.connect() as connection:
            row = tables.control_tenant.c
            return [TenantId(name) for name in (await connection.execute(select(row.name))).scalars()]

    metrics = WorkerMetrics()
    flags = flag_watch(settings, metrics.registry)
    passes = WorkerLedgers(engine.execution_options(isolation_level="AUTOCOMMIT"))
    learn = Learn(ledgers=passes, batch=settings.worker_batch, override=overrides(settings, flags))
    rounds = Rounds(
        learn=learn,
        tenants=tenants,
        connect=connector(url),
        metrics=metrics,
        interval=settings.worker_interval_ms / 1000.0,
    )
    return Worker(engine, passes, rounds, flags)
