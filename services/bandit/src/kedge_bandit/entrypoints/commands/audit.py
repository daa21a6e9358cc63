"""`kedge audit`: read a tenant's audit log, and see whether its hash chain holds."""

from typing import Annotated

import typer

from kedge.bandit.v1 import governance_service_pb2
from kedge_bandit.entrypoints.client import LONG_SECONDS, connected
from kedge_bandit.entrypoints.documents import Document, document_of
from kedge_bandit.entrypoints.printing import FailedCheck, JsonFlag, KedgeGroup, TenantName, answer, table

_PAGE = 1000

audit = typer.Typer(cls=KedgeGroup, help="Read and verify the audit log.", no_args_is_help=True)


@audit.command("list")
def list_events(
    tenant: TenantName,
    *,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 100,
    as_json: JsonFlag = False,
) -> None:
    """List who did what and why, newest first."""
    found: list[Document] = []
    with connected() as client:
        request = governance_service_pb2.ListAuditEventsRequest(parent=f"tenants/{tenant}")
        while len(found) < limit:
            request.page_size = min(_PAGE, limit - len(found))
            page = client.call(client.governance.ListAuditEvents, request)
            found += [document_of(event) for event in page.events]
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
    rows = [(e["sequence"], e["event_time"][:19], e["actor"], e["verb"], e["subject"], e["because"]) for e in found]
    columns = ("", "when (UTC)", "who", "what", "on what", "why")
    answer(found, lambda out: out.print(table(f"Audit log of {tenant}", columns, rows)), as_json=as_json)


@audit.command()
def verify(tenant: TenantName, *, as_json: JsonFlag = False) -> None:
    """Recompute the hash chain; ends with 1 where it is broken."""
    with connected() as client:
        request = governance_service_pb2.VerifyAuditRequest(parent=f"tenants/{tenant}")
        found = client.call(client.governance.VerifyAudit, request, seconds=LONG_SECONDS)
    line = f"the chain of {tenant} holds: {found.detail}"
    answer(document_of(found), lambda out: out.print(line, highlight=False) if found.intact else None, as_json=as_json)
    if not found.intact:
        raise FailedCheck(f"the chain of {tenant} is broken at event {found.first_broken_sequence}: {found.detail}")
