"""A connection that is open and carries nothing any more is given up, by what writes and by what reads."""

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from kedge_bandit.adapters.postgres.callers import CallersView
from kedge_bandit.adapters.postgres.group_writer import GroupWriter
from kedge_bandit.adapters.postgres.serving_reads import ServingReads
from kedge_bandit.adapters.postgres.snapshot import DatabaseClock, ReplicaSnapshot
from kedge_bandit.domain.errors import StoreUnavailable
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.mode import Mode
from kedge_bandit.entrypoints.connections import connector
from tests.bandit.adapters.test_group_writer import outcome
from tests.fixtures.ledgers import NewTenant

PATIENCE = 0.05


@dataclass
class Silent:
    """A server that takes connections and says nothing."""

    listener: socket.socket
    taken: list[socket.socket] = field(default_factory=list)
    called_twice: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def address(self) -> str:
        return f"postgresql://nobody@127.0.0.1:{self.listener.getsockname()[1]}/nothing"

    async def take(self) -> None:
        while True:
            connection, _ = await asyncio.get_running_loop().sock_accept(self.listener)
            self.taken.append(connection)
            if len(self.taken) > 1:
                self.called_twice.set()


@pytest.fixture
async def silent() -> AsyncIterator[Silent]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        found = Silent(listener)
        taking = asyncio.create_task(found.take())
        yield found
        taking.cancel()
        for connection in found.taken:
            connection.close()


async def test_a_sender_is_told_and_what_it_repeats_is_written(
    silent: Silent, migrated_url: str, new_tenant: NewTenant
) -> None:
    tenant: TenantId = await new_tenant()
    addresses = [silent.address]

    async def connect() -> psycopg.AsyncConnection[tuple[Any, ...]]:
        real = migrated_url.replace("postgresql+psycopg://", "postgresql://", 1)
        return await connector(addresses.pop() if addresses else real)()

    writer = GroupWriter(connect, patience=PATIENCE)
    running = asyncio.create_task(writer.run())
    with pytest.raises(StoreUnavailable):
        await writer.outcomes(tenant, [outcome("again")])
    writer._patience = 30.0
    assert await writer.outcomes(tenant, [outcome("again")]) == ["RECORDED"]
    await writer.close()
    await running


async def test_a_poll_is_tried_again_on_another_connection(silent: Silent) -> None:
    engine = create_async_engine(silent.address.replace("postgresql://", "postgresql+psycopg://", 1))
    reads = ServingReads(engine)
    snapshot = ReplicaSnapshot(
        reads=reads,
        listen=connector("postgresql://nobody@127.0.0.1:1/nothing"),
        clock=DatabaseClock(),
        override=lambda _tenant, _policy: Mode.APPLY,
        callers=CallersView(reads, lambda *_: None),
        patience=PATIENCE,
    )
    running = asyncio.create_task(snapshot.run())
    async with asyncio.timeout(30):
        await silent.called_twice.wait()
    assert snapshot.stale
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await engine.dispose()
