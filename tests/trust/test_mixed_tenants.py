"""Work that takes several tenants in turn on one connection keeps them apart, also when it breaks halfway."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from kedge_bandit.adapters.postgres.group_writer import GroupWriter
from kedge_bandit.adapters.postgres.worker_ledger import WorkerLedgers, lane_of
from kedge_bandit.application.ports import OutcomeEvent
from kedge_bandit.domain.errors import InvalidValue, TenantDenied
from kedge_bandit.domain.identifiers import EpisodeId, PolicyName, TenantId
from kedge_bandit.domain.outcome import Outcome, SignalKind
from tests.trust.conftest import PASSWORD

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
Pair = tuple[TenantId, TenantId]


def outcome(key: str, value: float, *, episode: str = "e") -> OutcomeEvent:
    fact = Outcome(key=key, signal=SignalKind.JUDGE, source="key:app", observed_time=NOON, value=value)
    return OutcomeEvent(outcome=fact, policy=PolicyName("p"), episode_id=EpisodeId(episode))


def stored(url: str, tenant: TenantId) -> dict[str, float]:
    asked = f"SELECT key, (payload ->> 'value')::float FROM t_{tenant}.outcome"
    with psycopg.connect(url, autocommit=True) as owner:
        return dict(owner.execute(asked).fetchall())


@pytest.mark.usefixtures("as_service")  # it gives the writer's login its password
async def test_one_batch_of_many_tenants_puts_each_row_where_it_belongs(fresh_database: str, pair: Pair) -> None:
    a, b = pair

    async def connect() -> psycopg.AsyncConnection[Any]:
        return await psycopg.AsyncConnection.connect(
            fresh_database, user="kedge_service", password=PASSWORD, autocommit=True
        )

    writer = GroupWriter(connect)
    keys = [f"same-{number}" for number in range(20)]
    waiting = [
        writer.outcomes(tenant, [outcome(key, value)]) for key in keys for tenant, value in ((a, 0.25), (b, 0.75))
    ]
    waiting.append(writer.outcomes(a, [outcome("bad", 0.5, episode="zero \0 byte")]))
    waiting.append(writer.outcomes(TenantId("nobody"), [outcome("lost", 0.5)]))
    gathered = asyncio.gather(*waiting, return_exceptions=True)
    await asyncio.sleep(0)  # all of them are in the queue: the first batch takes them together
    running = asyncio.create_task(writer.run())
    *answers, bad, lost = await gathered
    await writer.close()
    await running
    assert answers == [["RECORDED"]] * 40
    assert isinstance(bad, InvalidValue)
    assert isinstance(lost, TenantDenied)
    assert stored(fresh_database, a) == dict.fromkeys(keys, 0.25)
    assert stored(fresh_database, b) == dict.fromkeys(keys, 0.75)


async def test_a_pass_that_breaks_leaves_its_connection_to_nobody(as_service: AsyncEngine, fresh_database: str) -> None:
    names = [TenantId(f"lane-{number}") for number in range(50)]
    a = names[0]
    b = next(name for name in names[1:] if lane_of(name) == lane_of(a))
    with psycopg.connect(fresh_database, autocommit=True) as owner:
        for tenant in (a, b):
            owner.execute("SELECT control.create_tenant(%s)", (tenant,))
    passes = WorkerLedgers(as_service.execution_options(isolation_level="AUTOCOMMIT"))

    async def pass_over(tenant: TenantId, *, breaks: bool) -> str:
        async with passes.open(tenant) as ledger:
            assert await ledger.learning.lock(limit=10) is not None
            raw: Any = (await ledger.learning._connection.core.get_raw_connection()).driver_connection
            who = await (await raw.execute("SELECT current_user")).fetchone()
            if breaks:
                raise RuntimeError("mid-pass")
            return str(who[0])

    try:
        for _ in range(3):
            with pytest.raises(RuntimeError):
                await pass_over(a, breaks=True)
            assert await pass_over(b, breaks=False) == f"kedge_t_{b.replace('-', '_')}"
            assert await pass_over(a, breaks=False) == f"kedge_t_{a.replace('-', '_')}"
    finally:
        await passes.close()
