"""Build what lets old months go, for the worker and the command line."""

from datetime import UTC, date, datetime

import structlog
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from kedge_bandit.adapters.postgres import control_tables as tables
from kedge_bandit.adapters.postgres.retention import PostgresRetention
from kedge_bandit.adapters.seals import HmacSeals
from kedge_bandit.application.retain import Retain
from kedge_bandit.domain.errors import KedgeError
from kedge_bandit.domain.identifiers import TenantId

log = structlog.get_logger(__name__)


class LocalClock:
    """This process's clock: what it says of a month is true enough."""

    def now(self) -> datetime:
        """Read it, aware UTC."""
        return datetime.now(UTC)


async def let_months_go(engine: AsyncEngine, tenant: TenantId) -> list[tuple[date, int]]:
    """Drop every month of a tenant that is due; gives them with the rows that went. Raises as Retain does."""
    async with engine.connect() as connection:
        keys = {key.key_id: key.secret for key in await connection.execute(select(tables.token_key))}
    return await Retain(PostgresRetention(engine), HmacSeals(keys), LocalClock())(tenant)


async def let_all_months_go(engine: AsyncEngine) -> None:
    """Do so for every tenant that keeps rows for a time only; what cannot go now is tried again later."""
    row = tables.control_tenant.c
    async with engine.connect() as connection:
        names = (await connection.execute(select(row.name).where(row.retention_days > 0))).scalars().all()
    for name in names:
        try:
            for month, rows in await let_months_go(engine, TenantId(name)):
                log.info("month.dropped", tenant=name, month=month.isoformat()[:7], rows=rows)
        except (KedgeError, DBAPIError, OSError) as error:
            log.warning("month.kept", tenant=name, error=type(error).__name__, detail=str(error)[:200])
