"""Give programs and people credentials of a tenant, and take them back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from kedge_bandit.application.govern import Order
from kedge_bandit.application.identity_ports import Identities, KeptBinding, KeptKey
from kedge_bandit.application.ports import Clock
from kedge_bandit.domain.api_key import KEY_ID_BYTES, SECRET_BYTES, StoredKey, format_key, hash_of, split_key
from kedge_bandit.domain.errors import InvalidName, InvalidValue, PermissionDenied, StoreUnavailable
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.identity import Binding, certificate_name
from kedge_bandit.domain.principal import Maker, Person, Role

MAX_PRINCIPAL = 64
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyWish:
    """What a key should be.

    Attributes:
        principal: who will hold it, 1 to 64 printable characters.
        person: whom it stands for; None for a program.
        expire_time: when it stops working; None: never.
    """

    principal: str
    role: Role
    person: Person | None = None
    expire_time: datetime | None = None


@dataclass(frozen=True, slots=True)
class CreateKey:
    """Make a key for one tenant; the key itself is answered once and never stored.

    Attributes:
        randomness: gives that many random bytes, fit for secrets.
    """

    identities: Identities
    clock: Clock
    randomness: Callable[[int], bytes]

    async def __call__(self, tenant: TenantId, wish: KeyWish, order: Order, *, made_by: Maker) -> str:
        """Make it.

        Raises:
            PermissionDenied: it is to stand for another person than the one who makes it, who is no operator.
            TenantDenied, InvalidName, InvalidValue: unknown tenant; no name; an operator's role, or a past time.
        """
        change = order.change(tenant, self.clock)
        if not wish.principal.strip() or len(wish.principal) > MAX_PRINCIPAL or not wish.principal.isprintable():
            raise InvalidName("principal", wish.principal[:40], "1 to 64 printable characters")
        _check_role(wish.role)
        if wish.person not in (None, made_by.person) and not made_by.is_operator:
            raise PermissionDenied("a key that stands for a person is made by that person or by the operator: ask them")
        if wish.expire_time is not None and wish.expire_time <= change.at:
            raise InvalidValue("expire_time", wish.expire_time.isoformat(), "a time to come, or none")
        for _ in range(_ATTEMPTS):
            key = format_key(self.randomness(KEY_ID_BYTES + SECRET_BYTES))
            key_id, secret = split_key(key) or ("", "")
            stored = StoredKey(
                key_id=key_id,
                key_hash=hash_of(secret),
                principal=wish.principal,
                role=wish.role,
                tenant=tenant,
                person=wish.person,
                made_by=made_by,
                expire_time=wish.expire_time,
            )
            if await self.identities.add_key(stored, change):
                return key
        raise StoreUnavailable("no free key id was found: send the same request again")


@dataclass(frozen=True, slots=True)
class RevokeKey:
    """End a key on every replica."""

    identities: Identities
    clock: Clock

    async def __call__(self, tenant: TenantId, key_id: str, order: Order) -> KeptKey:
        """End it. Raises CredentialNotFound, TenantDenied, ReasonRequired."""
        change = order.change(tenant, self.clock)
        return await self.identities.revoke_key(key_id, change, order.write)


@dataclass(frozen=True, slots=True)
class BindIdentity:
    """Say what the holder of a certificate is in a tenant."""

    identities: Identities
    clock: Clock

    async def __call__(self, tenant: TenantId, name: str, role: Role, order: Order, *, made_by: Maker) -> KeptBinding:
        """Bind it. Raises InvalidName, InvalidValue for an operator's role, TenantDenied, ReasonRequired."""
        change = order.change(tenant, self.clock)
        _check_role(role)
        return await self.identities.bind(Binding(certificate_name(name), tenant, role, made_by), change, order.write)


@dataclass(frozen=True, slots=True)
class UnbindIdentity:
    """End what the holder of a certificate is in a tenant."""

    identities: Identities
    clock: Clock

    async def __call__(self, tenant: TenantId, name: str, order: Order) -> None:
        """End it. Raises CredentialNotFound, TenantDenied, ReasonRequired."""
        change = order.change(tenant, self.clock)
        await self.identities.unbind(certificate_name(name), change, order.write)


@dataclass(frozen=True, slots=True)
class ListCredentials:
    """List a tenant's keys and bindings."""

    identities: Identities

    async def keys(self, tenant: TenantId, *, after: str, limit: int) -> Sequence[KeptKey]:
        """Read keys by id."""
        return await self.identities.keys(tenant, after=after, limit=limit)

    async def bindings(self, tenant: TenantId, *, after: str, limit: int) -> Sequence[KeptBinding]:
        """Read bindings by name."""
        return await self.identities.bindings(tenant, after=after, limit=limit)


def _check_role(role: Role) -> None:
    if role is Role.OPERATOR:
        raise InvalidValue("role", role, "a role in one tenant: an operator belongs to none")
