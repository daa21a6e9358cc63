"""Turn Core statements into text once, and run it on the raw driver: the worker's passes are many and small.

A statement that SQLAlchemy executes costs three to four times the driver's own work. The text has a token where the
tenant's schema goes, so that it is compiled once for all tenants. Parameters are written into the text as literals by
the driver, so that several statements travel in one message, and none is prepared: prepared statements of many schemas
cost the database more memory than they save time.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from psycopg import AsyncClientCursor, AsyncConnection
from psycopg import sql as literals
from psycopg.rows import namedtuple_row
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncConnection as CoreConnection
from sqlalchemy.sql.compiler import Compiled
from sqlalchemy.sql.elements import ClauseElement

from kedge_bandit.adapters.postgres.tables import TENANT

SCHEMA = f"__[SCHEMA_{TENANT}]"
"""What Core writes for a schema that is put in later."""
PATIENCE_SECONDS = 30.0
"""For one message, which takes milliseconds; a connection that carries nothing any more is given up then."""
_PARAMETER = re.compile(r"%\((\w+)\)s")
_DIALECT = create_engine("postgresql+psycopg://").dialect


@dataclass(frozen=True, slots=True)
class Text:
    """A statement.

    Attributes:
        parts: text and names of parameters in turns, text first and last.
        values: of parameters that never change.
    """

    parts: tuple[str, ...]
    values: Mapping[str, object]

    def written(self, schema: str, values: Mapping[str, object], connection: AsyncConnection[Any]) -> bytes:
        """Write the statement for a tenant with these values."""
        known = {**values, **self.values}
        pieces = [
            literals.Literal(known[part]).as_bytes(connection) if place % 2 else part.replace(SCHEMA, schema).encode()
            for place, part in enumerate(self.parts)
        ]
        return b"".join(pieces)


def text(sql: str, **values: object) -> Text:
    """Take a statement with parameters in the driver's way, `%(name)s`, and the schema's token.

    >>> text("SELECT %(one)s::int, 5 %% 2").parts
    ('SELECT ', 'one', '::int, 5 % 2')
    """
    parts = _PARAMETER.split(sql)
    parts[::2] = [part.replace("%%", "%") for part in parts[::2]]
    return Text(tuple(parts), values)


@cache
def text_of(statement: ClauseElement) -> Text:
    """Compile a statement that lives as long as the process."""
    compiled = _compiled(statement)
    return text(str(compiled), **{name: value for name, value in compiled.params.items() if value is not None})


def sql_of(statement: ClauseElement) -> str:
    """Compile a statement without values of its own, as a piece of a larger one."""
    return str(_compiled(statement))


def _compiled(statement: ClauseElement) -> Compiled:
    return statement.compile(dialect=_DIALECT, schema_translate_map={TENANT: TENANT})


async def run(
    connection: AsyncConnection[Any], schema: str, *statements: tuple[Text, Mapping[str, object]]
) -> list[Sequence[Any]]:
    """Run statements in one message.

    Returns:
        The rows of each statement; none for one that answers no rows.

    Raises:
        TimeoutError: no answer in half a minute; the connection carries nothing any more, or the database is sick.
    """
    message = b";\n".join(one.written(schema, values, connection) for one, values in statements)
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        AsyncClientCursor(connection, row_factory=namedtuple_row) as cursor,
    ):
        await cursor.execute(message)
        answers: list[Sequence[Any]] = [await cursor.fetchall() if cursor.description else ()]
        while cursor.nextset():
            answers.append(await cursor.fetchall() if cursor.description else ())
    return answers


@dataclass(slots=True)
class TenantConnection:
    """The driver's connection below Core's, with the schema that texts are written for."""

    core: CoreConnection
    schema: str
    raw: AsyncConnection[Any] | None = None

    async def run(self, *statements: tuple[Text, Mapping[str, object]]) -> list[Sequence[Any]]:
        """Run statements in one message, in Core's transaction; gives the rows of each."""
        if self.raw is None:
            below: Any = (await self.core.get_raw_connection()).driver_connection
            self.raw = below
        return await run(self.raw, self.schema, *statements)
