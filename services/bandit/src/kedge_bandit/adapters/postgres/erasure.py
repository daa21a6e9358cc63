"""Remove a tenant or an end user by the functions that the migrations make."""

from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.sql.functions import Function

from kedge_bandit.adapters.postgres.tenants import enter, transaction
from kedge_bandit.domain.audit import Actor
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.errors import StoreUnavailable, TenantDenied
from kedge_bandit.domain.identifiers import TenantId

_LOCK_NOT_AVAILABLE = "55P03"


class PostgresEraser:
    """Erasure by the service's login; the functions run with the rights of the schemas' owner."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def erase_tenant(self, tenant: TenantId, actor: Actor, because: str) -> int | None:
        """Remove a tenant."""
        async with transaction(self._engine) as connection:
            return await _removed(connection, func.control.erase_tenant(tenant, actor.name, because))

    async def erase_user(self, user: str, user_hash: str, change: Change) -> int:
        """Remove an end user, with an audit event in the same transaction."""
        async with transaction(self._engine) as connection:
            rows = await _removed(connection, func.control.erase_user(change.tenant, user_hash, user))
            if rows is None:
                raise TenantDenied
            ledger = await enter(connection, change.tenant)
            subject = f"tenants/{change.tenant}/endUsers/erased"
            await ledger.audit.append(change.event("user.erased", subject, {"rows_erased": rows}))
        return rows


async def _removed(connection: AsyncConnection, call: Function[int | None]) -> int | None:
    try:
        rows: int | None = (await connection.execute(select(call))).scalar_one()
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
            raise StoreUnavailable("the tenant is busy: erase it again, nothing is gone yet") from error
        raise
    return rows
