"""A database of the first revision comes to head with everything that was in it, and like one that was made there."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine

import kedge_migrations
from kedge_migrations import upgrade
from tests.migrations.catalog import catalog, rows_of

TREES = Path(kedge_migrations.__file__).parent
FIRST_ROWS = (Path(__file__).parent / "first_revision.sql").read_text(encoding="utf-8")
EMPTY, FULL, FRESH = "first-empty", "first-full", "made-at-head"

DECISION = {
    "n": 0,
    "decision_id": "00000000-0000-7000-8000-000000000001",
    "decision_time": "2026-03-01T12:00:00Z",
    "policy": "support",
    "episode_id": "e1",
    "request_id": "r1",
    "context": {"categories": {"task": "math"}, "numbers": {}},
    "bucket": "task=math",
    "available": ["small", "large"],
    "action": "small",
    "propensity": 0.9,
    "policy_version": 1,
    "allocation_version": 1,
    "seed_epoch": 1,
    "mode": "APPLY",
    "reason": "DRAWN",
    "is_randomised": True,
    "judge_requested": False,
    "judge_rate": 0.0,
    "shadow_action": None,
}
EVENT = {
    "n": 1,
    "key": "log-1",
    "payload_hash": "h1",
    "kind": "LOG",
    "policy": "support",
    "episode_id": "e1",
    "decision_id": None,
    "served_action": "small",
    "trajectory": {"terminated": True},
    "source": "app",
}
OUTCOME = {
    "n": 2,
    "key": "outcome-1",
    "payload_hash": "h2",
    "policy": "support",
    "episode_id": "e1",
    "decision_id": None,
    "signal": "TASK_SUCCESS",
    "payload": {"value": 1.0},
    "served_action": None,
}
DIVIDED = ("allocation", "audit_event", "decision", "episode", "episode_event", "evidence", "outcome")
BATCH = {"decisions": [DECISION], "episode_events": [EVENT], "outcomes": [OUTCOME]}


def schema_of(tenant: str) -> str:
    return "t_" + tenant.replace("-", "_")


def role_of(tenant: str) -> str:
    return "kedge_t_" + tenant.replace("-", "_")


def write(connection: psycopg.Connection[Any], tenant: str, batch: dict[str, Any]) -> Any:
    """Write raw rows as the server does; answers what the tenant's `write_rows` says."""
    written = connection.execute("SELECT control.write_batch(%s::jsonb)", (json.dumps({tenant: batch}),))
    return written.fetchall()[0][0][tenant]


def make_first_revision(url: str) -> None:
    """Run the control tree up to its first revision, which knows the first of the tenant tree."""
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://", 1))
    config = Config()
    config.set_main_option("script_location", str(TREES / "control"))
    config.set_main_option("path_separator", "os")
    with engine.begin() as connection:
        config.attributes.update(connection=connection, schema="control")
        command.upgrade(config, "c0001")
    engine.dispose()


@pytest.fixture(scope="module")
def upgraded(fresh_database: str) -> Iterator[tuple[psycopg.Connection[Any], dict[str, Any], dict[str, Any]]]:
    """Give a connection to the upgraded database, and the rows of the full tenant and of control before it."""
    make_first_revision(fresh_database)
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        for tenant in (EMPTY, FULL):
            connection.execute("SELECT control.create_tenant(%s, true)", (tenant,))
        connection.execute(FIRST_ROWS.replace("{schema}", schema_of(FULL)))
        write(connection, FULL, BATCH)
        connection.execute(
            "INSERT INTO control.api_key (key_id, key_hash, principal, role, tenant)"
            " VALUES ('k', 'h', 'app', 'VIEWER', %s)",
            (FULL,),
        )
        connection.execute("INSERT INTO control.mode_change (mode, actor, because) VALUES ('FROZEN', 'a', 'b')")
        before, control = rows_of(connection, schema_of(FULL)), rows_of(connection, "control")
        address = fresh_database.replace("postgresql://", "postgresql+psycopg://", 1)
        assert (upgrade(address), upgrade(address)) == (2, 0)
        connection.execute("SELECT control.create_tenant(%s)", (FRESH,))
        assert connection.execute("SELECT control.extend_partitions('')").fetchall() == [(None,)]
        divided = [connection.execute("SELECT control.divide_next(0)").fetchall()[0][0] for _ in range(8)]
        assert sorted(divided[:7]) == [f"{schema_of(FRESH)}.{name}" for name in DIVIDED]
        assert divided[7] is None
        yield connection, before, control
        for tenant in (EMPTY, FULL, FRESH):
            connection.execute(f"DROP SCHEMA {schema_of(tenant)} CASCADE")
            connection.execute(f"DROP OWNED BY {role_of(tenant)}")
            connection.execute(f"DROP ROLE {role_of(tenant)}")


Upgraded = tuple[psycopg.Connection[Any], dict[str, Any], dict[str, Any]]


