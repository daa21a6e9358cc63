"""Webhooks over a real database and a real receiver: what is audited is told, signed, until it is taken."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.adapters.webhook_post import HttpPost, new_client
from kedge_bandit.application.govern import Order
from kedge_bandit.application.tell import TellWebhooks
from kedge_bandit.application.webhooks import Allowed, SetUpWebhooks
from kedge_bandit.domain.audit import Actor, AuditEvent
from kedge_bandit.domain.errors import InvalidValue
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.webhook import Delivery, DeliveryState, Webhook, WebhookNotFound
from tests.fixtures.ledgers import START, NewTenant
from tests.fixtures.receiver import Received, Receiver, receiving

ADA = Order(Actor("key:ada"), "a test")
HERE = Allowed((), loopback=True)


@dataclass
class Clock:
    """A clock that is set; it begins ahead of the database's, so that everything is due."""

    time: datetime = START.replace(year=2100)

    def now(self) -> datetime:
        return self.time


@dataclass
class Scene:
    """A tenant, its webhooks, and what tells them."""

    tenant: TenantId
    ledgers: PostgresLedgers
    hooks: SetUpWebhooks
    tell: TellWebhooks
    clock: Clock

    async def put(self, url: str, *verbs: str, name: str = "chat", rotate: bool = False) -> str:
        wanted = Webhook(name=name, url=url, verbs=verbs or ("policy.frozen",), secret="")
        return (await self.hooks.put(self.tenant, wanted, ADA, rotate_secret=rotate))[1]

    async def audit(self, verb: str) -> None:
        event = AuditEvent(
            time=START, actor=Actor("kedge"), verb=verb, subject="tenants/x", because="why", payload={"floor": 0.5}
        )
        async with self.ledgers.open(self.tenant) as ledger:
            await ledger.audit.append(event)

    async def sent(self, name: str = "chat") -> list[Delivery]:
        return list(await self.hooks.deliveries(self.tenant, name, before=None, limit=100))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


@pytest.fixture
async def scene(ledgers: PostgresLedgers, new_tenant: NewTenant) -> AsyncIterator[Scene]:
    clock, tenant = Clock(), await new_tenant()
    async with new_client() as client:
        tell = TellWebhooks(ledgers, clock, HERE, HttpPost(client))
        yield Scene(tenant, ledgers, SetUpWebhooks(ledgers, clock, HERE, lambda size: bytes(range(size))), tell, clock)


