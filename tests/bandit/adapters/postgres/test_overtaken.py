"""Two changes of a tenant that wait for each other: one is made, and the other one is told to repeat."""

import asyncio

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.domain.audit import KEDGE
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.dimension import Arm, Dimension
from kedge_bandit.domain.errors import VersionMismatch
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.lifecycle import create, stage
from kedge_bandit.domain.policy import PolicySpec
from kedge_bandit.domain.reward_spec import RewardSpec
from tests.fixtures.ledgers import START, NewTenant

SPEC = PolicySpec(
    arms=(Arm(dimension=Dimension.MODEL_ROUTE, name="small", content="provider/small-1"),),
    baseline={Dimension.MODEL_ROUTE: "small"},
    reward=RewardSpec(cost_reference_usd=0.01, latency_reference_ms=1000.0),
)
WAITING = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()")


def change(tenant: TenantId) -> Change:
    return Change(tenant=tenant, actor=KEDGE, because="to test it", at=START)


async def waits(engine: AsyncEngine) -> None:
    """Wait until a transaction waits for another one's lock."""
    async with asyncio.timeout(60), engine.connect() as connection:
        while not (await connection.execute(WAITING)).scalar_one():
            await connection.rollback()
            await asyncio.sleep(0.01)


async def test_of_two_changes_that_wait_for_each_other_one_is_to_be_repeated(
    engine: AsyncEngine, ledgers: PostgresLedgers, new_tenant: NewTenant
) -> None:
    tenant = await new_tenant()
    policies = [create(PolicyName(name), SPEC, change(tenant)) for name in ("first", "second")]
    for made in policies:
        async with ledgers.open(tenant) as ledger:
            await ledger.policies.put(*made)

    async def in_order() -> None:
        async with ledgers.open(tenant) as ledger:
            await ledger.policies.put(*stage(policies[0][0], change(tenant), floor=0.5))

    async def other_way_round(beside: list[asyncio.Task[None]]) -> None:
        async with ledgers.open(tenant) as ledger:
            await ledger.audit.append(change(tenant).event("policy.resumed", "tenants/x", {}))
            beside.append(asyncio.create_task(in_order()))
            await waits(engine)
            await ledger.policies.put(*stage(policies[1][0], change(tenant), floor=0.5))

    beside: list[asyncio.Task[None]] = []
    results: list[object] = [*await asyncio.gather(other_way_round(beside), return_exceptions=True)]
    results += await asyncio.gather(*beside, return_exceptions=True)
    overtaken = [result for result in results if isinstance(result, VersionMismatch)]
    assert len(overtaken) == 1, results
    assert "repeat" in str(overtaken[0])
