"""Bring tenants in."""

from collections.abc import Sequence
from dataclasses import dataclass

from kedge_bandit.application.administration_ports import SettingsChange, Tenant, TenantRegistry, TenantSettings
from kedge_bandit.application.govern import Order
from kedge_bandit.application.ports import Clock
from kedge_bandit.domain.identifiers import TenantId


@dataclass(frozen=True, slots=True)
class OnboardTenant:
    """Make a tenant with its own schema and role."""

    registry: TenantRegistry
    clock: Clock

    async def __call__(self, tenant: TenantId, order: Order, settings: TenantSettings) -> Tenant:
        """Make it. Raises TenantExists, ReasonRequired."""
        change = order.change(tenant, self.clock)
        return await self.registry.onboard(settings, change, order.write)


@dataclass(frozen=True, slots=True)
class UpdateTenant:
    """Change a tenant's settings."""

    registry: TenantRegistry
    clock: Clock

    async def __call__(self, tenant: TenantId, order: Order, changed: SettingsChange) -> Tenant:
        """Change them, once per request. Raises TenantDenied, InvalidValue, ReasonRequired, IdempotencyConflict."""
        change = order.change(tenant, self.clock)
        return await self.registry.update(changed, change, order.write)


@dataclass(frozen=True, slots=True)
class ListTenants:
    """List tenants by name."""

    registry: TenantRegistry

    async def __call__(self, *, after: str, limit: int) -> Sequence[Tenant]:
        """Read those after a name."""
        return await self.registry.list(after=after, limit=limit)
