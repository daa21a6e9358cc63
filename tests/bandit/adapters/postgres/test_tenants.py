"""Tenants and keys in a real database."""

from dataclasses import replace

import pytest
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from kedge_bandit.adapters.postgres.identities import PostgresIdentities
from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.adapters.postgres.tenants import PostgresTenants
from kedge_bandit.application.administration_ports import SettingsChange, TenantSettings, WriteId
from kedge_bandit.domain.api_key import StoredKey
from kedge_bandit.domain.audit import KEDGE
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.errors import IdempotencyConflict, StoreUnavailable, TenantDenied, TenantExists
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.principal import Role
from tests.fixtures.ledgers import START, NewTenant

KEEPS = TenantSettings(store_content=True)


def change(tenant: TenantId) -> Change:
    return Change(tenant=tenant, actor=KEDGE, because="to test it", at=START)


async def test_onboarding_twice_is_refused_unless_it_is_the_same_request(registry: PostgresTenants) -> None:
    tenant, write = TenantId("t-onboarded-once"), WriteId("r1", "payload")
    first = await registry.onboard(KEEPS, change(tenant), write)
    assert await registry.onboard(KEEPS, change(tenant), write) == first
    for _ in range(2):
        with pytest.raises(TenantExists):
            await registry.onboard(KEEPS, change(tenant), WriteId("r2", "payload"))
    with pytest.raises(TenantExists):
        await registry.onboard(KEEPS, change(tenant), WriteId())
    with pytest.raises(IdempotencyConflict):
        await registry.onboard(KEEPS, change(tenant), WriteId("r1", "another"))


async def test_the_name_of_an_erased_tenant_is_said_to_be_taken_for_good(
    registry: PostgresTenants, engine: AsyncEngine
) -> None:
    tenant = TenantId("t-erased-once")
    await registry.onboard(KEEPS, change(tenant), WriteId())
    with pytest.raises(TenantExists, match="exists: use it"):
        await registry.onboard(KEEPS, change(tenant), WriteId())
    async with engine.begin() as connection:
        await connection.execute(select(func.control.erase_tenant(tenant, "key:operator", "to test it")))

    with pytest.raises(TenantExists, match="was erased, and its keys would open a new one"):
        await registry.onboard(KEEPS, change(tenant), WriteId())


async def test_settings_are_changed_once_per_request_and_audited(
    registry: PostgresTenants, new_tenant: NewTenant, ledgers: PostgresLedgers
) -> None:
    tenant, write = await new_tenant(), WriteId("r1", "payload")
    on, off = SettingsChange(durable=True), SettingsChange(durable=False, retention_days=90)
    assert (await registry.update(on, change(tenant), write)).settings == TenantSettings(durable=True)
    assert (await registry.update(off, change(tenant), WriteId())).settings == TenantSettings(retention_days=90)
    assert not (await registry.update(on, change(tenant), write)).settings.durable
    quota = SettingsChange(rows_per_second=5.0)
    both = TenantSettings(retention_days=90, rows_per_second=5.0)
    assert (await registry.update(quota, change(tenant), WriteId())).settings == both

    async with ledgers.open(tenant) as ledger:
        events = await ledger.audit.in_order(after=0, limit=10)
    assert [event.verb for event in events] == ["tenant.onboarded", *["tenant.configured"] * 3]
    with pytest.raises(TenantDenied):
        await registry.update(SettingsChange(), change(TenantId("t-nobody")), WriteId())


async def test_a_tenant_may_be_durable_from_the_first_day(registry: PostgresTenants) -> None:
    made = await registry.onboard(TenantSettings(durable=True), change(TenantId("t-durable")), WriteId())
    assert made.settings == TenantSettings(durable=True)


async def test_tenants_are_listed_page_by_page(registry: PostgresTenants, new_tenant: NewTenant) -> None:
    made = sorted([await new_tenant() for _ in range(3)])
    after, seen = "", []
    while page := await registry.list(after=after, limit=2):
        assert len(page) <= 2
        seen += [tenant.name for tenant in page]
        after = page[-1].name
    assert seen == sorted(seen)
    assert set(made) <= set(seen)


async def test_a_key_is_stored_once_with_its_event(
    engine: AsyncEngine, ledgers: PostgresLedgers, new_tenant: NewTenant
) -> None:
    identities, tenant = PostgresIdentities(engine), await new_tenant()
    key = StoredKey(key_id="0" * 7 + "a", key_hash=b"h" * 32, principal="core-app", role=Role.CORE_APP, tenant=tenant)
    assert await identities.add_key(key, change(tenant))
    assert not await identities.add_key(key, change(tenant))
    async with ledgers.open(tenant) as ledger:
        verbs = [event.verb for event in await ledger.audit.list(before=None, limit=10)]
    assert verbs == ["key.created", "tenant.onboarded"]
    with pytest.raises(TenantDenied):
        await identities.add_key(replace(key, key_id="0" * 7 + "b"), change(TenantId("nobody")))


async def test_a_database_that_is_gone_is_said_to_be_unavailable() -> None:
    engine = create_async_engine("postgresql+psycopg://nobody@127.0.0.1:1/none")
    with pytest.raises(StoreUnavailable):
        await PostgresTenants(engine).list(after="", limit=1)
    await engine.dispose()
