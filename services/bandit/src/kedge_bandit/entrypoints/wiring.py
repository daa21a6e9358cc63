"""Wire what serves calls by hand: every object is made once, here, from the settings."""

import asyncio
import random
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import ServiceDescriptor
from prometheus_client import REGISTRY, CollectorRegistry
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from kedge_bandit.adapters.flags.watch import FlagWatch
from kedge_bandit.adapters.grpc.answers import DecideAnswers
from kedge_bandit.adapters.grpc.credentials import Keyring
from kedge_bandit.adapters.grpc.decisions import DecisionServicer
from kedge_bandit.adapters.grpc.episodes import EpisodeServicer
from kedge_bandit.adapters.grpc.feedback import FeedbackServicer
from kedge_bandit.adapters.grpc.permissions import PACKAGE
from kedge_bandit.adapters.identity.proof import KeptKeys
from kedge_bandit.adapters.postgres import control_tables as tables
from kedge_bandit.adapters.postgres.group_writer import GroupWriter
from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.adapters.postgres.serving_reads import ServingReads
from kedge_bandit.adapters.postgres.snapshot import DatabaseClock, ReplicaSnapshot
from kedge_bandit.adapters.seals import HmacSeals
from kedge_bandit.adapters.telemetry import Served, SnapshotCollector, Telemetry
from kedge_bandit.adapters.tokens import HmacTokens
from kedge_bandit.application.decide import Decide
from kedge_bandit.application.explain import Explain, ReadDecision
from kedge_bandit.application.export import ExportDecisions
from kedge_bandit.application.heed_alert import HeedAlert
from kedge_bandit.application.import_episodes import ImportEpisodes
from kedge_bandit.application.ration import RationedRows, Rations
from kedge_bandit.application.record import RecordEpisode, RecordOutcomes
from kedge_bandit.application.replay import Replay
from kedge_bandit.application.report import ReportDecisions
from kedge_bandit.application.watch import WatchAllocations
from kedge_bandit.entrypoints.administration import administration
from kedge_bandit.entrypoints.connections import connector, engine_of
from kedge_bandit.entrypoints.doors import callers_of, keyring_of
from kedge_bandit.entrypoints.outside_switches import flag_watch, overrides
from kedge_bandit.entrypoints.settings import Settings
from kedge_bandit.entrypoints.webhook_hosts import allowed_of


@dataclass(slots=True)
class Replica:
    """One replica: its servicers, and the background work that keeps them going."""

    engine: AsyncEngine
    exporting: AsyncEngine
    snapshot: ReplicaSnapshot
    writer: GroupWriter
    telemetry: Telemetry
    keyring: Keyring
    issuer_keys: KeptKeys | None
    flags: FlagWatch | None
    watch: WatchAllocations
    rations: Rations
    heed: HeedAlert
    servicers: Sequence[tuple[ServiceDescriptor, object]]

    async def close(self) -> None:
        """Close the pools."""
        await self.engine.dispose()
        await self.exporting.dispose()

    async def keep_view(self) -> None:
        """Keep the view true for ever: what the database, the issuer of tokens and a flag provider say."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.snapshot.run())
            if self.issuer_keys is not None:
                group.create_task(self.issuer_keys.run())
            if self.flags is not None:
                group.create_task(self.flags.run(self.snapshot.look_at_overrides))


async def build_replica(settings: Settings, url: str, registry: CollectorRegistry = REGISTRY) -> Replica:
    """Build what a server process and a web process share. Reads the token keys; everything else comes later."""
    engine = engine_of(url)
    ledgers, exporting = PostgresLedgers(engine), engine_of(url, size=2)
    keys = await _token_keys(engine)
    telemetry = Telemetry(registry)
    keyring, issuer_keys = keyring_of(settings)
    clock, flags = DatabaseClock(), flag_watch(settings, telemetry.registry)
    override = overrides(settings, flags)
    callers = callers_of(ServingReads(engine_of(url, size=2)), keyring)
    snapshot = ReplicaSnapshot(
        reads=callers.reads,
        listen=connector(url),
        clock=clock,
        override=override,
        callers=callers,
        mode_reached=telemetry.mode_reached,
    )
    writer = GroupWriter(connector(url), dropped=telemetry.dropped, committed=telemetry.committed)
    watch = WatchAllocations(snapshot)
    snapshot.changed = watch.changed
    _measure(telemetry, snapshot, writer, watch)
    rations = Rations(monotonic, telemetry.over_quota)
    snapshot.quotas_read = rations.replace
    heed = HeedAlert(ledgers, clock)
    replica = Replica(
        engine, exporting, snapshot, writer, telemetry, keyring, issuer_keys, flags, watch, rations, heed, ()
    )
    replica.servicers = (
        *_hot_path(replica, ledgers, keyring, HmacTokens(keys)),
        *administration(
            engine=engine,
            ledgers=ledgers,
            keyring=keyring,
            clock=clock,
            override=override,
            seals=HmacSeals(keys),
            allowed=allowed_of(settings),
        ),
    )
    return replica


async def _token_keys(engine: AsyncEngine) -> dict[int, bytes]:
    async with engine.connect() as connection:
        return {key.key_id: key.secret for key in await connection.execute(select(tables.token_key))}


def _measure(telemetry: Telemetry, snapshot: ReplicaSnapshot, writer: GroupWriter, watch: WatchAllocations) -> None:
    """State what is served and to whom, for /metrics."""
    telemetry.watched(lambda: watch.connected)
    telemetry.registry.register(
        SnapshotCollector(partial(_served, snapshot), lambda: snapshot.age_seconds, lambda: writer.queued)
    )


def _hot_path(
    replica: Replica, ledgers: PostgresLedgers, keyring: Keyring, tokens: HmacTokens
) -> list[tuple[ServiceDescriptor, object]]:
    """Build the servicers that core applications call."""
    snapshot, telemetry = replica.snapshot, replica.telemetry
    rows = RationedRows(replica.writer, replica.rations)
    record, read = RecordEpisode(snapshot, rows, tokens), ReadDecision(ledgers)
    decisions = DecisionServicer(
        keyring=keyring,
        decide=_decide(replica, ledgers),
        record=record,
        read=read,
        explain=Explain(read),
        replay=Replay(ledgers),
        watch=replica.watch,
        report=ReportDecisions(snapshot, ledgers, rows, snapshot.clock),
        clock=snapshot.clock,
        tokens=tokens,
        ledgers=ledgers,
        browsed=ledgers,
        answers=DecideAnswers(tokens),
        telemetry=telemetry,
    )
    episodes = EpisodeServicer(
        keyring=keyring,
        record=record,
        importer=ImportEpisodes(snapshot, rows),
        export=ExportDecisions(PostgresLedgers(replica.exporting)),
        ledgers=ledgers,
        browsed=ledgers,
        telemetry=telemetry,
    )
    feedback = FeedbackServicer(keyring, RecordOutcomes(snapshot, rows, tokens, snapshot.clock), telemetry)
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
        may_decide=replica.rations.may_decide,
    )


def _served(snapshot: ReplicaSnapshot) -> Iterator[Served]:
    """Give everything that the replica serves."""
    for tenant, policies in snapshot.policies.items():
        for name, serving in policies.items():
            newest = max((allocation.version for allocation in serving.allocations.values()), default=0)
            policy = serving.policy
            yield Served(tenant, name, serving.mode, policy.spec.exploration.floor, policy.version, newest)


def _service(name: str) -> ServiceDescriptor:
    """Find the descriptor of a service of the API."""
    return descriptor_pool.Default().FindServiceByName(f"{PACKAGE}.{name}")
