"""Set webhooks up, and read what became of their messages."""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from kedge_bandit.application.administration_ports import GovernedLedger
from kedge_bandit.application.govern import Order
from kedge_bandit.application.ports import Clock
from kedge_bandit.domain.audit import AuditEvent, ChainedEvent, Fact
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.webhook import SECRET_BYTES, Delivery, DeliveryState, Webhook, check_url, new_secret


@dataclass(frozen=True, slots=True)
class KeptWebhook:
    """A webhook as it is stored; its secret stays there."""

    webhook: Webhook
    create_time: datetime
    update_time: datetime


@dataclass(frozen=True, slots=True)
class Due:
    """A message whose attempt was claimed: nobody else sends it for a minute."""

    delivery: Delivery
    webhook: Webhook
    event: ChainedEvent | None


class Webhooks(Protocol):
    """The webhooks of the open tenant."""

    async def list(self) -> Sequence[KeptWebhook]:
        """Read all by name."""

    async def put(self, webhook: Webhook, event: AuditEvent) -> KeptWebhook:
        """Store one with its event; a new one is told of what comes after."""

    async def delete(self, name: str, event: AuditEvent) -> None:
        """Remove one with its messages. Raises WebhookNotFound."""

    async def test(self, name: str, at: datetime) -> Delivery:
        """Add a test message. Raises WebhookNotFound."""

    async def deliveries(self, name: str, *, before: int | None, limit: int) -> Sequence[Delivery]:
        """Read messages newest first. Raises WebhookNotFound."""

    async def redeliver(self, name: str, number: int, at: datetime) -> Delivery:
        """Send a message again. Raises WebhookNotFound."""

    async def enqueue(self, now: datetime, *, limit: int) -> bool:
        """Make messages of audit events that came; says whether more events wait."""

    async def claim(self, now: datetime, *, limit: int) -> Sequence[Due]:
        """Take messages whose attempt is due, and count it."""

    async def attempted(self, number: int, state: DeliveryState, due: datetime | None, answer: str) -> None:
        """Store what became of an attempt."""


class HookedLedger(GovernedLedger, Protocol):
    """One tenant's record with its webhooks, open for one transaction."""

    @property
    def webhooks(self) -> Webhooks:
        """Who is told of what."""


class HookedLedgers(Protocol):
    """Opens ledgers with webhooks."""

    def open(self, tenant: TenantId) -> AbstractAsyncContextManager[HookedLedger]:
        """Open one tenant's record. Raises TenantDenied for an unknown tenant, StoreUnavailable without a database."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """Where messages may go.

    Attributes:
        hosts: that the operator allows; "*": any.
        loopback: this machine may be told too, also without TLS.
    """

    hosts: Collection[str]
    loopback: bool

    def check(self, url: str) -> None:
        """Refuse an address that nothing may be sent to. Raises InvalidValue."""
        check_url(url, self.hosts, allows_loopback=self.loopback)


@dataclass(frozen=True, slots=True)
class SetUpWebhooks:
    """Make, change, end, test and read webhooks."""

    ledgers: HookedLedgers
    clock: Clock
    allowed: Allowed
    randomness: Callable[[int], bytes]

    async def put(
        self, tenant: TenantId, wanted: Webhook, order: Order, *, rotate_secret: bool
    ) -> tuple[KeptWebhook, str]:
        """Put one; gives its secret where it was made now, else an empty text. Raises InvalidValue, ReasonRequired."""
        self.allowed.check(wanted.url)
        change = order.change(tenant, self.clock)
        async with self.ledgers.open(tenant) as ledger:
            known = next((one for one in await ledger.webhooks.list() if one.webhook.name == wanted.name), None)
            if not await ledger.policies.is_first(order.write) and known is not None:
                return known, ""
            made = new_secret(self.randomness(SECRET_BYTES)) if known is None or rotate_secret else ""
            secret = made or (known.webhook.secret if known is not None else "")
            webhook = Webhook(name=wanted.name, url=wanted.url, verbs=wanted.verbs, secret=secret)
            facts: dict[str, Fact] = {"url": webhook.url, "verbs": ",".join(webhook.verbs), "new_secret": bool(made)}
            event = change.event("webhook.configured", _subject(tenant, webhook.name), facts)
            return await ledger.webhooks.put(webhook, event), made

    async def delete(self, tenant: TenantId, name: str, order: Order) -> None:
        """End one. Raises WebhookNotFound, ReasonRequired."""
        change = order.change(tenant, self.clock)
        async with self.ledgers.open(tenant) as ledger:
            if await ledger.policies.is_first(order.write):
                await ledger.webhooks.delete(name, change.event("webhook.deleted", _subject(tenant, name), {}))

    async def list(self, tenant: TenantId) -> Sequence[KeptWebhook]:
        """Read all by name. Raises TenantDenied."""
        async with self.ledgers.open(tenant) as ledger:
            return await ledger.webhooks.list()

    async def test(self, tenant: TenantId, name: str) -> Delivery:
        """Send a test. Raises WebhookNotFound."""
        async with self.ledgers.open(tenant) as ledger:
            return await ledger.webhooks.test(name, self.clock.now())

    async def deliveries(self, tenant: TenantId, name: str, *, before: int | None, limit: int) -> Sequence[Delivery]:
        """Read messages newest first. Raises WebhookNotFound."""
        async with self.ledgers.open(tenant) as ledger:
            return await ledger.webhooks.deliveries(name, before=before, limit=limit)

    async def redeliver(self, tenant: TenantId, name: str, number: int) -> Delivery:
        """Send a message again, for another day. Raises WebhookNotFound."""
        async with self.ledgers.open(tenant) as ledger:
            return await ledger.webhooks.redeliver(name, number, self.clock.now())


def _subject(tenant: TenantId, name: str) -> str:
    return f"tenants/{tenant}/webhooks/{name}"
