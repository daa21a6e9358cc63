"""Attend to proposals: what time brings to them is done by the worker, in the name of the service."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from kedge_bandit.application.ports import Clock
from kedge_bandit.application.proposal_ports import ProposingLedgers
from kedge_bandit.application.serve_proposal import (
    because_of,
    end_if_over,
    is_not_now,
    running_policy,
    serve_approved,
)
from kedge_bandit.domain.audit import KEDGE
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.gate import GateResult, Inconclusive, Verdict
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.proposal import Proposal, ProposalId, Step, conclude_gate, reject
from kedge_bandit.domain.proposal_errors import PolicyFrozen
from kedge_bandit.domain.proposal_state import WAITING, ProposalState

LONGEST_GATE: Final = timedelta(days=1)
"""After so long without a verdict nobody runs a gate any more."""
_ROUTINE: Final = "its time came"


@dataclass(frozen=True, slots=True)
class AttendProposals:
    """Do what time brings to the proposals of one tenant: expire, void, finish a rejection, serve what waited."""

    ledgers: ProposingLedgers
    clock: Clock

    async def __call__(self, tenant: TenantId, proposal: ProposalId) -> Proposal | None:
        """Attend to one; None where nothing was due."""
        change = Change(tenant=tenant, actor=KEDGE, because=_ROUTINE, at=self.clock.now())
        async with self.ledgers.open(tenant) as ledger:
            found = await ledger.proposals.get(proposal)
            await ledger.proposals.hold(found.policy)
            found = await ledger.proposals.get(proposal)
            step = _overdue(found, change)
            if step is not None:
                await ledger.proposals.put(*step)
                return step[0]
            if found.state not in WAITING:
                return None
            objector = await ledger.proposals.objection(proposal)
            if objector:
                step = reject(found, because_of(change, f"{objector} rejected it"))
                await ledger.proposals.put(*step)
                return step[0]
            over = await end_if_over(ledger, found, change)
            if over is not None or found.state is not ProposalState.APPROVED:
                return over
            if await is_not_now(ledger, found.policy, change):
                return None
            try:
                policy = await running_policy(ledger, found.policy)
            except PolicyFrozen:
                return None
            return await serve_approved(ledger, policy, found, change)


def _overdue(found: Proposal, change: Change) -> Step | None:
    """Give a gate up that has no verdict after a day; None where there is none to give up."""
    if found.state is not ProposalState.GATE_RUNNING or change.at < found.update_time + LONGEST_GATE:
        return None
    lost = GateResult(verdict=Verdict.INCONCLUSIVE, inconclusive_reason=Inconclusive.CRASHED, gate_time=change.at)
    return conclude_gate(found, lost, because_of(change, "the gate has given no verdict for a day"))
