"""`kedge tenant`: bring tenants in."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from kedge.bandit.v1 import tenant_service_pb2
from kedge_bandit.entrypoints.client import LONG_SECONDS, connected
from kedge_bandit.entrypoints.documents import Document, document_of
from kedge_bandit.entrypoints.policy_file import FileRefused
from kedge_bandit.entrypoints.printing import Because, FailedCheck, JsonFlag, KedgeGroup, TenantName, answer, table

_PAGE = 1000
_AT_ONCE = 4
"""Tenants that are made at the same time: enough to keep two cores of the database busy, few enough for its pool."""

_CONTENT = typer.Option(help="Keep redacted content of episodes.")
_DURABLE = typer.Option(help="Commit every decision before it is answered.")
_DECISIONS = typer.Option(min=0, help="Decisions a second that each replica draws; 0: no limit.")
_ROWS = typer.Option(min=0, help="Rows a second that each replica writes; 0: no limit.")
_DAYS = typer.Option(min=0, help="Days that raw rows are kept, 90 to 3650; 0: for ever.")
_HEADS = ("tenant", "since", "stores content", "durable", "decisions/s", "rows/s", "days kept")

tenants = typer.Typer(
    cls=KedgeGroup, help="Bring tenants in, set them up, hold them apart, erase them.", no_args_is_help=True
)


@tenants.command()
def onboard(
    names: Annotated[list[str] | None, typer.Argument(metavar="TENANT...", help="Their own names, e.g. acme.")] = None,
    *,
    file: Annotated[Path | None, typer.Option(help="More names, one a line.")] = None,
    store_content: Annotated[bool, _CONTENT] = False,
    durable: Annotated[bool, _DURABLE] = False,
    decisions_per_second: Annotated[float, _DECISIONS] = 0.0,
    rows_per_second: Annotated[float, _ROWS] = 0.0,
    retention_days: Annotated[int, _DAYS] = 0,
    because: Because = "onboarded from the command line",
    as_json: JsonFlag = False,
) -> None:
    """Make tenants, each with its own schema and role; a run over several that was cut is repeated as it was."""
    wanted = list(dict.fromkeys([*(names or ()), *(_names_of(file) if file else ())]))
    if not wanted:
        raise typer.BadParameter("name at least one tenant, or a --file of them")
    settings = tenant_service_pb2.Tenant(
        store_content=store_content,
        durable=durable,
        decisions_per_second=decisions_per_second,
        rows_per_second=rows_per_second,
        retention_days=retention_days,
    )
    with connected() as client, ThreadPoolExecutor(_AT_ONCE) as callers:

        def make(name: str) -> tenant_service_pb2.Tenant:
            request = tenant_service_pb2.OnboardTenantRequest(tenant=settings, because=because)
            request.tenant.name = f"tenants/{name}"
            request.request_id = f"onboard-{name}" if len(wanted) > 1 else ""
            made: tenant_service_pb2.Tenant = client.call(client.tenants.OnboardTenant, request).tenant
            return made

        found = list(callers.map(make, wanted))

    def show(out: Console) -> None:
        there = f"tenant {wanted[0]} is" if len(wanted) == 1 else f"{len(wanted)} tenants are"
        hint = f"kedge key create {wanted[0]} --principal core-app --role core_app"
        out.print(f"{there} there; next: {hint}", highlight=False)

    documents = [document_of(made) for made in found]
    answer(documents[0] if len(wanted) == 1 else documents, show, as_json=as_json)


def _names_of(file: Path) -> list[str]:
    """Read names, one a line. Raises FileRefused."""
    try:
        return file.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise FileRefused(f"{file} cannot be read: {error}") from error


@tenants.command()
def update(
    tenant: TenantName,
    *,
    store_content: Annotated[bool | None, _CONTENT] = None,
    durable: Annotated[bool | None, _DURABLE] = None,
    decisions_per_second: Annotated[float | None, _DECISIONS] = None,
    rows_per_second: Annotated[float | None, _ROWS] = None,
    retention_days: Annotated[int | None, _DAYS] = None,
    because: Because = "changed from the command line",
    as_json: JsonFlag = False,
) -> None:
    """Change a tenant's settings; what is not named stays as it is."""
    request = tenant_service_pb2.UpdateTenantRequest(
        name=f"tenants/{tenant}",
        store_content=store_content,
        durable=durable,
        decisions_per_second=decisions_per_second,
        rows_per_second=rows_per_second,
        retention_days=retention_days,
        because=because,
    )
    with connected() as client:
        changed = document_of(client.call(client.tenants.UpdateTenant, request).tenant)
    answer(changed, lambda out: out.print(table(f"Tenant {tenant}", _HEADS, [_row(changed)])), as_json=as_json)


