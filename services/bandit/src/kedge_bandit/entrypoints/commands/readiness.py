"""`kedge readiness`: how far a tenant is, criterion by criterion, each with what was measured."""

from typing import Annotated

import typer
from rich.console import Console

from kedge.bandit.v1 import governance_service_pb2 as pb
from kedge_bandit.domain.readiness import Phase
from kedge_bandit.entrypoints.client import LONG_SECONDS, connected
from kedge_bandit.entrypoints.documents import document_of, enum_text
from kedge_bandit.entrypoints.printing import FailedCheck, JsonFlag, TenantName, answer, table


def readiness(
    tenant: TenantName,
    *,
    through: Annotated[
        Phase | None, typer.Option(help="End with 1 where this phase, or one before it, is not passed.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Print the phases P0 to P4 with every criterion, and the ten mitigations, each with what was measured."""
    with connected() as client:
        request = pb.GetReadinessRequest(tenant=f"tenants/{tenant}")
        found = client.call(client.governance.GetReadiness, request, seconds=LONG_SECONDS)
    answer(document_of(found), lambda out: _show(out, found), as_json=as_json)
    if through is not None and through not in found.passed:
        raise FailedCheck(f"{tenant} has not passed {through.value}: see what is not met")


def _show(out: Console, found: pb.GetReadinessResponse) -> None:
    kinds = pb.CriterionKind.DESCRIPTOR
    rows = [
        (each.phase, enum_text(kinds, each.kind).lower(), each.criterion, each.met, each.measured)
        for each in found.criteria
    ]
    out.print(table("Phases", ("phase", "kind", "criterion", "met", "measured"), rows))
    held = [(each.mitigation, each.holds, each.evidence) for each in found.mitigations]
    out.print(table("What keeps the reward from being gamed", ("mitigation", "holds", "evidence"), held))
    out.print(f"passed: {', '.join(found.passed) or 'none'}", highlight=False)
