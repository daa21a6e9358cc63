"""Give the decision log out: policy, every allocation it was served from, each decision with its reward, the belief."""

from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from kedge_bandit.application.administration_ports import AdministeredPolicies, CellSums
from kedge_bandit.application.learned import LearnedRecord
from kedge_bandit.application.ports import Decisions, LoggedDecision
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.known_change import CellChange
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.published import Allocation
from kedge_bandit.domain.self_check import Finding


class ExportedLearning(Protocol):
    """The worker's record as the export reads it."""

    async def learned(self, policies: Collection[PolicyName]) -> dict[PolicyName, LearnedRecord]:
        """Read what is kept of these policies."""


class ExportedLedger(Protocol):
    """One tenant's record as the export reads it."""

    @property
    def learning(self) -> ExportedLearning:
        """The known changes."""

    @property
    def policies(self) -> AdministeredPolicies:
        """The policy and what was learned."""

    @property
    def decisions(self) -> Decisions:
        """The log."""


class ExportedLedgers(Protocol):
    """Opens ledgers that see one state of the database throughout."""

    def open(self, tenant: TenantId, *, one_view: bool) -> AbstractAsyncContextManager[ExportedLedger]:
        """Open one tenant's record. Raises TenantDenied for an unknown tenant, StoreUnavailable without a database."""


@dataclass(frozen=True, slots=True)
class DecisionLog:
    """A policy's log as of one moment."""

    policy: Policy
    allocations: AsyncIterator[Allocation]
    decisions: AsyncIterator[LoggedDecision]
    changes: tuple[CellChange, ...]
    cells: tuple[CellSums, ...]
    self_check: Finding | None


@dataclass(frozen=True, slots=True)
class ExportDecisions:
    """Open a policy's log; rewards, allocations and belief are of the same moment."""

    ledgers: ExportedLedgers

    @asynccontextmanager
    async def open(
        self, tenant: TenantId, policy: PolicyName, *, start: datetime | None, end: datetime | None
    ) -> AsyncIterator[DecisionLog]:
        """Open it. Raises PolicyNotFound, TenantDenied."""
        async with self.ledgers.open(tenant, one_view=True) as ledger:
            learned = await ledger.policies.learned(policy, with_cells=True)
            yield DecisionLog(
                await ledger.policies.get(policy),
                ledger.decisions.allocations(policy),
                ledger.decisions.export(policy, start=start, end=end),
                (await ledger.learning.learned([policy]))[policy].changes,
                learned.cells,
                learned.self_check,
            )
