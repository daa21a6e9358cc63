"""Turn rows of keys and bindings into what the domain knows."""

from typing import Any

from sqlalchemy import Row

from kedge_bandit.domain.api_key import StoredKey
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.identity import Binding
from kedge_bandit.domain.principal import Person, Role


def stored_key(row: Row[Any]) -> StoredKey:
    """Read a key."""
    return StoredKey(
        key_id=row.key_id,
        key_hash=row.key_hash,
        principal=row.principal,
        role=Role(row.role),
        tenant=None if row.tenant is None else TenantId(row.tenant),
        person=person_of(row),
        expire_time=row.expire_time,
        is_revoked=row.revoke_time is not None,
    )


def person_of(row: Row[Any]) -> Person | None:
    """Read whom a key stands for."""
    return None if row.person_issuer is None else Person(row.person_issuer, row.person_subject)


def binding_of(row: Row[Any]) -> Binding:
    """Read a binding."""
    return Binding(row.name, TenantId(row.tenant), Role(row.role))
