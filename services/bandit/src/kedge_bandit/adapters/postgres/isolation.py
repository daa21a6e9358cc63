"""Ask the database how its walls stand, and run against them; every transaction here is rolled back."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Integer, Row, Select, Text, column, func, select, table
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from kedge_bandit.adapters.postgres import control_tables as tables
from kedge_bandit.application.verify_isolation import Attempts, Fault, Places

_NAMESPACE = table("pg_namespace", column("nspname", Text), schema="pg_catalog").c.nspname
_TENANT = tables.control_tenant.c
_GONE = ("42704", "22023")  # no such role: its tenant was erased meanwhile


class PostgresWalls:
    """The walls, seen by the service's login."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def places(self) -> Places:
        """Read who lives where."""
        tenants = select(_TENANT.role_name, _TENANT.schema_name).order_by(_TENANT.name)
        shared = select(_NAMESPACE).where(
            _NAMESPACE.not_like("pg\\_%"),
            _NAMESPACE != "information_schema",
            _NAMESPACE.not_in(select(_TENANT.schema_name)),
        )
        ours = [(row.role_name, row.schema_name) for row in await self._read(tenants)]
        others = [row.nspname for row in await self._read(shared.order_by(_NAMESPACE))]
        (login,) = await self._read(select(func.session_user().label("name")))
        return Places(ours, others, login.name)

    async def faults(self) -> Sequence[Fault]:
        """Inspect the catalogs."""
        found = func.control.isolation_faults().table_valued(
            column("kind", Text), column("object", Text), column("detail", Text)
        )
        return [Fault(row.kind, row.object, row.detail) for row in await self._read(select(found))]

    async def attempt(self, role: str, schema: str) -> Attempts:
        """Try everything in a schema as a role."""
        found = func.control.try_to_reach(role, schema).table_valued(
            column("object", Text), column("action", Text), column("tried", Integer)
        )
        try:
            *reached, total = await self._read(select(found))
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) in _GONE:
                return Attempts(0, [])
            raise
        return Attempts(total.tried, [(row.object, row.action) for row in reached])

    async def _read(self, statement: Select[Any]) -> Sequence[Row[Any]]:
        async with self._engine.connect() as connection:
            rows: Sequence[Row[Any]] = (await connection.execute(statement)).all()
            await connection.rollback()
        return rows
