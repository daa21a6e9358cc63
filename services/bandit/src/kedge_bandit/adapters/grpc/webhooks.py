"""Serve WebhookService."""

from dataclasses import dataclass
from typing import Final

from kedge.bandit.v1 import webhook_service_pb2 as pb
from kedge.bandit.v1 import webhook_service_pb2_grpc
from kedge_bandit.adapters.grpc.credentials import Keyring
from kedge_bandit.adapters.grpc.permissions import permissions_of
from kedge_bandit.adapters.grpc.status import Context, answering
from kedge_bandit.adapters.grpc.wire import timestamp
from kedge_bandit.adapters.grpc.wire_governance import order_of, page_size_of, sequence_of
from kedge_bandit.application.webhooks import KeptWebhook, SetUpWebhooks
from kedge_bandit.domain.identifiers import TenantId, parse_tenant
from kedge_bandit.domain.webhook import Delivery, DeliveryState, Webhook, id_of, parse_webhook

_ALLOWED = permissions_of("WebhookService")
_STATE: Final = {state: pb.DeliveryState.Value(f"DELIVERY_STATE_{state}") for state in DeliveryState}


@dataclass(frozen=True, slots=True)
class WebhookServicer(webhook_service_pb2_grpc.WebhookServiceServicer):
    """Set webhooks up, and give the log of what was sent."""

    keyring: Keyring
    hooks: SetUpWebhooks

    @answering
    async def PutWebhook(self, request: pb.PutWebhookRequest, context: Context) -> pb.PutWebhookResponse:
        """Make or change a webhook; the secret is shown where it was made."""
        tenant, name = parse_webhook(request.webhook.name)
        actor = self.keyring.require(context, _ALLOWED["PutWebhook"], tenant).actor
        order = order_of(actor, "PutWebhook", request, because=request.because, request_id=request.request_id)
        wanted = Webhook(name=name, url=request.webhook.url, verbs=tuple(request.webhook.verbs), secret="")
        kept, secret = await self.hooks.put(tenant, wanted, order, rotate_secret=request.rotate_secret)
        return pb.PutWebhookResponse(webhook=_webhook_message(tenant, kept), secret=secret)

    @answering
    async def ListWebhooks(self, request: pb.ListWebhooksRequest, context: Context) -> pb.ListWebhooksResponse:
        """List a tenant's webhooks by name."""
        tenant = parse_tenant(request.parent)
        self.keyring.require(context, _ALLOWED["ListWebhooks"], tenant)
        found = await self.hooks.list(tenant)
        return pb.ListWebhooksResponse(webhooks=[_webhook_message(tenant, kept) for kept in found])

    @answering
    async def DeleteWebhook(self, request: pb.DeleteWebhookRequest, context: Context) -> pb.DeleteWebhookResponse:
        """End a webhook."""
        tenant, name = parse_webhook(request.name)
        actor = self.keyring.require(context, _ALLOWED["DeleteWebhook"], tenant).actor
        order = order_of(actor, "DeleteWebhook", request, because=request.because, request_id=request.request_id)
        await self.hooks.delete(tenant, name, order)
        return pb.DeleteWebhookResponse()

    @answering
    async def TestWebhook(self, request: pb.TestWebhookRequest, context: Context) -> pb.TestWebhookResponse:
        """Send a test."""
        tenant, name = parse_webhook(request.name)
        self.keyring.require(context, _ALLOWED["TestWebhook"], tenant)
        return pb.TestWebhookResponse(delivery=_delivery_message(tenant, await self.hooks.test(tenant, name)))

    @answering
    async def ListDeliveries(self, request: pb.ListDeliveriesRequest, context: Context) -> pb.ListDeliveriesResponse:
        """List messages newest first; the page token is the last number."""
        tenant, name = parse_webhook(request.parent)
        self.keyring.require(context, _ALLOWED["ListDeliveries"], tenant)
        size = page_size_of(request.page_size)
        before = sequence_of(request.page_token)
        found = await self.hooks.deliveries(tenant, name, before=before, limit=size + 1)
        return pb.ListDeliveriesResponse(
            deliveries=[_delivery_message(tenant, delivery) for delivery in found[:size]],
            next_page_token=str(found[size - 1].number) if len(found) > size else "",
        )

    @answering
    async def RedeliverWebhook(
        self, request: pb.RedeliverWebhookRequest, context: Context
    ) -> pb.RedeliverWebhookResponse:
        """Send a message again."""
        tenant, name = parse_webhook(request.name)
        self.keyring.require(context, _ALLOWED["RedeliverWebhook"], tenant)
        delivery = await self.hooks.redeliver(tenant, name, request.number)
        return pb.RedeliverWebhookResponse(delivery=_delivery_message(tenant, delivery))


def _webhook_message(tenant: TenantId, kept: KeptWebhook) -> pb.Webhook:
    return pb.Webhook(
        name=f"tenants/{tenant}/webhooks/{kept.webhook.name}",
        url=kept.webhook.url,
        verbs=kept.webhook.verbs,
        create_time=timestamp(kept.create_time),
        update_time=timestamp(kept.update_time),
    )


def _delivery_message(tenant: TenantId, delivery: Delivery) -> pb.WebhookDelivery:
    return pb.WebhookDelivery(
        webhook=f"tenants/{tenant}/webhooks/{delivery.webhook}",
        number=delivery.number,
        event_id=id_of(tenant, delivery),
        audit_sequence=delivery.sequence,
        state=_STATE[delivery.state],
        attempts=delivery.attempts,
        create_time=timestamp(delivery.create_time),
        due_time=None if delivery.due is None else timestamp(delivery.due),
        answer=delivery.answer,
        answer_time=None if delivery.answer_time is None else timestamp(delivery.answer_time),
    )
