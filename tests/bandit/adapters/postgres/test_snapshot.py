"""A replica's view renews its lease by reading the database, and by nothing else."""

import asyncio
from typing import Any

import psycopg
from sqlalchemy.ext.asyncio import create_async_engine

from kedge_bandit.adapters.postgres.callers import CallersView
from kedge_bandit.adapters.postgres.serving_reads import ServingReads
from kedge_bandit.adapters.postgres.snapshot import DatabaseClock, ReplicaSnapshot
from kedge_bandit.domain.mode import Mode

NOWHERE = "postgresql+psycopg://nobody@127.0.0.1:1/nothing"


async def never() -> psycopg.AsyncConnection[tuple[Any, ...]]:
    raise psycopg.OperationalError("there is no database")


async def test_news_that_cannot_be_read_do_not_renew_the_lease() -> None:
    engine = create_async_engine(NOWHERE)
    reads = ServingReads(engine)
    snapshot = ReplicaSnapshot(
        reads=reads,
        listen=never,
        clock=DatabaseClock(),
        override=lambda _tenant, _policy: Mode.APPLY,
        callers=CallersView(reads, lambda _keys, _bindings: None),
    )
    running = asyncio.create_task(snapshot.run())
    for _ in range(20):
        await snapshot.hear("kedge_serving", "somebody")
        await asyncio.sleep(0.02)
        assert snapshot.stale
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await engine.dispose()
