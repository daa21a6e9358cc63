"""Break the service's surroundings for real: one function per fault, which breaks something and mends it again.

Each is an async context manager: what is broken inside the body is whole again after it, and what has to come back
comes back by itself.
"""

import asyncio
import json
import os
import secrets
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import grpc
import psycopg
from sqlalchemy import Connection, create_engine, text

from kedge.bandit.v1 import decision_pb2, governance_service_pb2
from kedge_migrations.upgrade import patiently
from tests.fixtures.cut_proxy import CutProxy
from tests.fixtures.own_database import OwnDatabase
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Services, Stack, wait_for
from tests.trust.turns import decide_request

SLOW_SECONDS = 0.15
END_LISTENERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"


@dataclass(frozen=True, slots=True)
class Scene:
    """What can be broken: the database's process and disk, the network to it, the service's processes and clock.

    Attributes:
        disk: where the whole database lies; a small file system of its own where mounting is allowed.
        clock: file with the offset that the server's wall clock is faked by; None without libfaketime.
    """

    stack: Stack
    database: OwnDatabase
    proxy: CutProxy
    disk: Path
    clock: Path | None


Fault = Callable[[Scene], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def database_away(scene: Scene) -> AsyncIterator[None]:
    """kill -9 of the postmaster; it is started again after the body and recovers from its log."""
    os.kill(scene.database.pid, signal.SIGKILL)
    yield
    await asyncio.to_thread(scene.database.start)


@asynccontextmanager
async def disk_full(scene: Scene) -> AsyncIterator[None]:
    """Fill the database's file system to the last byte, then remove what fills it."""
    assert scene.disk.is_mount(), "only a file system of its own may be filled: run as somebody who may mount a tmpfs"
    ballast = scene.disk / "ballast"
    with ballast.open("wb") as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 20))
            file.flush()
    yield
    ballast.unlink()
    if not scene.database.pid:  # it ends itself when it cannot write its log: somebody has to start it
        await asyncio.to_thread(scene.database.start)


@asynccontextmanager
async def connections_cut(scene: Scene) -> AsyncIterator[None]:
    """Reset every connection to the database, ten times a second."""
    cutting = asyncio.create_task(_often(scene.proxy.cut))
    yield
    cutting.cancel()


@asynccontextmanager
async def connections_half_open(scene: Scene) -> AsyncIterator[None]:
    """Let every connection be forgotten by its other end without a word; new ones are fine."""
    scene.proxy.vanish()
    yield


@asynccontextmanager
async def network_stalled(scene: Scene) -> AsyncIterator[None]:
    """Carry nothing over old and new connections, without closing any, then everything that was held up."""
    scene.proxy.stall()
    yield
    scene.proxy.resume()


@asynccontextmanager
async def connections_dead(scene: Scene) -> AsyncIterator[None]:
    """Carry nothing over the connections that are there, for ever; new ones are fine."""
    scene.proxy.stall(new_ones=False)
    yield


@asynccontextmanager
async def answers_lost(scene: Scene) -> AsyncIterator[None]:
    """Carry what the service says to the database and not what that answers, then reset the connections."""
    scene.proxy.swallow_answers()
    yield
    scene.proxy.cut()


@asynccontextmanager
async def database_slow(scene: Scene) -> AsyncIterator[None]:
    """Hold every message up by 150 ms each way."""
    scene.proxy.latency = SLOW_SECONDS
    yield
    scene.proxy.resume()


@asynccontextmanager
async def notify_lost(scene: Scene) -> AsyncIterator[None]:
    """End the connections that listen, and no others, ten times a second."""
    async with await psycopg.AsyncConnection.connect(scene.stack.database_url, autocommit=True) as connection:
        ending = asyncio.create_task(_end_listeners(connection))
        try:
            yield
        finally:
            ending.cancel()
            with suppress(asyncio.CancelledError):
                await ending


async def _end_listeners(connection: psycopg.AsyncConnection[Any]) -> None:
    while True:
        await connection.execute(END_LISTENERS)
        await asyncio.sleep(0.1)


def clock_stepped(offset: str, scene: Scene) -> AbstractAsyncContextManager[None]:
    """Make a fault that steps the server's wall clock, such as `+1h`, and back."""

    @asynccontextmanager
    async def stepped() -> AsyncIterator[None]:
        assert scene.clock is not None, "no libfaketime: apt-get install libfaketime"
        scene.clock.write_text(f"{offset}\n", encoding="ascii")
        yield
        scene.clock.write_text("+0\n", encoding="ascii")

    return stepped()


@asynccontextmanager
async def migration(scene: Scene) -> AsyncIterator[None]:
    """Add a column to every table that is written, by what runs migrations, and drop it."""
    await asyncio.to_thread(_alter, scene.stack.database_url, "ADD COLUMN scratch text NOT NULL DEFAULT ''")
    yield
    await asyncio.to_thread(_alter, scene.stack.database_url, "DROP COLUMN scratch")


def _alter(url: str, change: str) -> None:
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://", 1))
    with engine.connect() as connection:
        schemas = connection.execute(text("SELECT schema_name FROM control.tenant")).scalars().all()
    for schema in schemas:
        patiently(engine, partial(_alter_tenant, schema, change))
    engine.dispose()