@tenants.command("list")
def list_tenants(*, as_json: JsonFlag = False) -> None:
    """List tenants by name."""
    found = []
    with connected() as client:
        request = tenant_service_pb2.ListTenantsRequest(page_size=_PAGE)
        while True:
            page = client.call(client.tenants.ListTenants, request)
            found += [document_of(tenant) for tenant in page.tenants]
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
    rows = [_row(tenant) for tenant in found]
    answer(found, lambda out: out.print(table("Tenants", _HEADS, rows)), as_json=as_json)


def _row(tenant: Document) -> tuple[object, ...]:
    limits = (tenant["decisions_per_second"] or "", tenant["rows_per_second"] or "", tenant["retention_days"] or "")
    name, since = tenant["name"].removeprefix("tenants/"), tenant["create_time"][:19]
    return name, since, tenant["store_content"], tenant["durable"], *limits


@tenants.command()
def erase(
    tenant: TenantName,
    *,
    yes: Annotated[str, typer.Option(metavar="TENANT", help="Its name once more.")] = "",
    because: Because = "erased from the command line",
    as_json: JsonFlag = False,
) -> None:
    """Remove everything of a tenant for good; hashes of its audit log stay."""
    _erase(
        tenant_service_pb2.EraseTenantRequest(name=f"tenants/{tenant}", confirm=yes, because=because), as_json=as_json
    )


def erase_user(
    tenant: TenantName,
    user: Annotated[str, typer.Argument(metavar="USER", help="The end_user_id that LogEpisode carried.")],
    *,
    because: Because = "erased from the command line",
    as_json: JsonFlag = False,
) -> None:
    """Remove everything of one end user for good; of what was learned, only numbers stay."""
    _erase(
        tenant_service_pb2.EraseTenantRequest(name=f"tenants/{tenant}", end_user_id=user, because=because),
        as_json=as_json,
    )


def _erase(request: tenant_service_pb2.EraseTenantRequest, *, as_json: bool) -> None:
    with connected() as client:
        gone = client.call(client.tenants.EraseTenant, request, seconds=LONG_SECONDS)
    answer(document_of(gone), lambda out: out.print(f"erased: {gone.rows_erased} rows"), as_json=as_json)


@tenants.command("verify-isolation")
def verify_isolation(*, as_json: JsonFlag = False) -> None:
    """Inspect the walls between tenants and run against them; ends with 1 where one does not hold."""
    with connected() as client:
        request = tenant_service_pb2.VerifyIsolationRequest()
        found = client.call(client.tenants.VerifyIsolation, request, seconds=LONG_SECONDS)
    line = f"{found.tenants} tenants, {found.attempts} attempts to reach what is another's, {len(found.faults)} faults"
    rows = [(fault.kind, fault.object, fault.detail) for fault in found.faults]

    def show(out: Console) -> None:
        if rows:
            out.print(table("Walls that do not hold", ("fault", "where", "what"), rows))
        out.print(line, highlight=False)
        if found.login != "kedge_service":
            out.print(f"logged in as {found.login}, not as kedge_service: the role it takes is its only wall")

    answer(document_of(found), show, as_json=as_json)
    if rows:
        raise FailedCheck("tenants are not apart: take away what the table names, then verify again")
