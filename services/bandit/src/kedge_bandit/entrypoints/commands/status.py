"""`kedge status`: how tenants and policies do, and what to look at."""

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from kedge.bandit.v1 import policy_pb2, policy_service_pb2, tenant_service_pb2
from kedge_bandit.entrypoints.client import Client, connected
from kedge_bandit.entrypoints.documents import document_of, enum_text
from kedge_bandit.entrypoints.printing import JsonFlag, answer, table

_PAGE = 1000


def status(
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="One tenant; left out: all.")] = "",
    policy: Annotated[str, typer.Argument(metavar="POLICY", help="One policy; left out: all of the tenant.")] = "",
    *,
    cells: Annotated[bool, typer.Option("--cells", help="With every bucket's evidence.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show what was learned and counted, and what to look at."""
    with connected() as client:
        if policy:
            found = _read(client, f"tenants/{tenant}/policies/{policy}", cells=cells)
            answer(document_of(found), lambda out: _show(out, found), as_json=as_json)
            return
        tenants = [f"tenants/{tenant}"] if tenant else _tenants(client)
        names = [name for each in tenants for name in _policies(client, each)]
        statuses = [_read(client, name, cells=False) for name in names]
    documents = [document_of(each) for each in statuses]
    answer(documents, lambda out: out.print(_overview(statuses)), as_json=as_json)


def _read(client: Client, name: str, *, cells: bool) -> Any:
    request = policy_service_pb2.GetPolicyStatusRequest(name=name, without_cells=not cells)
    return client.call(client.policies.GetPolicyStatus, request)


def _tenants(client: Client) -> list[str]:
    names: list[str] = []
    request = tenant_service_pb2.ListTenantsRequest(page_size=_PAGE)
    while True:
        page = client.call(client.tenants.ListTenants, request)
        names += [tenant.name for tenant in page.tenants]
        if not page.next_page_token:
            return names
        request.page_token = page.next_page_token


def _policies(client: Client, tenant: str) -> list[str]:
    names: list[str] = []
    request = policy_service_pb2.ListPoliciesRequest(parent=tenant, page_size=_PAGE)
    while True:
        page = client.call(client.policies.ListPolicies, request)
        names += [policy.name for policy in page.policies]
        if not page.next_page_token:
            return names
        request.page_token = page.next_page_token


def _overview(statuses: list[Any]) -> Any:
    rows = [
        (
            "/".join(_own_names(found.policy.name)),
            enum_text(policy_pb2.Mode.DESCRIPTOR, found.effective_mode),
            found.policy.policy_version,
            found.allocation_version,
            found.policy.exploration.exploitation_floor,
            found.episode_counts["SETTLED"],
            found.episode_counts["VETOED"],
            found.episode_counts["PENDING"],
            found.backlog,
            len(found.warnings),
        )
        for found in statuses
    ]
    columns = ("policy", "mode", "version", "allocation", "floor", "settled", "vetoed", "pending", "backlog")
    return table("Policies", (*columns, "warnings"), rows)


def _show(out: Console, found: Any) -> None:
    tenant, policy = _own_names(found.policy.name)
    out.print(
        f"[bold]{tenant} {policy}[/]  {enum_text(policy_pb2.Mode.DESCRIPTOR, found.effective_mode)},"
        f" version {found.policy.policy_version}, allocation {found.allocation_version},"
        f" floor {found.policy.exploration.exploitation_floor:g}, learner {found.policy.learner_in_force},"
        f" backlog {found.backlog}",
        highlight=False,
    )
    actions = [
        (
            each.action_key,
            each.episodes,
            each.mean_reward,
            each.vetoes / each.veto_episodes if each.veto_episodes else 0.0,
            each.probability_over_cap,
            each.eligible,
        )
        for each in found.actions
    ]
    columns = ("action", "episodes", "mean reward", "veto rate", "P(over cap)", "eligible")
    out.print(table("Actions", columns, actions))
    if found.cells:
        cells = [
            (each.bucket, each.action_key, each.weight, _mean(each.reward_sum, each.weight)) for each in found.cells
        ]
        out.print(table("Cells", ("bucket", "action", "evidence", "mean"), cells))
    out.print(table("Episodes", ("state or count", "episodes"), sorted(found.episode_counts.items())))
    check = found.self_check
    out.print(f"self-check: {check.decisions} decisions, p = {check.p_value:.3g}", highlight=False)
    if found.effective_episodes_per_cell:
        out.print(f"effective episodes per live cell: {found.effective_episodes_per_cell:.0f}", highlight=False)
    for warning in found.warnings:
        out.print(f"[yellow]look at:[/] {escape(warning)}", highlight=False)


def _mean(total: float, weight: float) -> float:
    return total / weight if weight else 0.0


def _own_names(name: str) -> tuple[str, str]:
    _, tenant, _, policy = name.split("/")
    return tenant, policy
