"""Tell webhooks: audit events become messages, and each is tried until it is taken or its day is over."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import structlog

from kedge_bandit.application.ports import Clock
from kedge_bandit.application.webhooks import Allowed, Due, HookedLedgers
from kedge_bandit.domain.errors import InvalidValue
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.webhook import DeliveryState, after_attempt, body_of, id_of, signature

EVENTS, MESSAGES = 200, 20
"""Audit events that are made messages of, and messages that are sent, in one go."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Answered:
    """How a receiver answered: what it said in short, and whether it took the message."""

    text: str
    is_taken: bool


class Post(Protocol):
    """Sends one message."""

    async def __call__(self, url: str, body: bytes, headers: dict[str, str]) -> Answered:
        """Send it; never raises for what a receiver or the network does."""


@dataclass(frozen=True, slots=True)
class TellWebhooks:
    """Tell the webhooks of one tenant what is due."""

    ledgers: HookedLedgers
    clock: Clock
    allowed: Allowed
    post: Post
    told: Callable[[DeliveryState], None] = lambda _state: None

    async def __call__(self, tenant: TenantId) -> bool:
        """Make messages and send those that are due; says whether the tenant has webhooks.

        Raises:
            TenantDenied, StoreUnavailable.
        """
        more = True
        while more:
            async with self.ledgers.open(tenant) as ledger:
                if not await ledger.webhooks.list():
                    return False
                more = await ledger.webhooks.enqueue(self.clock.now(), limit=EVENTS)
        while due := await self._claim(tenant):
            async with asyncio.TaskGroup() as sending:
                for one in due:
                    sending.create_task(self._send(tenant, one))
        return True

    async def _claim(self, tenant: TenantId) -> list[Due]:
        async with self.ledgers.open(tenant) as ledger:
            return list(await ledger.webhooks.claim(self.clock.now(), limit=MESSAGES))

    async def _send(self, tenant: TenantId, due: Due) -> None:
        now = self.clock.now()
        answered = await self._answer(tenant, due, now)
        state, next_time = after_attempt(due.delivery, self.clock.now(), delivered=answered.is_taken)
        async with self.ledgers.open(tenant) as ledger:
            await ledger.webhooks.attempted(due.delivery.number, state, next_time, answered.text)
        self.told(state)
        if state is not DeliveryState.DELIVERED:
            facts = {"webhook": due.webhook.name, "delivery": due.delivery.number, "answer": answered.text}
            log.warning("webhook.not_delivered", tenant=tenant, state=state, **facts)

    async def _answer(self, tenant: TenantId, due: Due, now: datetime) -> Answered:
        try:
            self.allowed.check(due.webhook.url)
        except InvalidValue as error:
            return Answered(str(error)[:200], is_taken=False)
        message_id, at = id_of(tenant, due.delivery), int(now.timestamp())
        body = body_of(tenant, due.event, due.delivery.create_time)
        headers = {
            "content-type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": str(at),
            "webhook-signature": signature(due.webhook.secret, message_id, at, body),
        }
        return await self.post(due.webhook.url, body, headers)
