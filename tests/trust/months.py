"""Make what a tenant has into the past: its rows are moved into a month that is over."""

from functools import partial
from typing import Any

from psycopg import sql
from psycopg.errors import LockNotAvailable

from tests.fixtures.stack import Stack, wait_for

TIMES = {
    "decision": "decision_time",
    "episode_event": "receive_time",
    "outcome": "receive_time",
    "episode": "open_time",
    "evidence": "settle_time",
}
"""Column by which each of these tables is cut into months."""


def age(stack: Stack, tenant: str, *, days: int) -> None:
    """Move everything that is less than 60 days old so many days back; what was learned of it stays as it is."""
    schema = f"t_{tenant}"
    for table in TIMES:
        wait_for(partial(_has_month, stack, f"{schema}.{table}", days), f"a month of {table}")
    with stack.connect() as owner, owner.transaction():
        owner.execute(sql.SQL("SELECT 1 FROM {} FOR UPDATE").format(sql.Identifier(schema, "fold_state")))
        for table, column in TIMES.items():
            _move(owner, schema, table, column, days)
        _move(owner, schema, "decision_key", "decision_time", days)


def _has_month(stack: Stack, table: str, days: int) -> bool:
    """Ask for the partition of that time; False where a write held the table, as dividing waits half a second only."""
    asked = "SELECT control.ensure_partitions(%s::regclass, (now() - make_interval(days => %s))::date, 1)"
    try:
        with stack.connect() as owner:
            owner.execute(asked, (table, days))
    except LockNotAvailable:
        return False
    return True


def _move(owner: Any, schema: str, table: str, column: str, days: int) -> None:
    moved = (
        "UPDATE {} SET {} = date_trunc('day', now() - make_interval(days => {})) + interval '1 hour'"
        " WHERE {} > now() - interval '60 days'"
    )
    place, time = sql.Identifier(schema, table), sql.Identifier(column)
    owner.execute(sql.SQL(moved).format(place, time, sql.Literal(days), time))


def cells_of(stack: Stack, tenant: str) -> list[tuple[Any, ...]]:
    """Read what the worker keeps of every cell, digit by digit."""
    with stack.connect() as owner:
        return owner.execute(f"SELECT * FROM t_{tenant}.cell ORDER BY policy, bucket, action").fetchall()


def partitions_of(stack: Stack, tenant: str) -> set[str]:
    """Name the partitions of a tenant's tables."""
    asked = (
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relispartition AND c.relkind = 'r'"
    )
    with stack.connect() as owner:
        return {name for (name,) in owner.execute(asked, (f"t_{tenant}",)).fetchall()}
