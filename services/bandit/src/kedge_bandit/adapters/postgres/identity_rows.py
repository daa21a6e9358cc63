"""Turn rows of keys and bindings into what the domain knows."""

from typing import Any

from sqlalchemy import Row

from kedge_bandit.domain.api_key import StoredKey
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.identity import Binding
from kedge_bandit.domain.principal import Maker, Person, Role


def stored_key(row: Row[Any]) -> StoredKey:
    """Read a key."""
    return StoredKey(
        key_id=row.key_id,
        key_hash=row.key_hash,
        principal=row.principal,
        role=Role(row.role),
        tenant=None if row.tenant is None else TenantId(row.tenant),
        person=person_of(row),
        made_by=maker_of(row),
        expire_time=row.expire_time,
        is_revoked=row.revoke_time is not None,
    )


def person_of(row: Row[Any]) -> Person | None:
    """Read whom a key stands for."""
    return None if row.person_issuer is None else Person(row.person_issuer, row.person_subject)


def binding_of(row: Row[Any]) -> Binding:
    """Read a binding."""
    return Binding(row.name, TenantId(row.tenant), Role(row.role), maker_of(row))


def maker_of(row: Row[Any]) -> Maker:
    """Read who made a credential."""
    known = row.made_by_issuer is not None
    return Maker(Person(row.made_by_issuer, row.made_by_subject) if known else None, row.made_by_operator)


def maker_columns(maker: Maker) -> dict[str, object]:
    """Write who made a credential."""
    return {
        "made_by_issuer": maker.person and maker.person.issuer,
        "made_by_subject": maker.person and maker.person.subject,
        "made_by_operator": maker.is_operator,
    }
