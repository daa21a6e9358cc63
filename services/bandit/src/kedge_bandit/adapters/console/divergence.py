"""The divergence checks of one policy: reward lift beside holdout lift, and the evidence of every detector."""

import asyncio
import math
from collections.abc import Sequence
from typing import Any, Final

from starlette.responses import Response

from kedge.bandit.v1 import governance_service_pb2 as pb
from kedge_bandit.adapters.console import reading
from kedge_bandit.adapters.console.backend import CallRefused
from kedge_bandit.adapters.console.curves import Curve, Point
from kedge_bandit.adapters.console.failures import RETURNED
from kedge_bandit.adapters.console.visit import Visit, moved

SHOWN: Final = 60
_Z95: Final = 1.959964
_LEAST_EVIDENCE: Final = 0.01
OUTCOMES: Final = {
    "COMPARED": ("compared", "good"),
    "TOO_FEW": ("too few episodes", "warn"),
    "FAILED": ("failed", "bad"),
}


def outcome(check: pb.DivergenceCheck) -> tuple[str, str]:
    """Say what a check came to, with its tone."""
    name = pb.DivergenceOutcome.Name(check.outcome).removeprefix("DIVERGENCE_OUTCOME_")
    return OUTCOMES.get(name, (name.lower(), ""))


def lifts(checks: Sequence[pb.DivergenceCheck]) -> list[Curve]:
    """Draw the reward's lift and the holdout's, the oldest check first, each with its 95 % interval."""
    places = list(enumerate(checks))
    online = [
        _point(i, len(checks), one.reward_lift, one.reward_error) for i, one in places if one.HasField("reward_lift")
    ]
    held = [
        _point(i, len(checks), one.holdout_lift, one.holdout_error) for i, one in places if one.HasField("holdout_lift")
    ]
    return [Curve(points=online), Curve(points=held, tone="good", dashed=True)]


def evidence(checks: Sequence[pb.DivergenceCheck], detector: str) -> tuple[Curve, float] | None:
    """Draw a detector's evidence in powers of ten, with its threshold; None where it never spoke."""
    read = [(place, one) for place, check in enumerate(checks) for one in check.readings if one.detector == detector]
    if not read:
        return None
    points = [_point(place, len(checks), math.log10(max(one.evidence, _LEAST_EVIDENCE)), None) for place, one in read]
    return Curve(points=points, tone="bad"), math.log10(max(read[-1][1].threshold, _LEAST_EVIDENCE))


def _point(place: int, count: int, value: float, error: float | None) -> Point:
    at = place / max(1, count - 1)
    if error is None:
        return Point(at=at, value=value)
    return Point(at=at, value=value, lower=value - _Z95 * error, upper=value + _Z95 * error)


async def newest(visit: Visit, policy: str, *, size: int = SHOWN) -> Any:
    """Read a policy's newest checks; None where the server keeps none."""
    request = pb.ListDivergenceChecksRequest(parent=policy, page_size=size)
    try:
        return await visit.call(visit.backend.governance.ListDivergenceChecks, request)
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
    checks = list(page.checks) if page is not None else []
    detectors = list(dict.fromkeys(one.detector for check in checks for one in check.readings))
    in_order = checks[::-1]
    return visit.show(
        "divergence.html",
        section="policy",
        tab="divergence",
        standing=standing,
        page=page,
        checks=checks,
        lifts=lifts(in_order),
        drawn=[(name, *found) for name in detectors if (found := evidence(in_order, name)) is not None],
        outcome=outcome,
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
