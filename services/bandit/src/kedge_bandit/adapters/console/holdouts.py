"""The holdout of each policy: sizes, power, the ledger of queries, who answers; never a case."""

from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import Response

from kedge.bandit.v1 import holdout_service_pb2 as pb
from kedge_bandit.adapters.console import failures, reading, wording
from kedge_bandit.adapters.console.backend import CallRefused
from kedge_bandit.adapters.console.failures import RETURNED
from kedge_bandit.adapters.console.visit import Visit, moved
from kedge_bandit.domain.peek import LEAST_ADVERSARIAL, LEAST_CASES, MAX_QUERIES, MAX_ROTATIONS
from kedge_bandit.domain.rotation import STALE_AFTER

AWAY: Final = ("UNIMPLEMENTED", "UNAVAILABLE", "DEADLINE_EXCEEDED")
"""How a gate answers that is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldoutView:
    """A policy's holdout; `holdout` is None where the gate does not answer."""

    policy: str
    holdout: Any

    @property
    def exists(self) -> bool:
        """Whether cases were imported."""
        return self.holdout is not None and bool(self.holdout.version)


async def show_all(visit: Visit) -> Response:
    """Show the holdouts of a tenant's policies."""
    assert visit.tenant is not None  # noqa: S101 - the path names it
    policies = await reading.policies_of(visit, visit.tenant)
    views = await reading.together(_view(visit, policy.name) for policy in policies)
    return visit.show("holdouts.html", section="holdout", views=views, most_queries=MAX_QUERIES)


async def show(visit: Visit) -> Response:
    """Show one policy's holdout."""
    return await _page(visit)


async def _page(visit: Visit, plan: Any = None, refusal: CallRefused | None = None) -> Response:
    name = visit.policy
    view = await _view(visit, name)
    answerer = None
    if view.holdout is not None:
        try:
            answerer = await visit.call(visit.backend.holdout.GetAnswerer, pb.GetAnswererRequest(policy=name))
        except CallRefused as error:
            if error.code not in ("NOT_FOUND", *AWAY):
                raise
    made = wording.time_of(view.holdout.create_time) if view.exists else None
    return visit.show(
        "one_holdout.html",
        200 if refusal is None else failures.status_of(refusal),
        section="holdout",
        view=view,
        answerer=answerer,
        kinds=pb.AnswererKind,
        plan=plan,
        refusal=refusal,
        is_old=made is not None and visit.now - made > STALE_AFTER,
        least=LEAST_CASES,
        least_adversarial=LEAST_ADVERSARIAL,
        most_queries=MAX_QUERIES,
        most_rotations=MAX_ROTATIONS,
    )


async def rotate(visit: Visit) -> Response:
    """Say what a rotation would do, or do it."""
    is_plan = visit.form.get("do") != "yes"
    request = pb.RotateHoldoutRequest(
        policy=visit.policy,
        plan_only=is_plan,
        because=visit.form.get("because", ""),
        request_id=visit.form.get("request_id", ""),
    )
    try:
        answered = await visit.call(visit.backend.holdout.RotateHoldout, request)
    except CallRefused as error:
        if error.code not in RETURNED:
            raise
        return await _page(visit, refusal=error)
    if is_plan:
        return await _page(visit, plan=answered)
    visit.session.note("done", f"Rotated: {answered.leaving} cases left, {answered.staying} stay.")
    return moved(f"/{visit.policy}/holdout")


async def _view(visit: Visit, name: str) -> HoldoutView:
    try:
        found = await visit.call(visit.backend.holdout.GetHoldout, pb.GetHoldoutRequest(policy=name))
    except CallRefused as error:
        if error.code in AWAY:
            return HoldoutView(policy=name, holdout=None)
        raise
    return HoldoutView(policy=name, holdout=found.holdout)
