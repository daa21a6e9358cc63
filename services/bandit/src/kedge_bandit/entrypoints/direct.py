"""Open the database itself, for the commands that do without a server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import typer
from sqlalchemy.ext.asyncio import AsyncEngine

from kedge_bandit.adapters.embedded import EmbeddedPostgres
from kedge_bandit.entrypoints.connections import engine_of
from kedge_bandit.entrypoints.settings import read_settings


@asynccontextmanager
async def open_database() -> AsyncIterator[AsyncEngine]:
    """Open the given database, or the embedded one beside whoever else uses it."""
    settings = read_settings()
    folder = settings.data_dir / "postgres"
    if not settings.database_url and not folder.exists():
        raise typer.BadParameter(f"there is no database in {folder}: set KEDGE_DATABASE_URL or KEDGE_DATA_DIR")
    embedded = None if settings.database_url else EmbeddedPostgres(folder)
    url = settings.database_url if embedded is None else await asyncio.to_thread(embedded.start)
    engine = engine_of(url)
    try:
        yield engine
    finally:
        await engine.dispose()
        if embedded is not None:
            await asyncio.to_thread(embedded.stop)
