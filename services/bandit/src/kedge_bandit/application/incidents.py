"""List incidents, and let people take them on and close them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kedge_bandit.application.govern import Order
from kedge_bandit.application.ports import Clock
from kedge_bandit.application.proposal_ports import ProposingLedgers
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.incident import Incident, IncidentState, Move, acknowledge, close
from kedge_bandit.domain.involvement import check_closer
from kedge_bandit.domain.proposal_state import ProposalState


@dataclass(frozen=True, slots=True)
class Incidents:
    """The alarms of a tenant that tripped."""

    ledgers: ProposingLedgers
    clock: Clock

    async def list(self, tenant: TenantId, *, before: int | None, limit: int) -> Sequence[Incident]:
        """Read incidents newest first, those before a number. Raises TenantDenied."""
        async with self.ledgers.open(tenant) as ledger:
            return await ledger.incidents.list(before=before, limit=limit)

    async def acknowledge(self, tenant: TenantId, number: int, order: Order) -> Incident:
        """Make the one who asks its owner. Raises IncidentNotFound, IllegalTransition, ReasonRequired."""
        return await self._moved(tenant, number, order, acknowledge)

    async def close(self, tenant: TenantId, number: int, order: Order) -> Incident:
        """Close it with its cause, the order's reason.

        Raises:
            SecondPersonRequired: who asks proposed or approved what its policy serves now, or is nobody known.
            IncidentNotFound, IllegalTransition, ReasonRequired.
        """
        return await self._moved(tenant, number, order, close)

    async def _moved(
        self, tenant: TenantId, number: int, order: Order, move: Callable[[Incident, Change], Move]
    ) -> Incident:
        change = order.change(tenant, self.clock)
        async with self.ledgers.open(tenant) as ledger:
            found = await ledger.incidents.get(number)
            if not await ledger.policies.is_first(order.write):
                return found
            moved, event = move(found, change)
            if moved.state is IncidentState.CLOSED:
                serving = frozenset({ProposalState.SERVING})
                check_closer(await ledger.proposals.in_state(found.policy, serving), order.actor)
            await ledger.incidents.put(moved, event)
        return moved
