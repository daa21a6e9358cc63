"""What giving out credentials needs from the outside: keys and bindings of tenants, each change audited."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from kedge_bandit.application.administration_ports import WriteId
from kedge_bandit.domain.api_key import StoredKey
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.identity import Binding


@dataclass(frozen=True, slots=True)
class KeptKey:
    """A key with its times; `revoke_time` is None while it is not revoked."""

    key: StoredKey
    create_time: datetime
    revoke_time: datetime | None


@dataclass(frozen=True, slots=True)
class KeptBinding:
    """A binding and since when it is there."""

    binding: Binding
    create_time: datetime


class Identities(Protocol):
    """Keys and bindings; each method is one transaction with its audit event in the tenant's chain."""

    async def add_key(self, key: StoredKey, change: Change) -> bool:
        """Store a tenant's key; False when the id is taken. Raises TenantDenied."""

    async def keys(self, tenant: str, *, after: str, limit: int) -> Sequence[KeptKey]:
        """Read a tenant's keys by id, those after an id. Raises TenantDenied."""

    async def revoke_key(self, key_id: str, change: Change, write: WriteId) -> KeptKey:
        """End a key; one that is revoked already stays so. Raises CredentialNotFound, TenantDenied."""

    async def bind(self, binding: Binding, change: Change, write: WriteId) -> KeptBinding:
        """Bind a certificate's name to a role in the change's tenant. Raises TenantDenied."""

    async def bindings(self, tenant: str, *, after: str, limit: int) -> Sequence[KeptBinding]:
        """Read a tenant's bindings by name, those after a name. Raises TenantDenied."""

    async def unbind(self, name: str, change: Change, write: WriteId) -> None:
        """End a binding. Raises CredentialNotFound, TenantDenied."""
