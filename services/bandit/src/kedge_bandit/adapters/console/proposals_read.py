"""Read proposals for the pages: which are open, which wait for whom."""

from typing import Any, Final

from kedge.bandit.v1 import proposal_pb2, proposal_service_pb2
from kedge_bandit.adapters.console.backend import CallRefused
from kedge_bandit.adapters.console.visit import Visit
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.principal import Permission

OPEN: Final = ("SUBMITTED", "GATE_RUNNING", "INCONCLUSIVE", "AWAITING_APPROVAL", "APPROVED")
_PAGE: Final = 1000


def state_of(proposal: proposal_pb2.Proposal) -> str:
    """Name a proposal's state.

    >>> state_of(proposal_pb2.Proposal(state=proposal_pb2.Proposal.STATE_SERVING))
    'SERVING'
    """
    return proposal_pb2.Proposal.State.Name(proposal.state).removeprefix("STATE_")


def kind_of(proposal: proposal_pb2.Proposal) -> str:
    """Name a proposal's kind.

    >>> kind_of(proposal_pb2.Proposal(kind=proposal_pb2.PROPOSAL_KIND_PROMPT))
    'PROMPT'
    """
    return proposal_pb2.ProposalKind.Name(proposal.kind).removeprefix("PROPOSAL_KIND_")


async def all_of(visit: Visit, tenant: TenantId) -> list[Any] | None:
    """List a tenant's proposals, newest first; None where the server does not serve them yet. Raises CallRefused."""
    request = proposal_service_pb2.ListProposalsRequest(parent=f"tenants/{tenant}", page_size=_PAGE)
    try:
        page = await visit.call(visit.backend.proposals.ListProposals, request, tenant)
    except CallRefused as error:
        if error.code == "UNIMPLEMENTED":
            return None
        raise
    return list(page.proposals)


async def open_ones(visit: Visit, tenant: TenantId) -> list[Any] | None:
    """List those that may still be served."""
    found = await all_of(visit, tenant)
    return None if found is None else [one for one in found if state_of(one) in OPEN]


def is_mine_to_decide(visit: Visit, proposal: proposal_pb2.Proposal) -> bool:
    """Say whether this person may approve a proposal: it waits, they may, and they did not write it."""
    tenant = TenantId(proposal.name.split("/")[1])
    person = visit.session.person
    if state_of(proposal) != "AWAITING_APPROVAL" or not visit.session.may(Permission.APPROVE, tenant) or person is None:
        return False
    author = proposal.author_person
    return (author.issuer, author.subject) != (person.issuer, person.subject)
