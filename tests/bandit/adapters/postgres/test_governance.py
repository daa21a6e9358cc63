"""Policies, modes and the audit chain in a real database."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest
from hypothesis import given
from sqlalchemy import ColumnElement, Table, delete, func, literal_column, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from kedge_bandit.adapters.postgres import tables
from kedge_bandit.adapters.postgres.governance import spec_from_json, spec_to_json
from kedge_bandit.adapters.postgres.ledger import PostgresLedgers, role_of, schema_of
from kedge_bandit.adapters.postgres.tenants import PostgresTenants
from kedge_bandit.application.administration_ports import WriteId
from kedge_bandit.domain.audit import KEDGE, AuditEvent, first_broken
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.dimension import Arm, Dimension
from kedge_bandit.domain.errors import (
    ArmNotFound,
    IdempotencyConflict,
    PolicyNotFound,
    ReasonRequired,
    VersionMismatch,
)
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.lifecycle import create, freeze, set_mode, stage, unfreeze, upsert_arm
from kedge_bandit.domain.mode import Mode, ModeChange, policy_clock
from kedge_bandit.domain.policy import PolicySpec
from kedge_bandit.domain.reward_spec import RewardSpec
from kedge_bandit.domain.switch import QuarantineChoice
from tests.bandit.domain.policy_strategies import specs
from tests.fixtures.approved import approve_arm
from tests.fixtures.ledgers import START, NewTenant

SUPPORT = PolicyName("support")
SPEC = PolicySpec(
    arms=(
        Arm(dimension=Dimension.MODEL_ROUTE, name="small", content="provider/small-1"),
        Arm(dimension=Dimension.MODEL_ROUTE, name="large", content="provider/large-1"),
    ),
    baseline={Dimension.MODEL_ROUTE: "small"},
    reward=RewardSpec(cost_reference_usd=0.01, latency_reference_ms=1000.0),
)


def change(tenant: TenantId, *, minutes: int = 0) -> Change:
    return Change(tenant=tenant, actor=KEDGE, because="to test it", at=START + timedelta(minutes=minutes))


@given(specs())
def test_a_spec_survives_the_store(spec: PolicySpec) -> None:
    assert spec_from_json(spec_to_json(spec)) == spec


async def test_every_version_of_a_policy_can_be_read_back(ledgers: PostgresLedgers, new_tenant: NewTenant) -> None:
    tenant = await new_tenant()
    first, created = create(SUPPORT, SPEC, change(tenant))
    second, staged = stage(first, change(tenant, minutes=1), floor=0.5)
    async with ledgers.open(tenant) as ledger:
        await ledger.policies.put(first, created)
    async with ledgers.open(tenant) as ledger:
        await ledger.policies.put(second, staged)
    async with ledgers.open(tenant) as ledger:
        assert await ledger.policies.get(SUPPORT) == second
        assert await ledger.policies.list() == [second]
        assert [await ledger.policies.at_version(SUPPORT, version) for version in (1, 2)] == [first, second]
        with pytest.raises(PolicyNotFound):
            await ledger.policies.at_version(SUPPORT, 3)


async def test_a_lost_update_is_refused_and_leaves_no_event(ledgers: PostgresLedgers, new_tenant: NewTenant) -> None:
    tenant = await new_tenant()
    first, created = create(SUPPORT, SPEC, change(tenant))
    async with ledgers.open(tenant) as ledger:
        await ledger.policies.put(first, created)
        await ledger.policies.put(*stage(first, change(tenant), floor=0.5))
    with pytest.raises(VersionMismatch) as refused:
        async with ledgers.open(tenant) as ledger:
            await ledger.policies.put(*stage(first, change(tenant), floor=0.6))
    assert (refused.value.expected, refused.value.found) == (1, 2)
    async with ledgers.open(tenant) as ledger:
        assert len(await ledger.audit.list(before=None, limit=10)) == 3


async def test_of_two_changes_at_once_one_wins(ledgers: PostgresLedgers, new_tenant: NewTenant) -> None:
    tenant = await new_tenant()
    first, created = create(SUPPORT, SPEC, change(tenant))
    async with ledgers.open(tenant) as ledger:
        await ledger.policies.put(first, created)

    async def put(floor: float) -> str:
        try:
            async with ledgers.open(tenant) as ledger:
                await ledger.policies.put(*stage(first, change(tenant), floor=floor))
        except VersionMismatch:
            return "refused"
        return "put"

    assert sorted(await asyncio.gather(put(0.5), put(0.6), put(0.7))) == ["put", "refused", "refused"]


async def test_two_first_versions_at_once_make_one_policy(ledgers: PostgresLedgers, new_tenant: NewTenant) -> None:
    tenant = await new_tenant()

    async def put() -> str:
        try:
            async with ledgers.open(tenant) as ledger:
                await ledger.policies.put(*create(SUPPORT, SPEC, change(tenant)))
        except VersionMismatch:
            return "refused"
        return "put"

    assert sorted(await asyncio.gather(put(), put())) == ["put", "refused"]


async def test_policy_time_stops_with_every_level(
    ledgers: PostgresLedgers, registry: PostgresTenants, new_tenant: NewTenant
) -> None:
    tenant = await new_tenant()
    policy, created = create(SUPPORT, SPEC, change(tenant))
    async with ledgers.open(tenant) as ledger:
        await ledger.policies.put(policy, created)
        policy, frozen = freeze(policy, change(tenant, minutes=10))
        await ledger.policies.put(policy, frozen)
        event = change(tenant, minutes=20).event("tenant.frozen", f"tenants/{tenant}", {})
        await ledger.policies.put_tenant_mode(Mode.FROZEN, event)
    async with ledgers.open(tenant) as ledger:
        resumed = unfreeze(policy, change(tenant, minutes=30), resume=Mode.APPLY, quarantine=QuarantineChoice.KEEP)
        await ledger.policies.put(*resumed)
        thawed = change(tenant, minutes=40).event("tenant.unfrozen", f"tenants/{tenant}", {})
        await ledger.policies.put_tenant_mode(Mode.APPLY, thawed)
    bypass = change(tenant, minutes=50).event("global.mode_set", "global", {})
    await registry.put_global_mode(Mode.BYPASS, bypass)
    try:
        async with ledgers.open(tenant) as ledger:
            assert await ledger.policies.tenant_mode() is Mode.APPLY
            assert await ledger.policies.global_mode() is Mode.BYPASS
            changes = await ledger.policies.mode_changes(SUPPORT)
    finally:
        await registry.put_global_mode(Mode.APPLY, bypass)
    assert [(c.level, c.mode) for c in changes] == [
        ("policy", Mode.FROZEN),
        ("tenant", Mode.FROZEN),
        ("policy", Mode.APPLY),
        ("tenant", Mode.APPLY),
        ("global", Mode.BYPASS),
    ]
    [stop, still] = policy_clock(changes).stops
    assert [(t - START.timestamp()) / 60 for t in (*stop, still[0])] == [10, 40, 50]


async def test_a_change_of_mode_is_never_logged_before_the_one_it_follows(
    ledgers: PostgresLedgers, new_tenant: NewTenant
) -> None:
    tenant = await new_tenant()
    policy, created = create(SUPPORT, SPEC, change(tenant))
    async with ledgers.open(tenant) as ledger:
        await ledger.policies.put(policy, created)
        policy, frozen = freeze(policy, change(tenant, minutes=10))
        await ledger.policies.put(policy, frozen)
        earlier = change(tenant, minutes=9)
        await ledger.policies.put(*unfreeze(policy, earlier, resume=Mode.APPLY, quarantine=QuarantineChoice.KEEP))
        changes = await ledger.policies.mode_changes(SUPPORT)
    begin, end = policy_clock(changes).stops[0]
    assert 0 < end - begin < 1e-5
    assert [c for c in changes if c.level == "policy"][-1] == ModeChange(
        "policy", Mode.APPLY, START + timedelta(minutes=10, microseconds=1), KEDGE.name
    )


async def test_arms_are_found_by_their_content_for_ever(ledgers: PostgresLedgers, new_tenant: NewTenant) -> None:
    tenant = await new_tenant()
    policy, created = create(SUPPORT, SPEC, change(tenant))
    newer = replace(SPEC.arms[1], content="provider/large-2")
    async with ledgers.open(tenant) as ledger:
        await ledger.policies.put(policy, created)
        await approve_arm(ledger, policy, newer)
        await ledger.policies.put(*upsert_arm(policy, newer, change(tenant)))
        for arm in (*SPEC.arms, newer):
            assert (await ledger.policies.arm(arm.content_hash)).content == arm.content
        with pytest.raises(ArmNotFound):
            await ledger.policies.arm("0" * 64)


async def test_a_change_wakes_the_replicas_when_it_is_committed(
    ledgers: PostgresLedgers, new_tenant: NewTenant, migrated_url: str
) -> None:
    tenant = await new_tenant()
    url = migrated_url.replace("+psycopg", "")
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as listener:
        await listener.execute("LISTEN kedge_serving")
        async with ledgers.open(tenant) as ledger:
            await ledger.policies.put(*create(SUPPORT, SPEC, change(tenant)))
        heard = [notice.payload async for notice in listener.notifies(timeout=10, stop_after=1)]
    assert heard == [tenant]


async def test_a_write_is_remembered_by_its_id_and_payload(ledgers: PostgresLedgers, new_tenant: NewTenant) -> None:
    tenant = await new_tenant()
    async with ledgers.open(tenant) as ledger:
        assert await ledger.policies.is_first(WriteId("r1", "payload"))
    async with ledgers.open(tenant) as ledger:
        assert not await ledger.policies.is_first(WriteId("r1", "payload"))
        assert await ledger.policies.is_first(WriteId())
        assert await ledger.policies.is_first(WriteId())
        with pytest.raises(IdempotencyConflict):
            await ledger.policies.is_first(WriteId("r1", "another"))


async def append(ledgers: PostgresLedgers, tenant: TenantId, count: int) -> None:
    async def one(number: int) -> None:
        event = AuditEvent(
            time=START, actor=KEDGE, verb="test.done", subject="x", because="ü", payload={"number": number}
        )
        async with ledgers.open(tenant) as ledger:
            await ledger.audit.append(event)

    await asyncio.gather(*(one(number) for number in range(count)))


async def test_the_chain_holds_when_many_write_at_once(ledgers: PostgresLedgers, new_tenant: NewTenant) -> None:
    tenant = await new_tenant()
    await append(ledgers, tenant, 12)
    async with ledgers.open(tenant) as ledger:
        events = await ledger.audit.in_order(after=0, limit=100)
        head = await ledger.audit.head()
    assert [event.sequence for event in events] == list(range(1, 14))
    assert first_broken(list(events)) is None
    assert (head.sequence, head.row_hash) == (13, events[-1].row_hash)


@pytest.mark.parametrize(("column", "value"), [("actor", "mallory"), ("because", "no"), ("row_hash", "0" * 64)])
async def test_a_tampered_event_is_found_where_it_stands(
    ledgers: PostgresLedgers, engine: AsyncEngine, new_tenant: NewTenant, column: str, value: str
) -> None:
    tenant = await new_tenant()
    await append(ledgers, tenant, 4)
    async with engine.begin() as owner:
        await owner.execution_options(schema_translate_map={tables.TENANT: schema_of(tenant)})
        tampered = update(tables.audit_event).where(tables.audit_event.c.audit_sequence == 3).values({column: value})
        await owner.execute(tampered)
    async with ledgers.open(tenant) as ledger:
        assert first_broken(list(await ledger.audit.in_order(after=0, limit=100))) == 3


@pytest.mark.parametrize("table", [tables.audit_event, tables.audit_payload, tables.mode_change, tables.arm])
async def test_the_tenants_role_cannot_rewrite_what_is_append_only(
    engine: AsyncEngine, new_tenant: NewTenant, table: Table
) -> None:
    tenant = await new_tenant()
    for forbidden in (delete(table), update(table).values({table.c[1].name: None})):
        async with engine.connect() as connection:
            await connection.execution_options(schema_translate_map={tables.TENANT: schema_of(tenant)})
            await connection.execute(select(func.set_config("role", role_of(tenant), True)))
            with pytest.raises(DBAPIError, match="permission denied"):
                await connection.execute(forbidden)


async def test_a_change_without_a_reason_reaches_nothing(ledgers: PostgresLedgers, new_tenant: NewTenant) -> None:
    tenant = await new_tenant()
    policy, created = create(SUPPORT, SPEC, change(tenant))
    async with ledgers.open(tenant) as ledger:
        await ledger.policies.put(policy, created)
        with pytest.raises(ReasonRequired):
            set_mode(policy, Mode.OBSERVE, replace(change(tenant), because=" "))
        assert (await ledger.policies.get(SUPPORT)).mode is Mode.APPLY


async def test_a_change_of_mode_does_not_wait_for_the_disk_and_its_answer_does(
    ledgers: PostgresLedgers, registry: PostgresTenants, new_tenant: NewTenant, engine: AsyncEngine
) -> None:
    tenant = await new_tenant()
    start: ColumnElement[str] = literal_column("'0/0'::pg_lsn")
    written = func.pg_wal_lsn_diff(func.pg_current_wal_insert_lsn(), start)
    on_disk = func.pg_wal_lsn_diff(func.pg_current_wal_flush_lsn(), start)
    waits = func.current_setting("synchronous_commit")
    async with ledgers.open(tenant) as ledger:
        policy, event = create(SUPPORT, SPEC, change(tenant))
        await ledger.policies.put(policy, event)
        assert (await ledger.policies._connection.execute(select(waits))).scalar_one() == "on"
    async with ledgers.open(tenant) as ledger:
        await ledger.policies.put(*freeze(policy, change(tenant, minutes=1)))
        here, said = (await ledger.policies._connection.execute(select(written, waits))).one()

    assert said == "off"
    async with engine.connect() as connection:
        assert (await connection.execute(select(on_disk))).scalar_one() >= here
        assert (await connection.execute(select(waits))).scalar_one() == "on"
    await registry.put_global_mode(Mode.APPLY, event)
