"""`kedge rebuild`: prove that what serves is the fold of the evidence log, or make it so."""

from typing import Annotated

import typer

from kedge.bandit.v1 import policy_service_pb2
from kedge_bandit.entrypoints.client import LONG_SECONDS, connected
from kedge_bandit.entrypoints.documents import document_of
from kedge_bandit.entrypoints.printing import FailedCheck, JsonFlag, PolicyName, TenantName, answer


def rebuild(
    tenant: TenantName,
    policy: PolicyName,
    *,
    verify: Annotated[bool, typer.Option("--verify", help="Compare only; nothing is written.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Refold the evidence log and compare it with the state that serves; ends with 1 where they differ."""
    with connected() as client:
        request = policy_service_pb2.RebuildPolicyRequest(
            name=f"tenants/{tenant}/policies/{policy}", verify_only=verify
        )
        found = client.call(client.policies.RebuildPolicy, request, seconds=LONG_SECONDS)
    done = f"{'compared' if verify else 'rebuilt'} {found.cells} cells from {found.evidence_rows} rows of evidence"
    line = f"{done}: largest difference {found.max_error:.2g}"
    answer(document_of(found), lambda out: out.print(line, highlight=False), as_json=as_json)
    if verify and not found.agrees:
        raise FailedCheck("the state that serves is not the fold of the log: rebuild it without --verify")