def _alter_tenant(schema: str, change: str, connection: Connection) -> None:
    for table in ("decision", "outcome", "episode_event", "evidence", "allocation"):
        connection.execute(text(f'ALTER TABLE "{schema}".{table} {change}'))


@asynccontextmanager
async def worker_stalled(scene: Scene) -> AsyncIterator[None]:
    """Stop the worker where it stands (SIGSTOP), and let it go on."""
    pid = scene.stack.pid("worker")
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def _often(do: Callable[[], object]) -> None:
    while True:
        await asyncio.to_thread(do)
        await asyncio.sleep(0.1)


async def freeze_without_notify(scene: Scene) -> str:
    """Freeze and release a policy of another tenant while no NOTIFY comes; says how long both took to be obeyed."""
    return await asyncio.to_thread(_freeze, scene.stack)


def _freeze(stack: Stack) -> str:
    tenant = "unnotified"
    key = stack.tenant(tenant)
    stack.put_policy(two_models(tenant))
    policy = f"tenants/{tenant}/policies/support"
    with stack.services(key) as services:
        took: list[float] = []
        drawn = decision_pb2.DecisionReason.Value("DECISION_REASON_DRAWN")
        wait_for(partial(_says, services, policy, drawn), f"{policy} to be served")
        for word, change in (("FROZEN", services.governance.Freeze), ("DRAWN", services.governance.Unfreeze)):
            wanted = decision_pb2.DecisionReason.Value(f"DECISION_REASON_{word}")
            change(_change(word, policy))
            began = monotonic()
            wait_for(partial(_says, services, policy, wanted), f"{policy} to say {word}")
            took.append(monotonic() - began)
    return f"a freeze was obeyed after {took[0]:.1f} s"


def _change(word: str, policy: str) -> Any:
    if word == "FROZEN":
        return governance_service_pb2.FreezeRequest(name=policy, because="test")
    return governance_service_pb2.UnfreezeRequest(
        name=policy, because="test", quarantine=governance_service_pb2.QUARANTINE_CHOICE_KEEP
    )


def _says(services: Services, policy: str, wanted: int) -> bool:
    try:
        return bool(services.decisions.Decide(decide_request(policy, secrets.token_hex(8), "math")).reason == wanted)
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.NOT_FOUND:  # the new policy has not been polled yet
            return False
        raise


async def status_while_stalled(scene: Scene) -> str:
    """Wait until `kedge status` shows what waits and says that nobody takes it."""

    def shown() -> bool:
        done = scene.stack.kedge("status", "faulted", "support")
        return "backlog" in done.stdout and "worker" in done.stdout

    await asyncio.to_thread(wait_for, shown, "kedge status to speak of the worker")
    return "`kedge status` names it"


async def clock_in_the_log(scene: Scene) -> str:
    """Make the service log something, and wait until it does so under a clock that is an hour off."""

    def is_off() -> bool:
        with psycopg.connect(scene.stack.database_url, autocommit=True) as connection:
            connection.execute(END_LISTENERS)
        lines = (scene.stack.data_dir / "serve.log").read_text(encoding="utf-8").splitlines()
        stamps = [datetime.fromisoformat(json.loads(line)["timestamp"]) for line in lines[-20:] if line.startswith("{")]
        return any(abs(stamp - datetime.now(UTC)) > timedelta(minutes=50) for stamp in stamps[-3:])

    await asyncio.to_thread(wait_for, is_off, "the service's clock to be off")
    return "its log is an hour off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A fault, and how it is watched.

    Attributes:
        sees: an RPC and what it has to say before the fault ends.
        seconds: that it lasts at least.
        meanwhile: what is looked at while it lasts; gives a note.
        is_short: part of `make test`.
    """

    name: str
    fault: Fault
    sees: tuple[str, str] | None = None
    seconds: float = 3.0
    meanwhile: Callable[[Scene], Awaitable[str]] | None = None
    is_short: bool = False


STALE, UNANSWERED = ("Decide", "STALE"), ("RecordOutcomes", "DEADLINE_EXCEEDED")
_CASES = (
    Case(name="connections cut, again and again", fault=connections_cut, is_short=True),
    Case(name="connections half-open", fault=connections_half_open, is_short=True),
    Case(name="the network to the database stalled", fault=network_stalled, sees=STALE, seconds=8.0),
    Case(name="connections that carry nothing any more", fault=connections_dead, sees=UNANSWERED, seconds=0.0),
    Case(name="answers of the database lost", fault=answers_lost, sees=UNANSWERED),
    Case(name="a slow database, 150 ms each way", fault=database_slow, seconds=5.0),
    Case(name="NOTIFY connections lost alone", fault=notify_lost, meanwhile=freeze_without_notify),
    Case(name="a migration while serving", fault=migration, is_short=True, seconds=1.0),
    Case(name="the worker stalled", fault=worker_stalled, meanwhile=status_while_stalled),
    Case(name="the service's clock an hour ahead", fault=partial(clock_stepped, "+1h"), meanwhile=clock_in_the_log),
    Case(name="the service's clock an hour behind", fault=partial(clock_stepped, "-1h"), meanwhile=clock_in_the_log),
    Case(name="the database killed, started again", fault=database_away, sees=STALE, seconds=8.0),
    Case(name="the database's disk full", fault=disk_full, sees=("RecordOutcomes", "STORE_UNAVAILABLE"), seconds=5.0),
)
CASES = {case.name: case for case in _CASES}
