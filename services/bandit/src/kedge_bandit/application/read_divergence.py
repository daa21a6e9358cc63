"""Read divergence checks, and ask for one."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from kedge_bandit.application.administration_ports import GovernedLedgers
from kedge_bandit.application.govern import Order
from kedge_bandit.application.ports import Clock
from kedge_bandit.domain.change import subject_of
from kedge_bandit.domain.divergence_check import DivergenceCheck, Watch
from kedge_bandit.domain.errors import IllegalTransition
from kedge_bandit.domain.identifiers import PolicyName, TenantId


@dataclass(frozen=True, slots=True)
class Standing:
    """How a policy stands: checks newest first, the newest that succeeded, and how it is watched; None: it is not."""

    checks: Sequence[DivergenceCheck]
    success: DivergenceCheck | None
    watch: Watch | None


@dataclass(frozen=True, slots=True)
class ReadDivergence:
    """List the divergence checks of a policy."""

    ledgers: GovernedLedgers

    async def __call__(self, tenant: TenantId, policy: PolicyName, *, before: int | None, limit: int) -> Standing:
        """Read checks newest first, those before a number. Raises TenantDenied, PolicyNotFound."""
        async with self.ledgers.open(tenant) as ledger:
            await ledger.policies.get(policy)
            return Standing(
                checks=await ledger.divergence.list(policy, before=before, limit=limit),
                success=await ledger.divergence.newest(policy, succeeded=True),
                watch=await ledger.divergence.watch(policy),
            )


@dataclass(frozen=True, slots=True)
class AskCheck:
    """Want a check at once, which the gate makes."""

    ledgers: GovernedLedgers
    clock: Clock

    async def __call__(self, tenant: TenantId, policy: PolicyName, order: Order) -> datetime:
        """Ask; gives since when.

        Raises:
            IllegalTransition: the policy cannot be checked: it has no holdout, or nobody answers.
            TenantDenied, PolicyNotFound, IdempotencyConflict.
        """
        change = order.change(tenant, self.clock)
        async with self.ledgers.open(tenant) as ledger:
            await ledger.policies.get(policy)
            watch = await ledger.divergence.watch(policy)
            if watch is None:
                raise IllegalTransition(
                    "nothing can be compared: import 150 cases or more, half of which are the sensor's, and name who "
                    "answers them with `kedge holdout answerer`"
                )
            if await ledger.policies.is_first(order.write):
                await ledger.divergence.ask(policy, order.actor.name, change.at)
                await ledger.audit.append(change.event("divergence.asked", subject_of(tenant, policy), {}))
        return change.at
