"""Read proposals for the pages: which are open, which wait for whom."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kedge.bandit.v1 import proposal_pb2, proposal_service_pb2
from kedge_bandit.adapters.console import wording
from kedge_bandit.adapters.console.backend import CallRefused
from kedge_bandit.adapters.console.visit import Visit
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.principal import Permission
from kedge_bandit.domain.proposal_state import OPEN, ProposalState

WAITING: Final = (ProposalState.AWAITING_APPROVAL,)
UNDER_WAY: Final = tuple(OPEN.difference(WAITING))
SERVED: Final = ("SERVING", "REVERTED", "SUPERSEDED")
SHOWN: Final = 50
"""Proposals of one page: each comes with its whole text."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Proposals, newest first, and where the next ones begin; empty at the end.

    Attributes:
        is_served: whether the server serves proposals at all.
    """

    found: Sequence[proposal_pb2.Proposal] = ()
    next: str = ""
    is_served: bool = True


async def list_of(
    visit: Visit, tenant: TenantId, states: Sequence[str], *, policy: str = "", after: str = "", most: int = SHOWN
) -> Listing:
    """List a tenant's proposals in some states, all of them where none is named. Raises CallRefused."""
    request = proposal_service_pb2.ListProposalsRequest(
        parent=f"tenants/{tenant}",
        states=[proposal_pb2.Proposal.State.Value(f"STATE_{name}") for name in states],
        policy=policy,
        page_token=after,
        page_size=most,
    )
    try:
        page = await visit.call(visit.backend.proposals.ListProposals, request, tenant)
    except CallRefused as error:
        if error.code == "UNIMPLEMENTED":
            return Listing(is_served=False)
        raise
    return Listing(page.proposals, page.next_page_token)


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