def test_the_first_revision_was_full(upgraded: Upgraded) -> None:
    _, before, control = upgraded

    assert [name for name, rows in before.items() if not rows] == []
    assert [name for name, rows in control.items() if not rows] == []


@pytest.mark.parametrize("tenant", [EMPTY, FULL])
def test_a_schema_that_came_to_head_is_like_one_that_was_made_there(upgraded: Upgraded, tenant: str) -> None:
    connection, _, _ = upgraded

    made = catalog(connection, schema_of(FRESH), role_of(FRESH))
    came = catalog(connection, schema_of(tenant), role_of(tenant))

    assert [line for line in came if line not in made] == []
    assert [line for line in made if line not in came] == []
    assert len(made) > 200


@pytest.mark.parametrize(
    "planted",
    [
        "ALTER TABLE {schema}.cell ADD COLUMN more text",
        "ALTER TABLE {schema}.cell ALTER COLUMN n TYPE real",
        "ALTER TABLE {schema}.cell ALTER COLUMN n SET DEFAULT 0",
        "ALTER TABLE {schema}.cell ALTER COLUMN n DROP NOT NULL",
        "ALTER TABLE {schema}.cell ADD CHECK (n >= 0)",
        "CREATE INDEX ON {schema}.cell (n)",
        "GRANT DELETE ON {schema}.audit_event TO {role}",
        "GRANT UPDATE (weight) ON {schema}.evidence TO {role}",
        "GRANT EXECUTE ON FUNCTION {schema}.write_rows(jsonb) TO PUBLIC",
        "CREATE OR REPLACE FUNCTION {schema}.write_rows(rows jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT rows'",
        "ALTER TABLE {schema}.policy DISABLE TRIGGER ALL",
        "GRANT CREATE ON SCHEMA {schema} TO {role}",
    ],
)
def test_a_planted_difference_is_seen(upgraded: Upgraded, planted: str) -> None:
    connection, _, _ = upgraded
    schema, role = schema_of(EMPTY), role_of(EMPTY)
    before = catalog(connection, schema, role)

    with connection.transaction(force_rollback=True):
        connection.execute(planted.replace("{schema}", schema).replace("{role}", role))
        assert catalog(connection, schema, role) != before


def test_every_row_is_kept_with_every_column_that_is_still_there(upgraded: Upgraded) -> None:
    connection, before, control = upgraded

    _assert_kept(before, rows_of(connection, schema_of(FULL)))
    _assert_kept(control, rows_of(connection, "control"))


def _assert_kept(before: dict[str, Any], after: dict[str, Any]) -> None:
    changed = {"alembic_version", "tenant", "tenant_revision"}
    for table, rows in before.items():
        columns = after[table][0].keys() if after[table] else rows[0].keys()
        was = [{name: row[name] for name in row if name in columns} for row in rows]
        now = [{name: row[name] for name in rows[0] if name in columns} for row in after[table]]
        if table in changed:
            assert len(now) >= len(was)
        else:
            assert _sorted(now) == _sorted(was), table


def _sorted(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def test_no_column_that_held_something_is_gone_but_the_one_that_another_replaced(upgraded: Upgraded) -> None:
    connection, before, _ = upgraded
    after = rows_of(connection, schema_of(FULL))

    gone = {(table, name) for table, rows in before.items() for name in rows[0] if name not in after[table][0]}

    assert gone == {("allocation", "budget_spent"), ("policy_state", "budget_spent")}
    for table, key in (("allocation", "allocation_version"), ("policy_state", "policy")):
        spent = {row[key] for row in before[table] if row["budget_spent"]}
        assert {row[key] for row in after[table] if row["closed"] == "BUDGET"} == spent
        assert {row["closed"] for row in after[table] if row[key] not in spent} == {None}


def test_every_tenant_is_stamped_with_the_head(upgraded: Upgraded) -> None:
    connection, _, _ = upgraded

    revisions = connection.execute("SELECT DISTINCT revision FROM control.tenant").fetchall()
    assert (
        revisions
        == connection.execute("SELECT revision FROM control.tenant_revision ORDER BY ordinal DESC LIMIT 1").fetchall()
    )
    for tenant in (EMPTY, FULL, FRESH):
        stamped = connection.execute(f"SELECT version_num FROM {schema_of(tenant)}.alembic_version").fetchall()
        assert stamped == revisions


@pytest.mark.parametrize("tenant", [EMPTY, FULL])
def test_an_upgraded_tenant_is_written_to_as_ever(upgraded: Upgraded, tenant: str) -> None:
    connection, _, _ = upgraded
    fresh = DECISION | {"decision_id": "00000000-0000-7000-8000-000000000002", "episode_id": "e2"}

    answer = write(connection, tenant, BATCH | {"decisions": [DECISION, fresh]})

    assert answer["superseded"] == []
    assert answer["outcome_duplicates"] == ([2] if tenant == FULL else [])
    assert connection.execute(f"SELECT count(*) FROM {schema_of(tenant)}.decision").fetchone() == (2,)
