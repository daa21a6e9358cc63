"""Erase a tenant, or one end user of it; what stays are hashes, and numbers that lead to nobody."""

from dataclasses import dataclass
from typing import Protocol

from kedge_bandit.application.govern import Order
from kedge_bandit.application.ports import Clock
from kedge_bandit.application.record import rater_hash
from kedge_bandit.domain.audit import Actor
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.errors import IllegalTransition, InvalidValue, TenantDenied
from kedge_bandit.domain.identifiers import TenantId, text_id


class Eraser(Protocol):
    """Removes for good, each call one transaction: what was not removed when something broke is all there still."""

    async def erase_tenant(self, tenant: TenantId, actor: Actor, because: str) -> int | None:
        """Remove a tenant; rows that went, now or when it was erased before. None: there never was one."""

    async def erase_user(self, user: str, user_hash: str, change: Change) -> int:
        """Remove an end user of the change's tenant, with an audit event that holds the hash; rows that went.

        Raises TenantDenied.
        """


@dataclass(frozen=True, slots=True)
class EraseTenant:
    """Remove everything of a tenant."""

    eraser: Eraser
    clock: Clock

    async def __call__(self, tenant: TenantId, order: Order, *, confirm: str) -> int:
        """Erase it; again, it answers the same.

        Args:
            confirm: the tenant's name once more.

        Returns:
            Rows that went.

        Raises:
            TenantDenied: there never was such a tenant.
            IllegalTransition: it was not named twice.
            InvalidValue, ReasonRequired: the reason is kept and therefore may not name the tenant.
        """
        _check_reason(order, tenant, self.clock)
        if confirm != tenant:
            raise IllegalTransition("nothing brings a tenant back: name it twice (--yes, or `confirm`)")
        rows = await self.eraser.erase_tenant(tenant, order.actor, order.because)
        if rows is None:
            raise TenantDenied
        return rows


@dataclass(frozen=True, slots=True)
class EraseUser:
    """Remove what is kept of one end user."""

    eraser: Eraser
    clock: Clock

    async def __call__(self, tenant: TenantId, user: str, order: Order) -> int:
        """Erase them; rows that went, 0 where nothing is left. Raises TenantDenied, InvalidValue, ReasonRequired."""
        change = _check_reason(order, text_id(user, field="end_user_id"), self.clock, tenant)
        return await self.eraser.erase_user(user, rater_hash(tenant, user), change)


def _check_reason(order: Order, secret: str, clock: Clock, tenant: TenantId | None = None) -> Change:
    change = order.change(tenant or TenantId(secret), clock)
    change.event("erased", "", {})  # refuses a missing reason
    if secret.casefold() in order.because.casefold():
        raise InvalidValue("because", "naming whom it erases", "a reason that stays when they are gone")
    return change
