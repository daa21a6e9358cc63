"""Open connections to the database: a small pool for a process, and single ones beside it."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import orjson
import psycopg
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

Connect = Callable[[], Awaitable[psycopg.AsyncConnection[tuple[Any, ...]]]]

# A database that vanished without a word is noticed in about ten seconds, not in the system's two hours.
_CONNECTION: Final[dict[str, Any]] = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}


def engine_of(url: str, *, size: int = 4) -> AsyncEngine:
    """Open a small pool; connections live for half an hour, since each remembers every schema it has touched."""
    return create_async_engine(
        f"postgresql+psycopg://{url.partition('://')[2]}",
        pool_size=size,
        max_overflow=4,
        pool_recycle=1800,
        json_deserializer=orjson.loads,
        connect_args=_CONNECTION,
    )


def connector(url: str) -> Connect:
    """Make a function that opens an autocommit connection beside the pool."""

    async def connect() -> psycopg.AsyncConnection[tuple[Any, ...]]:
        return await psycopg.AsyncConnection.connect(url, autocommit=True, **_CONNECTION)

    return connect
