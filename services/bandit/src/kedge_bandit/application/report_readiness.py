"""Report how far a tenant is, from its own record and from walls that are tried once a minute at most."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Final, Protocol

from kedge_bandit.application.administration_ports import LearnedState
from kedge_bandit.application.divergence_ports import Divergences
from kedge_bandit.application.experiment_ports import Experiments
from kedge_bandit.application.ports import Clock
from kedge_bandit.application.proposal_ports import ProposingLedger
from kedge_bandit.application.take_turns import TakeTurns
from kedge_bandit.application.verify_isolation import Walls, pairs
from kedge_bandit.domain.divergence import ALARM, DIVERGENCE
from kedge_bandit.domain.divergence_check import Outcome
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.incident import IncidentState
from kedge_bandit.domain.mitigations import mitigations
from kedge_bandit.domain.mode import policy_clock
from kedge_bandit.domain.phases import criteria
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.proposal_state import ProposalState
from kedge_bandit.domain.readiness import (
    Experimented,
    PolicyFacts,
    Readiness,
    Settled,
    Stopped,
    TenantFacts,
    Watched,
    averaged,
)

CHECKS: Final = 30
"""Newest divergence checks that the lifts are read from."""
WALLS_STAND: Final = timedelta(minutes=1)
"""How long walls that were tried are not tried again: that takes thousands of statements."""
_INCIDENTS: Final = 1_000

Tried = tuple[int, Sequence[str]]
"""How often walls were tried, and what went through."""


class ReadinessReads(Protocol):
    """What readiness counts in the open tenant."""

    async def settled(self, policy: PolicyName) -> Settled:
        """Sum up the newest evidence of a policy."""

    async def feedback(self, policy: PolicyName) -> int:
        """Count outcomes of people."""

    async def preferences(self, policy: PolicyName) -> int:
        """Count pairs that people compared."""

    async def configured(self, policy: PolicyName) -> str:
        """Say who stated a policy's configuration last, when and why; empty where it was the service itself."""

    async def unaccounted(self, policy: PolicyName) -> int:
        """Count logged episodes that are not in exactly one state."""

    async def stopped(self, policy: PolicyName, start: datetime, end: datetime | None) -> Stopped:
        """Count what was served from a freeze until it ended."""


class ReadinessLedger(ProposingLedger, Protocol):
    """One tenant's record as readiness reads it, open for one transaction."""

    @property
    def readiness(self) -> ReadinessReads:
        """Counts."""

    @property
    def divergence(self) -> Divergences:
        """Divergence checks."""

    @property
    def experiments(self) -> Experiments:
        """Experiments."""


class ReadinessLedgers(Protocol):
    """Opens ledgers for readiness."""

    def open(self, tenant: TenantId) -> AbstractAsyncContextManager[ReadinessLedger]:
        """Open one tenant's record. Raises TenantDenied for an unknown tenant, StoreUnavailable without a database."""


@dataclass(frozen=True, slots=True)
class ReportReadiness:
    """Measure a tenant.

    Attributes:
        role_of: names a tenant's role, from which the walls around it are tried.
    """

    ledgers: ReadinessLedgers
    walls: Walls
    role_of: Callable[[TenantId], str]
    clock: Clock
    turns: TakeTurns = field(default_factory=TakeTurns)
    _tried: dict[TenantId, tuple[datetime, Tried]] = field(default_factory=dict)

    async def __call__(self, tenant: TenantId) -> Readiness:
        """Measure it when its turn comes; nothing is changed. Raises TenantDenied."""
        async with self.turns.turn(tenant):
            return await self._measure(tenant)

    async def _measure(self, tenant: TenantId) -> Readiness:
        async with self.ledgers.open(tenant) as ledger:
            policies = await ledger.policies.list()
            learned = {one.name: await ledger.policies.learned(one.name, with_cells=False) for one in policies}
            busy = [one for one in policies if sum(learned[one.name].episode_counts.values())]
            incidents = await ledger.incidents.list(before=None, limit=_INCIDENTS)
            opened = Counter(one.policy for one in incidents if one.state is not IncidentState.CLOSED)
            found = [await _facts(ledger, one, learned[one.name], opened[one.name]) for one in busy or policies]
        attempts, reached = await self._try_walls(tenant)
        measured = TenantFacts(now=self.clock.now(), policies=found, attempts=attempts, faults=reached)
        return Readiness(criteria(measured), mitigations(measured))

    async def _try_walls(self, tenant: TenantId) -> Tried:
        """Try this tenant's role against what is not its own, unless that was done within a minute."""
        now = self.clock.now()
        known = self._tried.get(tenant)
        if known is not None and timedelta() <= now - known[0] < WALLS_STAND:
            return known[1]
        role = self.role_of(tenant)
        prey = [schema for who, schema in pairs(await self.walls.places()) if who == role]
        tried = [await self.walls.attempt(role, schema) for schema in prey]
        found = sum(each.tried for each in tried), [place for each in tried for place, _ in each.reached]
        self._tried[tenant] = now, found
        return found


async def _facts(ledger: ReadinessLedger, policy: Policy, learned: LearnedState, opened: int) -> PolicyFacts:
    name, reads = policy.name, ledger.readiness
    return PolicyFacts(
        name=name,
        spec=policy.spec,
        mode=policy.mode,
        unaccounted=await reads.unaccounted(name),
        counts=learned.episode_counts,
        feedback=await reads.feedback(name),
        preferences=await reads.preferences(name),
        configured=await reads.configured(name),
        settled=await reads.settled(name),
        stopped=await _stopped(ledger, name),
        watched=await _watched(ledger, policy),
        holdout_version=await ledger.proposals.holdout_version(name),
        learning_held=learned.learning_held,
        p_value=None if learned.self_check is None else learned.self_check.p_value,
        serving=await ledger.proposals.in_state(name, frozenset({ProposalState.SERVING})),
        open_incidents=opened,
        experiment=await _experimented(ledger, name),
    )


async def _experimented(ledger: ReadinessLedger, name: PolicyName) -> Experimented | None:
    found = await ledger.experiments.concluded(name)
    return None if found is None else Experimented(found[0].experiment_id, found[1].decision)


async def _stopped(ledger: ReadinessLedger, name: PolicyName) -> Stopped | None:
    stops = policy_clock(await ledger.policies.mode_changes(name)).stops
    if not stops:
        return None
    start, end = (datetime.fromtimestamp(moment, UTC) if isfinite(moment) else None for moment in stops[-1])
    return None if start is None else await ledger.readiness.stopped(name, start, end)


async def _watched(ledger: ReadinessLedger, policy: Policy) -> Watched | None:
    watch = await ledger.divergence.watch(policy.name)
    if watch is None:
        return None
    newest = await ledger.divergence.list(policy.name, before=None, limit=CHECKS)
    compared = [check for check in newest if check.outcome is Outcome.COMPARED]
    reading = newest[0].readings.get(DIVERGENCE) if newest else None
    success = await ledger.divergence.newest(policy.name, succeeded=True)
    return Watched(
        reward=averaged([check.reward for check in compared if check.reward is not None]),
        holdout=averaged([check.holdout.lift for check in compared if check.holdout.lift is not None], is_shared=True),
        checks=len(compared),
        evidence=0.0 if reading is None else reading.evidence,
        threshold=ALARM if reading is None else reading.threshold,
        success_time=None if success is None else success.check_time,
        interval=policy.spec.divergence.interval,
        is_blind=watch.blind > 0,
    )
