"""Proposals: the inbox, a tenant's queue, one proposal with its evidence, and the decisions about it."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.responses import Response

from kedge.bandit.v1 import holdout_service_pb2, proposal_pb2, proposal_service_pb2
from kedge_bandit.adapters.console import failures, online, promotion, reading, wording
from kedge_bandit.adapters.console import proposals_read as read
from kedge_bandit.adapters.console.backend import CallRefused
from kedge_bandit.adapters.console.failures import RETURNED
from kedge_bandit.adapters.console.verdict import Verdict
from kedge_bandit.adapters.console.visit import Visit, moved
from kedge_bandit.domain.peek import LEAST_CASES
from kedge_bandit.domain.principal import Permission
from kedge_bandit.domain.proposal import BLOCK
from kedge_bandit.domain.proposal_state import OPEN

TABS: Final = {
    "open": ("Open", tuple(OPEN)),
    "served": ("Served", read.SERVED),
    "ended": ("Not served", ("GATE_FAILED", "REJECTED", "EXPIRED", "WITHDRAWN", "VOIDED")),
    "all": ("All", ()),
}


async def inbox(visit: Visit) -> Response:
    """Show what waits for this person in every tenant, what they proposed themselves, and what is under way."""
    names = (await reading.tenants_of(visit))[: reading.TENANTS_SHOWN]
    asked = [(tenant, states) for states in (read.WAITING, read.UNDER_WAY) for tenant in names]
    listings = await reading.together(read.list_of(visit, tenant, states) for tenant, states in asked)
    mine: list[Any] = []
    own: list[Any] = []
    others: list[Any] = []
    for one in (one for listing in listings for one in listing.found):
        place = mine if read.is_mine_to_decide(visit, one) else own if read.is_by(visit, one) else others
        place.append(one)
    return visit.show(
        "inbox.html",
        section="inbox",
        mine=mine,
        own=own,
        others=others,
        is_served=any(listing.is_served for listing in listings),
    )


async def queue(visit: Visit) -> Response:
    """Show a tenant's proposals."""
    assert visit.tenant is not None  # noqa: S101 - the path names it
    tab = visit.asked("show", "open")
    tab = tab if tab in TABS else "open"
    listing = await read.list_of(visit, visit.tenant, TABS[tab][1], after=visit.asked("after"))
    return visit.show("proposals.html", section="proposals", listing=listing, tab=tab, tabs=TABS)


async def show(visit: Visit) -> Response:
    """Show one proposal."""
    return await page_of(visit)


async def page_of(visit: Visit, refusal: CallRefused | None = None) -> Response:
    """Show one proposal, and why what was just tried was refused."""
    proposal = await _get(visit)
    state = wording.state(proposal)
    is_mine = read.is_by(visit, proposal)
    is_open = state in OPEN
    is_gated = proposal.kind not in promotion.NEEDS_NO_GATE
    holdout = await _holdout(visit, proposal) if is_gated and is_open else None
    return visit.show(
        "one_proposal.html",
        200 if refusal is None else failures.status_of(refusal),
        section="proposals",
        proposal=proposal,
        state=state,
        verdict=Verdict(proposal.gate_result) if proposal.gate_result.verdict else None,
        is_mine=is_mine,
        is_decidable=read.is_mine_to_decide(visit, proposal),
        may_force=visit.may(Permission.APPROVE) and visit.may(Permission.CONFIGURE) and not is_mine,
        is_open=is_open,
        is_gated=is_gated,
        is_floor=proposal.kind == proposal_pb2.PROPOSAL_KIND_FLOOR_STAGE,
        has_cases=has_cases(proposal),
        gate_cases=None if holdout is None else holdout.gate_cases,
        least_cases=LEAST_CASES,
        online=None if is_gated or not is_open else await online.online_of(visit, proposal.policy),
        doubts_of=online.doubts,
        progress=_progress(holdout, proposal) if state == "GATE_RUNNING" else None,
        block_days=BLOCK.days,
        refusal=refusal,
    )


async def _get(visit: Visit) -> proposal_pb2.Proposal:
    request = proposal_service_pb2.GetProposalRequest(name=read.name_of(visit))
    found: proposal_pb2.Proposal = (await visit.call(visit.backend.proposals.GetProposal, request)).proposal
    return found


def has_cases(proposal: proposal_pb2.Proposal) -> bool:
    """Say whether a query of the holdout left answers that can be looked at.

    >>> has_cases(proposal_pb2.Proposal()), has_cases(proposal_pb2.Proposal(gate_result={"query": 1}))
    (False, True)
    """
    return bool(proposal.gate_result.query) and proposal.gate_result.answerer_kind != "REPORTED"


async def _holdout(visit: Visit, proposal: proposal_pb2.Proposal) -> Any:
    """Read the holdout that the gate would ask; None where it does not answer."""
    request = holdout_service_pb2.GetHoldoutRequest(policy=proposal.policy)
    try:
        return (await visit.call(visit.backend.holdout.GetHoldout, request)).holdout
    except CallRefused:
        return None


