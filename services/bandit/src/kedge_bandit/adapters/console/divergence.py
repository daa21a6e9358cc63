"""The divergence checks of one policy: reward lift beside holdout lift, and the evidence of every detector."""

import asyncio
from typing import Any, Final

from starlette.responses import Response

from kedge.bandit.v1 import governance_service_pb2 as pb
from kedge_bandit.adapters.console import checks, reading
from kedge_bandit.adapters.console.backend import CallRefused
from kedge_bandit.adapters.console.failures import RETURNED
from kedge_bandit.adapters.console.visit import Visit, moved
from kedge_bandit.domain.identifiers import TenantId

SHOWN: Final = 60


async def newest(visit: Visit, policy: str, *, size: int = SHOWN, tenant: TenantId | None = None) -> Any:
    """Read a policy's newest checks; None where the server keeps none."""
    request = pb.ListDivergenceChecksRequest(parent=policy, page_size=size)
    try:
        return await visit.call(visit.backend.governance.ListDivergenceChecks, request, tenant)
    except CallRefused as error:
        if error.code == "UNIMPLEMENTED":
            return None
        raise


async def show(visit: Visit) -> Response:
    """Show the checks of one policy."""
    assert visit.tenant is not None  # noqa: S101 - the path names it
    standing, page = await asyncio.gather(
        reading.standing_of(visit, visit.tenant, visit.policy), newest(visit, visit.policy)
    )
    found = list(page.checks) if page is not None else []
    return visit.show(
        "divergence.html",
        section="policy",
        tab="divergence",
        standing=standing,
        page=page,
        checks=found,
        lifts=checks.lifts(found[::-1]),
        drawn=checks.detectors(found[::-1]),
        outcome=checks.outcome,
    )


async def run(visit: Visit) -> Response:
    """Ask for a check now."""
    request = pb.RunDivergenceCheckRequest(policy=visit.policy, request_id=visit.form.get("request_id", ""))
    try:
        await visit.call(visit.backend.governance.RunDivergenceCheck, request)
    except CallRefused as error:
        if error.code not in (*RETURNED, "UNIMPLEMENTED"):
            raise
        visit.session.note("refused", f"Not done. {error}")
    else:
        visit.session.note("done", "Asked for: the gate fetches the answers, which takes as long as they take.")
    return moved(f"/{visit.policy}/divergence")
