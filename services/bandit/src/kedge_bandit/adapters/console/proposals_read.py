"""Read proposals for the pages: which are open, which wait for whom."""

from typing import Any, Final

from kedge.bandit.v1 import proposal_pb2, proposal_service_pb2
from kedge_bandit.adapters.console import wording
from kedge_bandit.adapters.console.backend import CallRefused
from kedge_bandit.adapters.console.visit import Visit
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.principal import Permission

OPEN: Final = ("SUBMITTED", "GATE_RUNNING", "INCONCLUSIVE", "AWAITING_APPROVAL", "APPROVED")
_PAGE: Final = 1000


async def all_of(visit: Visit, tenant: TenantId) -> list[Any] | None:
    """List a tenant's proposals, newest first; None where the server does not serve them yet. Raises CallRefused."""
    return await _listed(visit, proposal_service_pb2.ListProposalsRequest(parent=f"tenants/{tenant}"), tenant)


async def open_ones(visit: Visit, tenant: TenantId) -> list[Any] | None:
    """List those that may still be served."""
    states = [proposal_pb2.Proposal.State.Value(f"STATE_{name}") for name in OPEN]
    return await _listed(
        visit, proposal_service_pb2.ListProposalsRequest(parent=f"tenants/{tenant}", states=states), tenant
    )


async def _listed(
    visit: Visit, request: proposal_service_pb2.ListProposalsRequest, tenant: TenantId
) -> list[Any] | None:
    request.page_size = _PAGE
    try:
        page = await visit.call(visit.backend.proposals.ListProposals, request, tenant)
    except CallRefused as error:
        if error.code == "UNIMPLEMENTED":
            return None
        raise
    return list(page.proposals)


def name_of(visit: Visit) -> str:
    """Give the resource name of the proposal that a path names."""
    return f"tenants/{visit.tenant}/proposals/{visit.named('proposal')}"


def is_by(visit: Visit, proposal: proposal_pb2.Proposal) -> bool:
    """Say whether this person wrote a proposal."""
    person, author = visit.session.person, proposal.author_person
    return person is not None and (author.issuer, author.subject) == (person.issuer, person.subject)


def is_mine_to_decide(visit: Visit, proposal: proposal_pb2.Proposal) -> bool:
    """Say whether this person may approve a proposal: it waits, they may, and they did not write it."""
    if wording.state(proposal) != "AWAITING_APPROVAL":
        return False
    tenant = TenantId(proposal.name.split("/")[1])
    return visit.session.may(Permission.APPROVE, tenant) and not is_by(visit, proposal)