def _progress(holdout: Any, proposal: proposal_pb2.Proposal) -> Any:
    """Find how far the gate is; None where it does not say."""
    if holdout is None:
        return None
    return next((one for one in holdout.ledger if one.proposal == proposal.name and not one.verdict), None)


async def _do(visit: Visit, rpc: Any, request: Any, said: Callable[[Any], tuple[str, str]]) -> Response:
    """Call a verb, say what came of it, and go back to the proposal; a refusal is shown there."""
    try:
        answered = await visit.call(rpc, request)
    except CallRefused as error:
        if error.code in RETURNED:
            return await page_of(visit, error)
        raise
    visit.session.note(*said(answered))
    return moved(f"/{read.name_of(visit)}")


def _given(visit: Visit) -> dict[str, str]:
    return {
        "name": read.name_of(visit),
        "because": visit.form.get("because", ""),
        "request_id": visit.form.get("request_id", ""),
    }


async def approve(visit: Visit) -> Response:
    """Approve what the person has read: the hash stands in the form."""
    request = proposal_service_pb2.ApproveProposalRequest(
        **_given(visit),
        binding_hash=visit.form.get("binding_hash", ""),
        force=visit.form.get("force") == "yes",
    )
    return await _do(visit, visit.backend.proposals.ApproveProposal, request, _approved)


def _approved(answered: Any) -> tuple[str, str]:
    state = wording.state(answered.proposal)
    if state == "VOIDED":
        return "refused", f"Nothing was approved: it is void now. {answered.proposal.state_because}"
    if state == "APPROVED":
        return "done", "Approved. It is served as soon as the present not-now window ends."
    return "done", "Approved, and served from now on."


async def reject(visit: Visit) -> Response:
    """Reject."""
    request = proposal_service_pb2.RejectProposalRequest(**_given(visit))
    return await _do(visit, visit.backend.proposals.RejectProposal, request, lambda _: ("done", "Rejected."))


async def withdraw(visit: Visit) -> Response:
    """Take it back."""
    request = proposal_service_pb2.WithdrawProposalRequest(**_given(visit))
    return await _do(visit, visit.backend.proposals.WithdrawProposal, request, lambda _: ("done", "Withdrawn."))


async def revert(visit: Visit) -> Response:
    """Serve the predecessor again."""
    request = proposal_service_pb2.RevertProposalRequest(**_given(visit))
    return await _do(visit, visit.backend.proposals.RevertProposal, request, _reverted)


def _reverted(answered: Any) -> tuple[str, str]:
    said = "Reverted: the predecessor is served again."
    if answered.proposal.kind == proposal_pb2.PROPOSAL_KIND_FLOOR_STAGE:
        return "done", said
    return "done", f"{said} The same content cannot be proposed for {BLOCK.days} days."


async def run_gate(visit: Visit) -> Response:
    """Have the gate compare candidate and incumbent; that uses a query of the holdout."""
    request = proposal_service_pb2.RunGateRequest(name=read.name_of(visit), request_id=visit.form.get("request_id", ""))
    return await _do(visit, visit.backend.proposals.RunGate, request, lambda _: ("done", "The gate takes it now."))


async def comment(visit: Visit) -> Response:
    """Say something about it."""
    request = proposal_service_pb2.CommentProposalRequest(
        name=read.name_of(visit), text=visit.form.get("text", ""), request_id=visit.form.get("request_id", "")
    )
    return await _do(visit, visit.backend.proposals.CommentProposal, request, lambda _: ("done", "Comment added."))


async def cases(visit: Visit) -> Response:
    """Say what opening the cases means, before it is done."""
    return _cases(visit, await _get(visit))


async def open_cases(visit: Visit) -> Response:
    """Open the cases that changed most, to whoever may approve and did not propose; it is audited."""
    proposal = await _get(visit)
    request = holdout_service_pb2.OpenCasesRequest(proposal=proposal.name, because=visit.form.get("because", ""))
    try:
        opened = await visit.call(visit.backend.holdout.OpenCases, request)
    except CallRefused as error:
        if error.code not in RETURNED:
            raise
        return _cases(visit, proposal, refusal=error)
    return _cases(visit, proposal, opened=opened)


def _cases(
    visit: Visit, proposal: proposal_pb2.Proposal, *, opened: Any = None, refusal: CallRefused | None = None
) -> Response:
    status = 200 if refusal is None else failures.status_of(refusal)
    return visit.show(
        "cases.html",
        status,
        section="proposals",
        proposal=proposal,
        has_cases=has_cases(proposal),
        opened=opened,
        refusal=refusal,
    )


ACTIONS: Final[dict[str, tuple[Callable[[Visit], Awaitable[Response]], Permission]]] = {
    "approve": (approve, Permission.APPROVE),
    "reject": (reject, Permission.APPROVE),
    "withdraw": (withdraw, Permission.PROPOSE),
    "revert": (revert, Permission.APPROVE),
    "gate": (run_gate, Permission.RUN_GATE),
    "comment": (comment, Permission.COMMENT),
    "cases": (open_cases, Permission.APPROVE),
}
"""What can be done with a proposal, and the permission that it takes."""
