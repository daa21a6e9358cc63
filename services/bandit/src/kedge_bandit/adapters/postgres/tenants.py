"""Keep what belongs to no tenant: the list of tenants, and the mode of everything."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import asdict, fields
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import Row, Update, func, insert, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from kedge_bandit.adapters.postgres import control_tables, tables
from kedge_bandit.adapters.postgres.governance import HEARD_FIRST
from kedge_bandit.adapters.postgres.ledger import ON_DISK, UNKNOWN_TENANT, PostgresLedger, role_of, schema_of
from kedge_bandit.application.administration_ports import SettingsChange, Tenant, TenantSettings, WriteId
from kedge_bandit.domain.audit import AuditEvent
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.errors import StoreUnavailable, TenantDenied, TenantExists
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.mode import Mode, ModeChange

_DUPLICATE_SCHEMA: Final = "42P06"
_TICK: Final = timedelta(microseconds=1)

_TENANT = control_tables.control_tenant.c
_MODE = control_tables.global_mode_change.c


class PostgresTenants:
    """The control schema; each method is one transaction."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def onboard(self, settings: TenantSettings, change: Change, write: WriteId) -> Tenant:
        """Make a tenant's schema and role with its first audit event.

        Raises:
            TenantExists: there is one of that name, and it was not made by this very request.
        """
        tenant = change.tenant
        event = change.event("tenant.onboarded", f"tenants/{tenant}", asdict(settings))
        try:
            async with transaction(self._engine) as connection:
                await connection.execute(select(func.control.create_tenant(tenant, settings.store_content)))
                if settings != TenantSettings(store_content=settings.store_content):
                    await connection.execute(_put(tenant, settings))
                ledger = await enter(connection, tenant)
                await ledger.policies.is_first(write)
                await ledger.audit.append(event)
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) != _DUPLICATE_SCHEMA:
                raise
            if not await self._made_by(tenant, write):
                raise TenantExists(await self._why_taken(tenant)) from error
        return await self._get(tenant)

    async def _why_taken(self, tenant: TenantId) -> str:
        known = select(_TENANT.name).where(_TENANT.name == tenant)
        async with transaction(self._engine) as connection:
            if (await connection.execute(known)).one_or_none() is None:
                return f"a tenant named {tenant} was erased, and its keys would open a new one: choose another name"
        return f"tenant {tenant} exists: use it, or choose another name"

    async def update(self, changed: SettingsChange, change: Change, write: WriteId) -> Tenant:
        """Change a tenant's settings with an audit event in its chain; a repeated request changes nothing.

        Raises:
            TenantDenied: there is no such tenant.
            InvalidValue: a setting cannot be that.
            IdempotencyConflict: the request's id was used for something else.
        """
        await self._get(change.tenant)
        wanted = select(control_tables.control_tenant).where(_TENANT.name == change.tenant).with_for_update()
        async with transaction(self._engine) as connection:
            ledger = await enter(connection, change.tenant)
            if await ledger.policies.is_first(write):
                # The change first, the audit event last, as every other writer does: else two wait for each other.
                await connection.execute(select(func.set_config("role", "none", True)))
                settings = changed.of(_tenant((await connection.execute(wanted)).one()).settings)
                await connection.execute(_put(change.tenant, settings))
                ledger = await enter(connection, change.tenant)
                event = change.event("tenant.configured", f"tenants/{change.tenant}", asdict(settings))
                await ledger.audit.append(event)
        return await self._get(change.tenant)

    async def list(self, *, after: str, limit: int) -> Sequence[Tenant]:
        """Read tenants by name, those after a name."""
        wanted = select(control_tables.control_tenant).where(_TENANT.name > after).order_by(_TENANT.name).limit(limit)
        async with transaction(self._engine) as connection:
            return [_tenant(row) for row in await connection.execute(wanted)]

    async def global_mode_changes(self) -> Sequence[ModeChange]:
        """Read every change of the mode of everything, oldest first."""
        wanted = select(_MODE.mode, _MODE.change_time, _MODE.actor).order_by(_MODE.change_id)
        async with transaction(self._engine) as connection:
            rows = await connection.execute(wanted)
            return [ModeChange("global", Mode(row.mode), row.change_time, row.actor) for row in rows]

    async def put_global_mode(self, mode: Mode, event: AuditEvent) -> None:
        """Change the mode of everything; NOTIFY at commit, the answer when it is on disk."""
        async with transaction(self._engine) as connection:
            newest = (await connection.execute(select(func.max(_MODE.change_time)))).scalar_one()
            row = {
                "mode": mode.value,
                "change_time": event.time if newest is None else max(event.time, newest + _TICK),
                "actor": event.actor.name,
                "because": event.because,
            }
            await connection.execute(HEARD_FIRST)
            await connection.execute(insert(control_tables.global_mode_change).values(row))
        async with transaction(self._engine) as connection:
            await connection.execute(ON_DISK)

    async def _made_by(self, tenant: TenantId, write: WriteId) -> bool:
        """Say whether a tenant was made by this request. Raises IdempotencyConflict for the id with another payload."""
        if not write.request_id:
            return False
        async with transaction(self._engine) as connection:
            ledger = await enter(connection, tenant)
            is_first = await ledger.policies.is_first(write)
            await connection.rollback()  # an id that made nothing is not remembered
        return not is_first

    async def _get(self, tenant: TenantId) -> Tenant:
        wanted = select(control_tables.control_tenant).where(_TENANT.name == tenant)
        async with transaction(self._engine) as connection:
            found = (await connection.execute(wanted)).one_or_none()
        if found is None:
            raise TenantDenied
        return _tenant(found)


@asynccontextmanager
async def transaction(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """Open a transaction of the control schema; commits on a clean exit. Raises StoreUnavailable."""
    try:
        connection = await engine.connect()
    except (DBAPIError, OSError, PoolTimeout) as error:
        raise StoreUnavailable("the database cannot be reached: send the same request again later") from error
    async with aclosing(connection):
        yield connection
        await connection.commit()


async def enter(connection: AsyncConnection, tenant: TenantId) -> PostgresLedger:
    """Go on in the open transaction under the tenant's role. Raises TenantDenied where it was erased meanwhile."""
    try:
        await connection.execute(select(func.set_config("role", role_of(tenant), True)))
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) in UNKNOWN_TENANT:
            raise TenantDenied from error
        raise
    translated = await connection.execution_options(schema_translate_map={tables.TENANT: schema_of(tenant)})
    return PostgresLedger(tenant, translated)


def _put(tenant: TenantId, settings: TenantSettings) -> Update:
    return update(control_tables.control_tenant).where(_TENANT.name == tenant).values(**asdict(settings))


def _tenant(row: Row[Any]) -> Tenant:
    settings = TenantSettings(**{field.name: getattr(row, field.name) for field in fields(TenantSettings)})
    return Tenant(TenantId(row.name), settings, row.create_time)