def signed(message: Received, secret: str) -> str:
    """Compute the signature as a receiver does."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    content = f"{message.headers['webhook-id']}.{message.headers['webhook-timestamp']}.".encode() + message.body
    return "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()


async def test_what_is_audited_after_a_webhook_was_made_is_told_once_and_signed(
    scene: Scene, receiver: Receiver
) -> None:
    await scene.audit("policy.frozen")
    secret = await scene.put(receiver.url, "policy.frozen", "ramp.*")
    for verb in ("policy.frozen", "policy.staged", "ramp.advanced"):
        await scene.audit(verb)

    assert await scene.tell(scene.tenant)
    assert await scene.tell(scene.tenant)

    told = {json.loads(message.body)["type"]: message for message in receiver.received}
    assert sorted(told) == ["policy.frozen", "ramp.advanced"]
    assert len(receiver.received) == 2
    for message in receiver.received:
        assert message.headers["webhook-signature"] == signed(message, secret)
        assert int(message.headers["webhook-timestamp"]) == int(scene.clock.time.timestamp())
    body = json.loads(told["ramp.advanced"].body)
    assert (body["tenant"], body["actor"], body["because"], body["facts"]) == (
        f"tenants/{scene.tenant}",
        "kedge",
        "why",
        {"floor": 0.5},
    )
    assert [(one.state, one.attempts, one.answer) for one in await scene.sent()] == [
        (DeliveryState.DELIVERED, 1, "204")
    ] * 2


async def test_a_receiver_that_fails_is_tried_later_under_the_same_id(scene: Scene, receiver: Receiver) -> None:
    receiver.answers = [500, 503, 200]
    await scene.put(receiver.url)
    await scene.audit("policy.frozen")

    await scene.tell(scene.tenant)
    [waiting] = await scene.sent()
    assert (waiting.state, waiting.answer, waiting.due) == (
        DeliveryState.PENDING,
        "500",
        scene.clock.time + timedelta(seconds=5),
    )
    await scene.tell(scene.tenant)
    assert len(receiver.received) == 1
    for _ in range(2):
        scene.clock.time += timedelta(seconds=11)
        await scene.tell(scene.tenant)

    assert [one.state for one in await scene.sent()] == [DeliveryState.DELIVERED]
    assert len({message.headers["webhook-id"] for message in receiver.received}) == 1
    assert len({message.headers["webhook-timestamp"] for message in receiver.received}) == 3


async def test_after_a_day_in_vain_a_message_has_failed_and_may_be_sent_again(scene: Scene, receiver: Receiver) -> None:
    receiver.answers = [500]
    await scene.put(receiver.url)
    [made] = [await scene.hooks.test(scene.tenant, "chat")]
    attempts = 0
    while (await scene.sent())[0].state is DeliveryState.PENDING:
        await scene.tell(scene.tenant)
        scene.clock.time += timedelta(hours=2)
        attempts += 1
        assert attempts < 100

    assert (await scene.sent())[0].state is DeliveryState.FAILED
    assert scene.clock.time - made.create_time <= timedelta(hours=28)
    receiver.answers = [200]
    await scene.hooks.redeliver(scene.tenant, "chat", made.number)
    await scene.tell(scene.tenant)
    [sent] = await scene.sent()
    assert (sent.state, sent.attempts) == (DeliveryState.DELIVERED, 1)
    assert json.loads(receiver.received[-1].body)["type"] == "webhook.test"


async def test_an_unreachable_receiver_and_one_that_sends_on_take_no_message(scene: Scene, receiver: Receiver) -> None:
    with receiving() as gone:
        nowhere = gone.url
    receiver.answers, receiver.location = [307], "http://127.0.0.1:9/elsewhere"
    await scene.put(nowhere, name="gone")
    await scene.put(receiver.url, name="moved")
    await scene.audit("policy.frozen")

    await scene.tell(scene.tenant)

    assert [one.answer.split(":")[0] for one in await scene.sent("gone")] == ["not reached"]
    assert [one.answer for one in await scene.sent("moved")] == ["307"]


async def test_two_workers_tell_a_message_once(scene: Scene, receiver: Receiver) -> None:
    await scene.put(receiver.url)
    for _ in range(30):
        await scene.audit("policy.frozen")
    other = TellWebhooks(scene.ledgers, scene.clock, HERE, scene.tell.post)

    await asyncio.gather(scene.tell(scene.tenant), other(scene.tenant))
    await scene.tell(scene.tenant)

    ids = [message.headers["webhook-id"] for message in receiver.received]
    assert len(ids) == len(set(ids)) == 30


async def test_a_new_secret_signs_from_then_on_and_is_shown_once(scene: Scene, receiver: Receiver) -> None:
    first = await scene.put(receiver.url)
    assert await scene.put(receiver.url, "policy.*") == ""
    hooks = SetUpWebhooks(scene.ledgers, scene.clock, HERE, bytes)
    wanted = Webhook(name="chat", url=receiver.url, verbs=("*",), secret="")
    _, second = await hooks.put(scene.tenant, wanted, ADA, rotate_secret=True)
    await scene.audit("policy.frozen")

    await scene.tell(scene.tenant)

    assert first != second
    assert all(message.headers["webhook-signature"] == signed(message, second) for message in receiver.received)


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example/x",
        "https://hooks.example/x",
        "https://user:pass@127.0.0.1/x",
        "ftp://127.0.0.1/x",
        "http://127.0.0.1.evil.example/x",
        "",
    ],
)
async def test_an_address_that_the_operator_does_not_allow_is_refused_and_never_told(scene: Scene, url: str) -> None:
    with pytest.raises(InvalidValue):
        await scene.put(url)
    assert not await scene.tell(scene.tenant)


async def test_what_was_allowed_once_is_not_told_where_it_is_not_any_more(scene: Scene, receiver: Receiver) -> None:
    await scene.put(receiver.url)
    await scene.audit("policy.frozen")
    nowhere = TellWebhooks(scene.ledgers, scene.clock, Allowed((), loopback=False), scene.tell.post)

    await nowhere(scene.tenant)

    assert receiver.received == []
    assert "https" in (await scene.sent())[0].answer


async def test_a_webhook_that_is_gone_takes_its_messages_along(scene: Scene, receiver: Receiver) -> None:
    await scene.put(receiver.url)
    await scene.audit("policy.frozen")
    await scene.hooks.delete(scene.tenant, "chat", ADA)

    assert not await scene.tell(scene.tenant)
    assert receiver.received == []
    for call in (scene.sent(), scene.hooks.test(scene.tenant, "chat"), scene.hooks.redeliver(scene.tenant, "chat", 1)):
        with pytest.raises(WebhookNotFound):
            await call
