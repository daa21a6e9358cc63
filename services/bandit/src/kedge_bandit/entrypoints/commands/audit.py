"""`kedge audit`: read a tenant's audit log, take it out, and see whether its hash chain is what it was."""

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from pathlib import Path
from typing import Annotated, Any

import typer

from kedge.bandit.v1 import governance_service_pb2
from kedge_bandit.adapters.anchors import PUBLIC_KEY_FILE, AnchorsRefused, of_tenant, read_anchors
from kedge_bandit.domain.anchor import Anchor, Finding, inspect
from kedge_bandit.domain.audit import ChainedEvent
from kedge_bandit.entrypoints.client import LONG_SECONDS, Client, connected, read_client_settings
from kedge_bandit.entrypoints.documents import Document, document_of
from kedge_bandit.entrypoints.printing import FailedCheck, JsonFlag, KedgeGroup, TenantName, answer, table

_PAGE = 1000

audit = typer.Typer(cls=KedgeGroup, help="Read, take out and verify the audit log.", no_args_is_help=True)

AnchorOption = Annotated[
    Path | None, typer.Option("--anchor", metavar="FILE", help="Signed heads that were kept outside the database.")
]
KeyOption = Annotated[
    Path | None,
    typer.Option("--public-key", metavar="FILE", help="That the heads were signed with; else the data folder's."),
]
VerbOption = Annotated[
    list[str] | None,
    typer.Option(
        help='Only verbs that begin or end so, e.g. "policy.frozen", "proposal." or ".frozen"; may be repeated.'
    ),
]
EventsOption = Annotated[
    Path | None,
    typer.Option("--events", metavar="FILE", help="What `kedge audit export` wrote, instead of asking a server."),
]


@audit.command("list")
def list_events(
    tenant: TenantName,
    *,
    verb: VerbOption = None,
    actor: Annotated[str, typer.Option(help='Only of this actor, as the log writes it, e.g. "kedge".')] = "",
    subject: Annotated[str, typer.Option(help="Only about this resource.")] = "",
    days: Annotated[float, typer.Option(min=0, help="Only of the last days; left out: any time.")] = 0,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 100,
    as_json: JsonFlag = False,
) -> None:
    """List who did what and why, newest first."""
    since = datetime.now(UTC) - timedelta(days=days) if days else datetime.min.replace(tzinfo=UTC)
    marks, is_narrowed = tuple(verb or ()), bool(verb or actor or subject)
    with connected() as client:
        events = _events(client, tenant, sys.maxsize if is_narrowed else limit)
        recent = takewhile(lambda event: datetime.fromisoformat(event["event_time"]) >= since, events)
        fitting = (event for event in recent if _fits(event, marks, actor, subject))
        found = list(islice(fitting, limit))
    rows = [(e["sequence"], e["event_time"][:19], e["actor"], e["verb"], e["subject"], e["because"]) for e in found]
    columns = ("", "when (UTC)", "who", "what", "on what", "why")
    answer(found, lambda out: out.print(table(f"Audit log of {tenant}", columns, rows)), as_json=as_json)


def _fits(event: Document, marks: tuple[str, ...], actor: str, subject: str) -> bool:
    named = not marks or event["verb"].startswith(marks) or event["verb"].endswith(marks)
    return named and actor in ("", event["actor"]) and subject in ("", event["subject"])


@audit.command()
def export(tenant: TenantName) -> None:
    """Write the whole log to standard output, oldest first, one JSON object a line."""
    with connected() as client:
        found = list(_events(client, tenant))
    for event in reversed(found):
        sys.stdout.write(json.dumps(event) + "\n")


@audit.command()
def verify(
    tenant: TenantName,
    *,
    anchor: AnchorOption = None,
    public_key: KeyOption = None,
    events: EventsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Recompute the hash chain, and hold it against anchors; ends with 1 where it is not what it was."""
    anchors = [] if anchor is None else _anchors(anchor, public_key, tenant)
    if events is not None:
        chain = _exported(events)
    else:
        with connected() as client:
            _ask(client, tenant)
            chain = [_chained(event) for event in reversed(list(_events(client, tenant)))]
    finding = inspect(chain, tenant, anchors)
    document = {"intact": finding is None, "events": len(chain), "anchors": len(anchors)} | _said(finding)
    line = f"the chain of {tenant} holds: all {len(chain)} events follow from the one before"
    if anchor is None:
        line += (
            "; without --anchor nothing outside was compared: a tail that was cut is not seen, nor a chain made anew"
        )
    else:
        line += f", and {len(anchors)} anchors agree, the newest with event {anchors[-1].sequence}"
    answer(document, lambda out: out.print(line, highlight=False) if finding is None else None, as_json=as_json)
    if finding is not None:
        raise FailedCheck(f"the chain of {tenant} is broken at event {finding.sequence}: {finding.problem}")


def _said(finding: Finding | None) -> Document:
    return {"first_broken_sequence": 0 if finding is None else finding.sequence, "detail": finding and finding.problem}


def _ask(client: Client, tenant: str) -> None:
    """Let the server compare the chain with the head that it keeps. Raises FailedCheck."""
    request = governance_service_pb2.VerifyAuditRequest(parent=f"tenants/{tenant}")
    found = client.call(client.governance.VerifyAudit, request, seconds=LONG_SECONDS)
    if not found.intact:
        raise FailedCheck(f"the chain of {tenant} is broken at event {found.first_broken_sequence}: {found.detail}")


def _events(client: Client, tenant: str, limit: int = sys.maxsize) -> Iterator[Document]:
    """Read events newest first."""
    request = governance_service_pb2.ListAuditEventsRequest(parent=f"tenants/{tenant}")
    while limit > 0:
        request.page_size = min(_PAGE, limit)
        page = client.call(client.governance.ListAuditEvents, request)
        yield from (document_of(event) for event in page.events)
        limit -= len(page.events)
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token


def _anchors(path: Path, public_key: Path | None, tenant: str) -> list[Anchor]:
    """Read the tenant's anchors. Raises FailedCheck where they cannot be believed, or there are none."""
    key = public_key or read_client_settings().data_dir / PUBLIC_KEY_FILE
    try:
        found = of_tenant(read_anchors(path, key), tenant)
    except (AnchorsRefused, OSError) as error:
        raise FailedCheck(str(error)) from error
    if not found:
        raise FailedCheck(f"{path} has no anchor of {tenant}: wait for the worker to write one, or take another file")
    return found


def _exported(path: Path) -> list[ChainedEvent]:
    try:
        return [_chained(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FailedCheck(f"{path} is not what `kedge audit export` writes: {error}") from error


def _chained(event: dict[str, Any]) -> ChainedEvent:
    return ChainedEvent(
        sequence=event["sequence"],
        time=datetime.fromisoformat(event["event_time"]),
        actor=event["actor"],
        verb=event["verb"],
        subject=event["subject"],
        because=event["because"],
        payload=event["payload_json"],
        payload_hash=event["payload_hash"],
        previous_hash=event["previous_hash"],
        row_hash=event["row_hash"],
    )
