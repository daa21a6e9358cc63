"""Keep keys and bindings in the control schema, every change with its audit event in the tenant's chain."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Row, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from kedge_bandit.adapters.postgres import control_tables as tables
from kedge_bandit.adapters.postgres.identity_rows import binding_of, maker_columns, stored_key
from kedge_bandit.adapters.postgres.tenants import enter, transaction
from kedge_bandit.application.administration_ports import WriteId
from kedge_bandit.application.identity_ports import KeptBinding, KeptKey
from kedge_bandit.domain.api_key import StoredKey
from kedge_bandit.domain.audit import Fact
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.errors import TenantDenied
from kedge_bandit.domain.identity import Binding, CredentialNotFound

_KEYS, _BINDINGS = tables.api_key, tables.identity_binding
_KEY, _BOUND = _KEYS.c, _BINDINGS.c
_ONCE: Final = WriteId()


class PostgresIdentities:
    """The control schema; each method is one transaction."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def add_key(self, key: StoredKey, change: Change) -> bool:
        """Store a tenant's key; False when the id is taken. Raises TenantDenied."""
        facts: dict[str, Fact] = {"key_id": key.key_id, "principal": key.principal, "role": key.role.value}
        if key.person is not None:
            facts["person"] = str(key.person)
        if key.expire_time is not None:
            facts["expire_time"] = key.expire_time.isoformat()
        row = {
            "key_id": key.key_id,
            "key_hash": key.key_hash,
            "principal": key.principal,
            "role": key.role.value,
            "tenant": key.tenant,
            "expire_time": key.expire_time,
            "person_issuer": key.person and key.person.issuer,
            "person_subject": key.person and key.person.subject,
            **maker_columns(key.made_by),
        }
        async with transaction(self._engine) as connection:
            await _check_tenant(connection, change.tenant)
            added = upsert(_KEYS).values(row).on_conflict_do_nothing().returning(_KEY.key_id)
            if (await connection.execute(added)).one_or_none() is None:
                return False
            await _audit(connection, change, _ONCE, "key.created", f"keys/{key.key_id}", facts)
        return True

    async def keys(self, tenant: str, *, after: str, limit: int) -> Sequence[KeptKey]:
        """Read a tenant's keys by id, those after an id. Raises TenantDenied."""
        wanted = select(_KEYS).where(_KEY.tenant == tenant, _KEY.key_id > after).order_by(_KEY.key_id).limit(limit)
        async with transaction(self._engine) as connection:
            await _check_tenant(connection, tenant)
            return [_kept_key(row) for row in await connection.execute(wanted)]

    async def revoke_key(self, key_id: str, change: Change, write: WriteId) -> KeptKey:
        """End a key; one that is revoked already stays so.

        Raises:
            CredentialNotFound: the tenant has no such key.
            TenantDenied: there is no such tenant.
        """
        mine = (_KEY.tenant == change.tenant, _KEY.key_id == key_id)
        async with transaction(self._engine) as connection:
            await _check_tenant(connection, change.tenant)
            ended = update(_KEYS).where(*mine, _KEY.revoke_time.is_(None)).values(revoke_time=func.clock_timestamp())
            is_new = (await connection.execute(ended)).rowcount > 0
            found = (await connection.execute(select(_KEYS).where(*mine))).one_or_none()
            if found is None:
                raise CredentialNotFound(key_id)
            if is_new:
                facts: dict[str, Fact] = {"key_id": key_id, "principal": found.principal, "role": found.role}
                await _audit(connection, change, write, "key.revoked", f"keys/{key_id}", facts)
        return _kept_key(found)

    async def bind(self, binding: Binding, change: Change, write: WriteId) -> KeptBinding:
        """Bind a certificate's name to a role in the change's tenant; bound again: a new role, the first maker.

        Raises:
            TenantDenied: there is no such tenant.
        """
        row = {
            "tenant": binding.tenant,
            "name": binding.name,
            "role": binding.role.value,
            **maker_columns(binding.made_by),
        }
        async with transaction(self._engine) as connection:
            await _check_tenant(connection, change.tenant)
            put = (
                upsert(_BINDINGS)
                .values(row)
                .on_conflict_do_update(index_elements=[_BOUND.tenant, _BOUND.name], set_={"role": binding.role.value})
            )
            found = (await connection.execute(put.returning(_BINDINGS))).one()
            facts: dict[str, Fact] = {"name": binding.name, "role": binding.role.value}
            await _audit(connection, change, write, "identity.bound", "identities", facts)
        return KeptBinding(binding_of(found), found.create_time)

    async def bindings(self, tenant: str, *, after: str, limit: int) -> Sequence[KeptBinding]:
        """Read a tenant's bindings by name, those after a name. Raises TenantDenied."""
        mine = select(_BINDINGS).where(_BOUND.tenant == tenant, _BOUND.name > after)
        async with transaction(self._engine) as connection:
            await _check_tenant(connection, tenant)
            found = await connection.execute(mine.order_by(_BOUND.name).limit(limit))
            return [KeptBinding(binding_of(row), row.create_time) for row in found]

    async def unbind(self, name: str, change: Change, write: WriteId) -> None:
        """End a binding.

        Raises:
            CredentialNotFound: the name is bound to nothing in this tenant.
            TenantDenied: there is no such tenant.
        """
        async with transaction(self._engine) as connection:
            await _check_tenant(connection, change.tenant)
            ended = delete(_BINDINGS).where(_BOUND.tenant == change.tenant, _BOUND.name == name)
            gone = (await connection.execute(ended.returning(_BOUND.role))).scalar_one_or_none()
            if gone is None:
                raise CredentialNotFound(name)
            await _audit(connection, change, write, "identity.unbound", "identities", {"name": name, "role": gone})


async def _check_tenant(connection: AsyncConnection, tenant: str) -> None:
    wanted = select(tables.control_tenant.c.name).where(tables.control_tenant.c.name == tenant)
    if (await connection.execute(wanted)).one_or_none() is None:
        raise TenantDenied


async def _audit(
    connection: AsyncConnection, change: Change, write: WriteId, verb: str, of: str, facts: Mapping[str, Fact]
) -> None:
    """Write the audit event under the tenant's role, last of all, unless this very request wrote it before."""
    ledger = await enter(connection, change.tenant)
    if await ledger.policies.is_first(write):
        await ledger.audit.append(change.event(verb, f"tenants/{change.tenant}/{of}", facts))


def _kept_key(row: Row[Any]) -> KeptKey:
    return KeptKey(stored_key(row), row.create_time, row.revoke_time)
