"""Bring tenants in, and give their applications and people keys."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kedge_bandit.application.administration_ports import Tenant, TenantRegistry, TenantSettings
from kedge_bandit.application.govern import Order
from kedge_bandit.application.ports import Clock
from kedge_bandit.domain.api_key import KEY_ID_BYTES, SECRET_BYTES, StoredKey, format_key, hash_of, split_key
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.errors import InvalidName, InvalidValue, StoreUnavailable
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.principal import Role

MAX_PRINCIPAL = 64
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class OnboardTenant:
    """Make a tenant with its own schema and role."""

    registry: TenantRegistry
    clock: Clock

    async def __call__(self, tenant: TenantId, order: Order, settings: TenantSettings) -> Tenant:
        """Make it. Raises TenantExists, ReasonRequired."""
        change = Change(tenant=tenant, actor=order.actor, because=order.because, at=self.clock.now())
        return await self.registry.onboard(settings, change, order.write)


@dataclass(frozen=True, slots=True)
class UpdateTenant:
    """Replace a tenant's settings."""

    registry: TenantRegistry
    clock: Clock

    async def __call__(self, tenant: TenantId, order: Order, settings: TenantSettings) -> Tenant:
        """Replace them, once per request. Raises TenantDenied, ReasonRequired, IdempotencyConflict."""
        change = Change(tenant=tenant, actor=order.actor, because=order.because, at=self.clock.now())
        return await self.registry.update(settings, change, order.write)


@dataclass(frozen=True, slots=True)
class ListTenants:
    """List tenants by name."""

    registry: TenantRegistry

    async def __call__(self, *, after: str, limit: int) -> Sequence[Tenant]:
        """Read those after a name."""
        return await self.registry.list(after=after, limit=limit)


@dataclass(frozen=True, slots=True)
class CreateKey:
    """Make a key for one tenant; the key itself is answered once and never stored.

    Attributes:
        randomness: gives that many random bytes, fit for secrets.
    """

    registry: TenantRegistry
    clock: Clock
    randomness: Callable[[int], bytes]

    async def __call__(self, tenant: TenantId, principal: str, role: Role, order: Order) -> str:
        """Make it. Raises TenantDenied for an unknown tenant, InvalidName, InvalidValue for an operator's role."""
        if not principal.strip() or len(principal) > MAX_PRINCIPAL or not principal.isprintable():
            raise InvalidName("principal", principal[:40], "1 to 64 printable characters")
        if role is Role.OPERATOR:
            raise InvalidValue("role", role, "CORE_APP, VIEWER or ADMIN: an operator's key belongs to no tenant")
        change = Change(tenant=tenant, actor=order.actor, because=order.because, at=self.clock.now())
        for _ in range(_ATTEMPTS):
            key = format_key(self.randomness(KEY_ID_BYTES + SECRET_BYTES))
            key_id, secret = split_key(key) or ("", "")
            stored = StoredKey(key_id=key_id, key_hash=hash_of(secret), principal=principal, role=role, tenant=tenant)
            if await self.registry.add_key(stored, change):
                return key
        raise StoreUnavailable("no free key id was found: send the same request again")
