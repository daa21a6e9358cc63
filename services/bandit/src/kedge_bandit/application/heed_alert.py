"""Heed an alert from outside: freeze the policy that it names, once for each alert."""

from dataclasses import dataclass

from kedge_bandit.application.administration_ports import GovernedLedgers
from kedge_bandit.application.govern import Order, retried
from kedge_bandit.application.ports import Clock
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.lifecycle import freeze


@dataclass(frozen=True, slots=True)
class HeedAlert:
    """Freeze a policy because an alert fires.

    An alert is remembered also where the policy stood still already, frozen by the service's own check for instance:
    while it goes on firing it is sent again, and must not undo what a person decides meanwhile.
    """

    ledgers: GovernedLedgers
    clock: Clock

    async def __call__(self, tenant: TenantId, name: PolicyName, order: Order) -> bool:
        """Freeze; false where the policy stands still already, or the alert was heeded before.

        Args:
            order: its write's id is the alert's.

        Raises:
            TenantDenied, PolicyNotFound, StoreUnavailable.
        """

        async def attempt() -> bool:
            async with self.ledgers.open(tenant) as ledger:
                found = await ledger.policies.get(name)
                if not await ledger.policies.is_first(order.write) or found.mode.stops_time:
                    return False
                await ledger.policies.put(*freeze(found, order.change(tenant, self.clock)))
            return True

        return await retried(attempt)
