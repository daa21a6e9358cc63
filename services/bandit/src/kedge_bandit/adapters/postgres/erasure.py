"""Remove a tenant or an end user by the functions that the migrations make."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from kedge_bandit.adapters.postgres.tenants import enter, transaction
from kedge_bandit.domain.audit import Actor
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.errors import StoreUnavailable, TenantDenied
from kedge_bandit.domain.identifiers import TenantId

_T = TypeVar("_T")
_LOCK_NOT_AVAILABLE = "55P03"
_ATTEMPTS: Final = 10
_PAUSE: Final = 0.5  # seconds


class PostgresEraser:
    """Erasure by the service's login; the functions run with the rights of the schemas' owner."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def erase_tenant(self, tenant: TenantId, actor: Actor, because: str) -> int | None:
        """Remove a tenant. Raises StoreUnavailable while somebody reads it for long."""

        async def attempt() -> int | None:
            async with transaction(self._engine) as connection:
                erase = select(func.control.erase_tenant(tenant, actor.name, because))
                rows: int | None = (await connection.execute(erase)).scalar_one()
            return rows

        return await _until_free(attempt)

    async def erase_user(self, user: str, user_hash: str, change: Change) -> int:
        """Remove an end user, with an audit event in the same transaction. Raises StoreUnavailable, TenantDenied."""

        async def attempt() -> int:
            async with transaction(self._engine) as connection:
                erase = select(func.control.erase_user(change.tenant, user_hash, user))
                rows: int | None = (await connection.execute(erase)).scalar_one()
                if rows is None:
                    raise TenantDenied
                ledger = await enter(connection, change.tenant)
                subject = f"tenants/{change.tenant}/endUsers/erased"
                await ledger.audit.append(change.event("user.erased", subject, {"rows_erased": rows}))
            return rows

        return await _until_free(attempt)


async def _until_free(attempt: Callable[[], Awaitable[_T]]) -> _T:
    """Try for some seconds, each time in a transaction of its own: all tenants' learning waits for an open one."""
    for _ in range(_ATTEMPTS):
        try:
            return await attempt()
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
                raise
        await asyncio.sleep(_PAUSE)
    raise StoreUnavailable("the tenant is busy: erase it again, nothing is gone yet")
