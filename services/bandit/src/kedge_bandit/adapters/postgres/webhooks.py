"""Keep the webhooks of one tenant and their messages; each is claimed before it is sent, and told at least once."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Row, delete, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from kedge_bandit.adapters.postgres import tables
from kedge_bandit.adapters.postgres.audit import PostgresAuditLog
from kedge_bandit.application.webhooks import Due, KeptWebhook
from kedge_bandit.domain.audit import AuditEvent, ChainedEvent
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.webhook import Delivery, DeliveryState, Webhook, WebhookNotFound

CHANNEL: Final = "kedge_webhook"
CLAIMED: Final = timedelta(minutes=1)
"""For so long nobody else sends a message that was claimed; whoever claimed it may have died."""

_HOOK, _SENT, _HEAD = tables.webhook.c, tables.webhook_delivery.c, tables.audit_head.c


class PostgresWebhooks:
    """The webhooks of the open ledger."""

    def __init__(self, tenant: TenantId, connection: AsyncConnection) -> None:
        self._tenant = tenant
        self._connection = connection
        self._audit = PostgresAuditLog(tenant, connection)

    async def list(self) -> Sequence[KeptWebhook]:
        """Read all by name."""
        rows = await self._connection.execute(select(tables.webhook).order_by(_HOOK.name))
        return [_kept(row) for row in rows]

    async def put(self, webhook: Webhook, event: AuditEvent) -> KeptWebhook:
        """Store one with its event; a new one is told of what comes after."""
        told = (await self._connection.execute(select(_HEAD.audit_sequence))).scalar_one()
        row = {
            "url": webhook.url,
            "verbs": list(webhook.verbs),
            "secret": webhook.secret,
            "update_time": event.time,
        }
        added = upsert(tables.webhook).values(name=webhook.name, told=told, create_time=event.time, **row)
        put = added.on_conflict_do_update(index_elements=["name"], set_=row).returning(tables.webhook)
        stored = (await self._connection.execute(put)).one()
        await self._audit.append(event)
        await self._wake()
        return _kept(stored)

    async def delete(self, name: str, event: AuditEvent) -> None:
        """Remove one with its messages."""
        gone = delete(tables.webhook).where(_HOOK.name == name).returning(_HOOK.name)
        if (await self._connection.execute(gone)).one_or_none() is None:
            raise WebhookNotFound(name)
        await self._audit.append(event)

    async def test(self, name: str, at: datetime) -> Delivery:
        """Add a test message."""
        await self._check(name)
        row = {"webhook": name, "audit_sequence": 0, "state": "PENDING", "create_time": at, "due_time": at}
        added = insert(tables.webhook_delivery).values(row).returning(tables.webhook_delivery)
        made = (await self._connection.execute(added)).one()
        await self._wake()
        return _delivery(made)

    async def deliveries(self, name: str, *, before: int | None, limit: int) -> Sequence[Delivery]:
        """Read messages newest first."""
        await self._check(name)
        wanted = select(tables.webhook_delivery).where(_SENT.webhook == name)
        if before is not None:
            wanted = wanted.where(_SENT.delivery_id < before)
        rows = await self._connection.execute(wanted.order_by(_SENT.delivery_id.desc()).limit(limit))
        return [_delivery(row) for row in rows]

    async def redeliver(self, name: str, number: int, at: datetime) -> Delivery:
        """Send a message again, for another day."""
        again = (
            update(tables.webhook_delivery)
            .where(_SENT.webhook == name, _SENT.delivery_id == number)
            .values(state="PENDING", attempts=0, create_time=at, due_time=at)
            .returning(tables.webhook_delivery)
        )
        found = (await self._connection.execute(again)).one_or_none()
        if found is None:
            raise WebhookNotFound(f"{name}, delivery {number}")
        await self._wake()
        return _delivery(found)

    async def enqueue(self, now: datetime, *, limit: int) -> bool:
        """Make messages of audit events that came; says whether more events wait."""
        hooks = (await self._connection.execute(select(tables.webhook).with_for_update(skip_locked=True))).all()
        more = False
        for hook in hooks:
            webhook = _kept(hook).webhook
            events = await self._audit.in_order(after=hook.told, limit=limit)
            if not events:
                continue
            rows = [
                {
                    "webhook": hook.name,
                    "audit_sequence": event.sequence,
                    "state": "PENDING",
                    "create_time": now,
                    "due_time": now,
                }
                for event in events
                if webhook.wants(event.verb)
            ]
            if rows:
                await self._connection.execute(upsert(tables.webhook_delivery).values(rows).on_conflict_do_nothing())
            moved = update(tables.webhook).where(_HOOK.name == hook.name).values(told=events[-1].sequence)
            await self._connection.execute(moved)
            more = more or len(events) == limit
        return more

    async def claim(self, now: datetime, *, limit: int) -> Sequence[Due]:
        """Take messages whose attempt is due, and count it."""
        due = (
            select(_SENT.delivery_id)
            .where(_SENT.due_time <= now)
            .order_by(_SENT.due_time, _SENT.delivery_id)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        claimed = (
            update(tables.webhook_delivery)
            .where(_SENT.delivery_id.in_(due))
            .values(due_time=now + CLAIMED, attempts=_SENT.attempts + 1)
            .returning(tables.webhook_delivery)
        )
        found = [_delivery(row) for row in await self._connection.execute(claimed)]
        if not found:
            return []
        hooks = {kept.webhook.name: kept.webhook for kept in await self.list()}
        return [
            Due(one, hooks[one.webhook], await self._event(one.sequence))
            for one in sorted(found, key=lambda one: one.number)
        ]

    async def attempted(self, number: int, state: DeliveryState, due: datetime | None, answer: str) -> None:
        """Store what became of an attempt."""
        done = update(tables.webhook_delivery).where(_SENT.delivery_id == number)
        await self._connection.execute(
            done.values(state=state.value, due_time=due, answer=answer, answer_time=func.clock_timestamp())
        )

    async def _event(self, sequence: int) -> ChainedEvent | None:
        if sequence == 0:
            return None
        [event] = await self._audit.in_order(after=sequence - 1, limit=1)
        return event

    async def _check(self, name: str) -> None:
        found = await self._connection.execute(select(_HOOK.name).where(_HOOK.name == name))
        if found.one_or_none() is None:
            raise WebhookNotFound(name)

    async def _wake(self) -> None:
        """Tell workers at commit that something is to be sent."""
        await self._connection.execute(select(func.pg_notify(CHANNEL, self._tenant)))


def _kept(row: Row[Any]) -> KeptWebhook:
    webhook = Webhook(name=row.name, url=row.url, verbs=tuple(row.verbs), secret=row.secret)
    return KeptWebhook(webhook, row.create_time, row.update_time)


def _delivery(row: Row[Any]) -> Delivery:
    return Delivery(
        number=row.delivery_id,
        webhook=row.webhook,
        sequence=row.audit_sequence,
        state=DeliveryState(row.state),
        attempts=row.attempts,
        create_time=row.create_time,
        due=row.due_time,
        answer=row.answer,
        answer_time=row.answer_time,
    )
