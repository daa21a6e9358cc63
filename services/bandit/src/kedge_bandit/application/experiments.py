"""Fix experiments before they start, look at them as often as one likes, and freeze what they showed when they end."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from kedge_bandit.application.experiment_ports import ExperimentLedger, ExperimentLedgers
from kedge_bandit.application.govern import Order
from kedge_bandit.application.measure_experiment import measure
from kedge_bandit.application.ports import Clock
from kedge_bandit.application.take_turns import TakeTurns
from kedge_bandit.domain.errors import InvalidValue
from kedge_bandit.domain.experiment import Experiment, ExperimentSide, create, end, side_of
from kedge_bandit.domain.experiment_report import ExperimentReport, report
from kedge_bandit.domain.identifiers import PolicyName, TenantId, text_id


@dataclass(frozen=True, slots=True)
class Reported:
    """An experiment with what it shows; no report where experiments are listed."""

    experiment: Experiment
    report: ExperimentReport | None


@dataclass(frozen=True, slots=True)
class Experimenting:
    """The experiments of a tenant; those that are measured take turns."""

    ledgers: ExperimentLedgers
    clock: Clock
    turns: TakeTurns = field(default_factory=TakeTurns)

    async def create(self, tenant: TenantId, draft: Callable[[datetime], Experiment], order: Order) -> Experiment:
        """Fix one.

        Args:
            draft: gives it as of now, for one that starts at once.

        Raises:
            ExperimentExists, PolicyNotFound, InvalidValue, ReasonRequired, IdempotencyConflict.
        """
        change = order.change(tenant, self.clock)
        made, event = create(draft(change.at), change)
        async with self.ledgers.open(tenant) as ledger:
            if not await ledger.policies.is_first(order.write):
                return await ledger.experiments.get(made.experiment_id)
            await ledger.policies.get(made.policy)
            await ledger.experiments.add(made, event)
        return made

    async def get(self, tenant: TenantId, experiment_id: str) -> Reported:
        """Read one with its report: the frozen one, else what it shows by now. Raises ExperimentNotFound."""
        async with self.turns.turn(tenant), self.ledgers.open(tenant) as ledger:
            return await self._reported(ledger, await ledger.experiments.get(experiment_id))

    async def list(self, tenant: TenantId, policy: PolicyName | None) -> Sequence[Reported]:
        """Read the newest, with the reports of those that ended."""
        async with self.ledgers.open(tenant) as ledger:
            return [Reported(one, report) for one, report in await ledger.experiments.list(policy)]

    async def end(self, tenant: TenantId, experiment_id: str, order: Order) -> Reported:
        """End one and freeze its report. Raises ExperimentNotFound, IllegalTransition, ReasonRequired."""
        change = order.change(tenant, self.clock)
        async with self.turns.turn(tenant), self.ledgers.open(tenant) as ledger:
            found = await ledger.experiments.get(experiment_id)
            if not await ledger.policies.is_first(order.write):
                return await self._reported(ledger, found)
            shown = await _shown(ledger, found, change.at)
            ended, event = end(found, change, shown.decision)
            await ledger.experiments.end(ended, shown, event)
        return Reported(ended, shown)

    async def assignment(self, tenant: TenantId, experiment_id: str, unit_id: str) -> ExperimentSide:
        """Say which side a session or cohort is on. Raises ExperimentNotFound, InvalidValue for one of episodes."""
        text_id(unit_id, field="unit_id")
        async with self.ledgers.open(tenant) as ledger:
            found = await ledger.experiments.get(experiment_id)
        if found.control_share is None:
            raise InvalidValue("unit", found.unit, "SESSION or COHORT: episodes are assigned by their own draw")
        return side_of(tenant, experiment_id, unit_id, found.control_share)

    async def _reported(self, ledger: ExperimentLedger, found: Experiment) -> Reported:
        frozen = await ledger.experiments.report(found.experiment_id)
        return Reported(found, frozen or await _shown(ledger, found, self.clock.now()))


async def _shown(ledger: ExperimentLedger, experiment: Experiment, now: datetime) -> ExperimentReport:
    measured = await measure(ledger, experiment, min(now, experiment.end))
    return await asyncio.to_thread(report, measured, experiment.primary, experiment.guardrails)  # decisions go on
