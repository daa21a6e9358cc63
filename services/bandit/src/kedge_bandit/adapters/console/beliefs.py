"""What one policy believes in one bucket: a density for every action, beside the numbers it stands for."""

import asyncio
from typing import Any

from starlette.responses import Response

from kedge.bandit.v1 import policy_service_pb2
from kedge_bandit.adapters.console import reading
from kedge_bandit.adapters.console.visit import Visit


async def show(visit: Visit) -> Response:
    """Show the belief of the bucket that the address names, else of the first one; "" is where nothing was seen."""
    assert visit.tenant is not None  # noqa: S101 - the path names it
    standing, cold = await asyncio.gather(reading.standing_of(visit, visit.tenant, visit.policy), _belief(visit, ""))
    first = next(iter(cold.buckets), "")
    asked = visit.request.query_params.get("bucket", first)
    found = cold if asked not in cold.buckets else await _belief(visit, asked)
    return visit.show(
        "beliefs.html",
        section="policy",
        tab="belief",
        standing=standing,
        belief=found,
        is_lost=asked not in ("", *cold.buckets),
        asked=asked,
        top=max((height for one in found.actions for height in one.density), default=1.0),
    )


async def _belief(visit: Visit, bucket: str) -> Any:
    request = policy_service_pb2.GetBeliefRequest(name=visit.policy, bucket=bucket)
    return await visit.call(visit.backend.policies.GetBelief, request)
