"""Consent or refuse as a person, serve what was consented to, and go back; a rejection wins a race with an approval."""

from dataclasses import dataclass

from kedge_bandit.application.floor_stages import follow_reverted
from kedge_bandit.application.govern import Order, retried
from kedge_bandit.application.ports import Clock
from kedge_bandit.application.proposal_ports import ProposingLedger, ProposingLedgers
from kedge_bandit.application.serve_proposal import end_if_over, is_not_now, running_policy, serve_approved
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.errors import IllegalTransition, InvalidValue, PermissionDenied
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.independence import check_independent
from kedge_bandit.domain.principal import Person, Role
from kedge_bandit.domain.promotion import demote
from kedge_bandit.domain.proposal import Proposal, ProposalId, approve, reject, revert
from kedge_bandit.domain.proposal_errors import BindingMismatch
from kedge_bandit.domain.proposal_state import WAITING

_FORCERS = (Role.ADMIN, Role.OPERATOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """Who consents to what.

    Attributes:
        person: who; None for a program, which never can.
        binding_hash: the one that the person read.
        force: consent without a PASS, or in a not-now window.
    """

    person: Person | None
    role: Role
    binding_hash: str
    force: bool = False


@dataclass(frozen=True, slots=True)
class ApproveProposal:
    """Consent as a second person; what is consented to is served at once, or when a not-now window ends."""

    ledgers: ProposingLedgers
    clock: Clock

    async def __call__(self, tenant: TenantId, proposal: ProposalId, consent: Consent, order: Order) -> Proposal:
        """Approve it; a proposal whose ground changed is VOIDED instead, and one that nobody took in time EXPIRED.

        Raises:
            SecondPersonRequired: the person proposed it, or there is none.
            BindingMismatch: another hash was read.
            PermissionDenied: forced by another role than an admin's.
            NotNow, PolicyFrozen, IllegalTransition, ProposalNotFound, ReasonRequired.
        """
        if consent.force and consent.role not in _FORCERS:
            raise PermissionDenied("force takes role ADMIN: ask an admin, or run the gate again")

        async def attempt() -> Proposal:
            async with self.ledgers.open(tenant) as ledger:
                return await _approved(ledger, proposal, consent, order, order.change(tenant, self.clock))

        return await retried(attempt)


async def _approved(
    ledger: ProposingLedger, proposal_id: ProposalId, consent: Consent, order: Order, change: Change
) -> Proposal:
    found = await ledger.proposals.get(proposal_id)
    await ledger.proposals.hold(found.policy)
    found = await ledger.proposals.get(proposal_id)
    if not await ledger.policies.is_first(order.write):
        return found
    consented, event = approve(found, consent.person, change, force=consent.force)
    check_independent(found.gate_result, consent.person)
    if consent.binding_hash != found.binding_hash:
        raise (
            BindingMismatch(found.binding_hash)
            if consent.binding_hash
            else InvalidValue("binding_hash", "empty", "the proposal's, as you read it")
        )
    over = await end_if_over(ledger, found, change)
    if over is not None:
        return over
    policy = await running_policy(ledger, found.policy)
    await ledger.proposals.put(consented, event)
    if consent.force or not await is_not_now(ledger, found.policy, change):
        consented = await serve_approved(ledger, policy, consented, change)
    await _check_objection(ledger, found)
    return consented


@dataclass(frozen=True, slots=True)
class RejectProposal:
    """Refuse a proposal; it is said before it is done, so that no approval overtakes it."""

    ledgers: ProposingLedgers
    clock: Clock

    async def __call__(self, tenant: TenantId, proposal: ProposalId, order: Order) -> Proposal:
        """Reject it; one that waits to be served is VOIDED. Raises ProposalNotFound, IllegalTransition."""
        change = order.change(tenant, self.clock)
        async with self.ledgers.open(tenant) as ledger:
            found = await ledger.proposals.get(proposal)
            if found.state in WAITING:
                _, event = reject(found, change)
                await ledger.proposals.raise_objection(proposal, event)

        async def attempt() -> Proposal:
            async with self.ledgers.open(tenant) as ledger:
                found = await ledger.proposals.get(proposal)
                await ledger.proposals.hold(found.policy)
                found = await ledger.proposals.get(proposal)
                if not await ledger.policies.is_first(order.write):
                    return found
                rejected, event = reject(found, change)
                await ledger.proposals.put(rejected, event)
                return rejected

        return await retried(attempt)


@dataclass(frozen=True, slots=True)
class RevertProposal:
    """Serve the predecessor again, in one action of one person, also where it was deleted elsewhere."""

    ledgers: ProposingLedgers
    clock: Clock

    async def __call__(self, tenant: TenantId, proposal: ProposalId, order: Order) -> Proposal:
        """Revert it. Raises ProposalNotFound, IllegalTransition where it is not served, InvalidPolicy."""

        async def attempt() -> Proposal:
            change = order.change(tenant, self.clock)
            async with self.ledgers.open(tenant) as ledger:
                found = await ledger.proposals.get(proposal)
                await ledger.proposals.hold(found.policy)
                found = await ledger.proposals.get(proposal)
                if not await ledger.policies.is_first(order.write):
                    return found
                reverted, event = revert(found, change)
                policy = await ledger.policies.get(found.policy)
                moved = demote(policy, found.candidate, found.base, change)
                if moved is not None:
                    await ledger.policies.put(*moved)
                    await follow_reverted(ledger, policy, moved[0], change)
                await ledger.proposals.put(reverted, event)
                return reverted

        return await retried(attempt)


async def _check_objection(ledger: ProposingLedger, found: Proposal) -> None:
    """Let a rejection that was said meanwhile win; the last statement before the commit."""
    objector = await ledger.proposals.objection(found.proposal_id)
    if objector:
        raise IllegalTransition(f"{objector} rejects it: an approval never overtakes a rejection")
