"""`verify-isolation` finds nothing in a clean database, and finds and names each fault that is planted in it."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from kedge.bandit.v1 import tenant_service_pb2
from kedge_bandit.adapters.postgres.isolation import PostgresWalls
from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.adapters.postgres.snapshot import CHANNELS
from kedge_bandit.application.verify_isolation import IsolationReport, VerifyIsolation
from kedge_bandit.domain.errors import TenantDenied
from kedge_bandit.domain.identifiers import TenantId
from tests.fixtures.administered import Administered, refusal, with_policy

FAULTS = {
    "grant": (
        "GRANT",
        "table t_{b}.outcome",
        "GRANT USAGE ON SCHEMA t_{b} TO kedge_t_{a}; GRANT SELECT, INSERT ON t_{b}.outcome TO kedge_t_{a}",
        "REVOKE ALL ON SCHEMA t_{b} FROM kedge_t_{a}; REVOKE ALL ON t_{b}.outcome FROM kedge_t_{a}",
    ),
    "default privilege": (
        "DEFAULT_PRIVILEGE",
        "in schema t_{b}",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA t_{b} GRANT SELECT ON TABLES TO kedge_t_{a}",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA t_{b} REVOKE SELECT ON TABLES FROM kedge_t_{a}",
    ),
    "role inherited": (
        "MISSING_ROLE_SWITCH",
        "role kedge_service",
        "GRANT kedge_t_{b} TO kedge_service WITH INHERIT TRUE",
        "GRANT kedge_t_{b} TO kedge_service WITH INHERIT FALSE",
    ),
    "role not taken": (
        "MISSING_ROLE_SWITCH",
        "function control.write_batch(jsonb)",
        "ALTER FUNCTION control.write_batch(jsonb) SECURITY DEFINER SET search_path = pg_catalog",
        "ALTER FUNCTION control.write_batch(jsonb) SECURITY INVOKER RESET search_path",
    ),
    "search_path": (
        "SEARCH_PATH",
        "function control.serving_changed()",
        "ALTER FUNCTION control.serving_changed() RESET search_path",
        "ALTER FUNCTION control.serving_changed() SET search_path = pg_catalog",
    ),
    "view of the wrong owner": (
        "VIEW_OWNER",
        "view t_{a}.peek",
        "GRANT CREATE, USAGE ON SCHEMA t_{a} TO kedge_t_{b}; SET ROLE kedge_t_{b};"
        " CREATE VIEW t_{a}.peek AS SELECT * FROM t_{b}.outcome; RESET ROLE;"
        " REVOKE ALL ON SCHEMA t_{a} FROM kedge_t_{b}",
        "DROP VIEW t_{a}.peek",
    ),
    "view of the service's owner": (
        "VIEW_OWNER",
        "view t_{a}.peek",
        "CREATE VIEW t_{a}.peek AS SELECT * FROM t_{b}.outcome; GRANT SELECT ON t_{a}.peek TO kedge_t_{a}",
        "DROP VIEW t_{a}.peek",
    ),
    "everybody": (
        "PUBLIC",
        "function t_{b}.write_rows(jsonb)",
        "GRANT EXECUTE ON FUNCTION t_{b}.write_rows(jsonb) TO PUBLIC",
        "REVOKE EXECUTE ON FUNCTION t_{b}.write_rows(jsonb) FROM PUBLIC",
    ),
    "membership": (
        "MEMBERSHIP",
        "role kedge_t_{a}",
        "GRANT kedge_t_{b} TO kedge_t_{a}",
        "REVOKE kedge_t_{b} FROM kedge_t_{a}",
    ),
    "loud trigger": (
        "NOTIFY",
        "function t_{b}.shout()",
        "CREATE FUNCTION t_{b}.shout() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " PERFORM pg_notify('kedge_rows', NEW.payload::text); RETURN NULL; END $$;"
        " REVOKE ALL ON FUNCTION t_{b}.shout() FROM PUBLIC",
        "DROP FUNCTION t_{b}.shout()",
    ),
}


@contextmanager
def planted(url: str, fault: str, a: str, b: str) -> Iterator[tuple[str, str]]:
    """Plant a fault, and take it away again; gives its kind and where it has to be found."""
    kind, place, plant, weed = FAULTS[fault]
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(plant.format(a=a, b=b))
        try:
            yield kind, place.format(a=a, b=b)
        finally:
            owner.execute(weed.format(a=a, b=b))


async def verified(engine: AsyncEngine) -> IsolationReport:
    return await VerifyIsolation(PostgresWalls(engine))()


async def test_clean_walls_pass_and_every_object_was_tried(as_service: AsyncEngine, pair: object) -> None:
    found = await verified(as_service)
    assert found.faults == []
    assert found.login == "kedge_service"
    assert found.tenants >= 2
    assert found.attempts > 100 * found.tenants * (found.tenants - 1)


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_planted_fault_is_found_and_named(
    as_service: AsyncEngine, fresh_database: str, pair: tuple[TenantId, TenantId], fault: str
) -> None:
    a, b = pair
    with planted(fresh_database, fault, a, b) as (kind, place):
        found = await verified(as_service)
    named = [one for one in found.faults if one.kind == kind and place in one.place]
    assert named, found.faults
    others = {one.kind for one in found.faults} - {kind}
    assert others <= {"REACHED", "GRANT"}, found.faults
    assert (await verified(as_service)).faults == []


async def test_what_can_be_reached_is_reached_by_trying(
    as_service: AsyncEngine, fresh_database: str, pair: tuple[TenantId, TenantId]
) -> None:
    a, b = pair
    with psycopg.connect(fresh_database, autocommit=True) as owner:
        before = owner.execute(f"SELECT count(*) FROM t_{b}.outcome").fetchone()
        with planted(fresh_database, "grant", a, b):
            found = await verified(as_service)
        after = owner.execute(f"SELECT count(*) FROM t_{b}.outcome").fetchone()
    reached = {one.detail for one in found.faults if one.kind == "REACHED" and one.place == f"t_{b}.outcome"}
    assert reached == {f"kedge_t_{a} could read it", f"kedge_t_{a} could insert into it"}
    assert before == after
    with planted(fresh_database, "role inherited", a, b):
        found = await verified(as_service)
    assert any(one.kind == "REACHED" and one.detail.startswith("kedge_service could read") for one in found.faults)


async def test_a_tenants_role_hears_names_and_nothing_else(administered: Administered, fresh_database: str) -> None:
    it = administered
    listener = (await it.tenant()).removeprefix("tenants/")
    async with await psycopg.AsyncConnection.connect(fresh_database, autocommit=True) as heard:
        await heard.execute(f"SET ROLE kedge_t_{listener}")
        for channel in (*CHANNELS, "kedge_rows"):
            await heard.execute(f"LISTEN {channel}")
        tenant, policy = await with_policy(it)
        await it.key(tenant, "ROLE_CORE_APP")
        with psycopg.connect(fresh_database, autocommit=True) as owner:
            rows = {
                "outcomes": [{"n": 0, "key": "k", "payload_hash": "h", "signal": "COST", "payload": {"value": 4711}}]
            }
            batch = json.dumps({tenant.removeprefix("tenants/"): rows})
            owner.execute("SELECT control.write_batch(%s::jsonb)", (batch,))
        said = [notice.payload async for notice in heard.notifies(timeout=5, stop_after=4)]
    assert said
    name, policy_name = tenant.removeprefix("tenants/"), policy.rpartition("/")[2]
    for payload in said:
        if payload.startswith("{"):
            assert set(json.loads(payload)) == {"tenant", "policy", "mode", "version", "change_time"}
        else:
            assert payload.strip("~") in {name, policy_name, "many"} or payload.isdigit()


async def test_only_operators_may_ask(administered: Administered) -> None:
    it = administered
    request = tenant_service_pb2.VerifyIsolationRequest()
    found = await it.tenants.VerifyIsolation(request, metadata=it.operator)
    assert list(found.faults) == []
    assert found.login != "kedge_service"  # the tests log in as the owner, and the answer says so
    admin = await it.key(await it.tenant(), "ROLE_ADMIN")
    refused = await refusal(it.tenants.VerifyIsolation(request, metadata=admin))
    assert refused == (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED")


async def test_a_pooled_connection_keeps_nothing_of_the_tenant_before(
    as_service: AsyncEngine, pair: tuple[TenantId, TenantId]
) -> None:
    a, b = pair
    ledgers = PostgresLedgers(as_service)

    async def hold() -> None:
        async with ledgers.open(b) as ledger:
            await ledger.audit.head()
            await asyncio.Event().wait()

    async def break_off() -> None:
        async with ledgers.open(b) as ledger:
            await ledger.audit.head()
            raise RuntimeError("mid-request")

    async def fail_in_the_database() -> None:
        async with ledgers.open(b) as ledger:
            await ledger.policies.arm("zero \0 byte")

    for broken in (break_off(), fail_in_the_database(), asyncio.wait_for(hold(), 0.5)):
        with pytest.raises(Exception):  # noqa: B017, PT011 - whatever it is
            await broken
        async with as_service.connect() as connection:
            raw: Any = (await connection.get_raw_connection()).driver_connection
            who = await (await raw.execute("SELECT current_user")).fetchone()
            assert who == ("kedge_service",)
            for tenant in (a, b):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    await raw.execute(f"SELECT 1 FROM t_{tenant}.audit_head")
                await raw.rollback()
            await connection.rollback()
        async with ledgers.open(a) as ledger:
            assert (await ledger.audit.head()).sequence == 0
    with pytest.raises(TenantDenied):
        async with ledgers.open(TenantId("nobody")):
            pass
