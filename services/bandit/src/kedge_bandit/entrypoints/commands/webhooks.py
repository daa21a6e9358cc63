"""`kedge webhook`: who is told of what, and what became of each message."""

from typing import Annotated

import typer
from rich.console import Console

from kedge.bandit.v1 import webhook_service_pb2 as pb
from kedge_bandit.entrypoints.client import connected
from kedge_bandit.entrypoints.documents import document_of, enum_text
from kedge_bandit.entrypoints.printing import Because, JsonFlag, KedgeGroup, TenantName, answer, table

webhooks = typer.Typer(cls=KedgeGroup, help="Tell other services what was audited.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="WEBHOOK", help="The webhook's own name, of [a-z0-9-].")]


@webhooks.command()
def put(
    tenant: TenantName,
    webhook: Name,
    *,
    url: Annotated[str, typer.Option(help="https address on a host that the operator allows.")],
    on: Annotated[list[str], typer.Option(help="Audited verb, noun.* or *; may be given again.")],
    rotate_secret: Annotated[bool, typer.Option("--rotate-secret", help="Make a new secret.")] = False,
    because: Because,
    as_json: JsonFlag = False,
) -> None:
    """Make a webhook, or change it; a new one's secret is shown once."""
    wanted = pb.Webhook(name=f"tenants/{tenant}/webhooks/{webhook}", url=url, verbs=on)
    request = pb.PutWebhookRequest(webhook=wanted, rotate_secret=rotate_secret, because=because)
    with connected() as client:
        made = client.call(client.webhooks.PutWebhook, request)

    def show(out: Console) -> None:
        out.print(f"{made.webhook.name} tells {made.webhook.url}", highlight=False, markup=False)
        if made.secret:
            out.print(f"secret, shown once: {made.secret}", highlight=False, markup=False, soft_wrap=True)

    answer(document_of(made), show, as_json=as_json)


@webhooks.command("list")
def list_webhooks(
    tenant: TenantName,
    webhook: Annotated[str, typer.Argument(metavar="[WEBHOOK]", help="Whose messages; left out: all webhooks.")] = "",
    *,
    limit: Annotated[int, typer.Option(help="How many of the newest messages.", min=1, max=1000)] = 100,
    as_json: JsonFlag = False,
) -> None:
    """List webhooks, or the messages to one, newest first."""
    with connected() as client:
        if not webhook:
            listing = pb.ListWebhooksRequest(parent=f"tenants/{tenant}")
            hooks = client.call(client.webhooks.ListWebhooks, listing).webhooks
            rows = [(hook.name.rpartition("/")[2], hook.url, ", ".join(hook.verbs)) for hook in hooks]
            shown = table("Webhooks", ("webhook", "address", "verbs"), rows)
            answer([document_of(hook) for hook in hooks], lambda out: out.print(shown), as_json=as_json)
            return
        asked = pb.ListDeliveriesRequest(parent=f"tenants/{tenant}/webhooks/{webhook}", page_size=limit)
        sent = client.call(client.webhooks.ListDeliveries, asked).deliveries
    messages = [
        (
            one.number,
            one.event_id,
            enum_text(pb.DeliveryState.DESCRIPTOR, one.state),
            one.attempts,
            one.answer,
            one.due_time.ToJsonString() if one.HasField("due_time") else "",
        )
        for one in sent
    ]
    log = table("Messages", ("number", "event", "state", "attempts", "answer", "next attempt"), messages)
    answer([document_of(one) for one in sent], lambda out: out.print(log), as_json=as_json)


@webhooks.command("test")
def send_test(tenant: TenantName, webhook: Name, *, as_json: JsonFlag = False) -> None:
    """Send a message that says nothing but that it is a test."""
    with connected() as client:
        request = pb.TestWebhookRequest(name=f"tenants/{tenant}/webhooks/{webhook}")
        sent = client.call(client.webhooks.TestWebhook, request).delivery
    line = f"message {sent.number} is on its way; see kedge webhook list {tenant} {webhook}"
    answer(document_of(sent), lambda out: out.print(line, highlight=False), as_json=as_json)


@webhooks.command()
def redeliver(
    tenant: TenantName,
    webhook: Name,
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="Of the message, as listed.")],
    *,
    as_json: JsonFlag = False,
) -> None:
    """Send a message again, under the same event id, for another day."""
    with connected() as client:
        request = pb.RedeliverWebhookRequest(name=f"tenants/{tenant}/webhooks/{webhook}", number=number)
        sent = client.call(client.webhooks.RedeliverWebhook, request).delivery
    line = f"message {sent.number} is on its way again"
    answer(document_of(sent), lambda out: out.print(line, highlight=False), as_json=as_json)


@webhooks.command()
def delete(tenant: TenantName, webhook: Name, *, because: Because, as_json: JsonFlag = False) -> None:
    """End a webhook; what it was not told yet, it is never told."""
    with connected() as client:
        request = pb.DeleteWebhookRequest(name=f"tenants/{tenant}/webhooks/{webhook}", because=because)
        client.call(client.webhooks.DeleteWebhook, request)
    line = f"tenants/{tenant}/webhooks/{webhook} is gone"
    answer({"deleted": request.name}, lambda out: out.print(line, highlight=False, markup=False), as_json=as_json)
