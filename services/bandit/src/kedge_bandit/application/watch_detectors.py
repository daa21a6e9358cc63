"""Watch what needs no holdout: the worker says where judge, answers or vetoes part from the baseline's, or freezes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from kedge_bandit.application.administration_ports import GovernedLedger, GovernedLedgers
from kedge_bandit.application.ports import Clock
from kedge_bandit.application.ramps import is_applied
from kedge_bandit.domain.audit import KEDGE
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.detectors import Place, Secondary, in_words
from kedge_bandit.domain.divergence import Reading
from kedge_bandit.domain.errors import KedgeError
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.incident import Incident
from kedge_bandit.domain.lifecycle import freeze
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.policy import Policy

NEW_ROWS: Final = 100
"""Rows that the tenant's evidence log has to grow by before a detector reads it again."""
NEWEST: Final = 20_000
"""Rows of evidence that a look goes back at most."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class WatchDetectors:
    """Look at the policies of a tenant.

    Attributes:
        override: a mode of a policy from outside the database; while it is not APPLY, nothing is watched.
    """

    ledgers: GovernedLedgers
    clock: Clock
    override: Callable[[TenantId, PolicyName], Mode] = lambda _tenant, _policy: Mode.APPLY
    _read: dict[tuple[TenantId, PolicyName, Secondary], int] = field(default_factory=dict)

    async def __call__(self, tenant: TenantId) -> Sequence[PolicyName]:
        """Take every look that is due; gives the policies at which something tripped.

        Raises:
            TenantDenied, StoreUnavailable.
        """
        async with self.ledgers.open(tenant) as ledger:
            head = await ledger.detectors.head()
            names = [policy.name for policy in await ledger.policies.list() if policy.mode is Mode.APPLY]
        alarmed = []
        for name in names:
            waiting = [one for one in Secondary if head - self._read.get((tenant, name, one), 0) >= NEW_ROWS]
            try:
                if waiting and await self._look(tenant, name, waiting, head):
                    alarmed.append(name)
            except KedgeError as error:
                log.warning("detectors.not_looked_at", tenant=tenant, policy=name, reason=error.reason)
        return alarmed

    async def _look(self, tenant: TenantId, name: PolicyName, waiting: Sequence[Secondary], head: int) -> bool:
        async with self.ledgers.open(tenant) as ledger:
            policy = await ledger.policies.get(name)
            if not await is_applied(ledger, policy, self.override(tenant, name)):
                return False
            places = await ledger.detectors.places(name)
            tripped: list[Reading] = []
            for detector in waiting:
                self._read[tenant, name, detector] = head
                place = places.get(detector, Place())
                look = await ledger.detectors.look(
                    policy, detector, after=max(place.through, head - NEWEST), through=head
                )
                if not look.is_due(detector):
                    continue
                moved = place.after(detector, look, head)
                if moved.reading is not None and moved.reading.trips:
                    tripped.append(moved.reading)
                    moved = moved.told(detector, moved.reading)
                await ledger.detectors.put(name, detector, moved)
            if tripped:
                await self._tell(ledger, policy, tripped, tenant)
        return bool(tripped)

    async def _tell(self, ledger: GovernedLedger, policy: Policy, tripped: Sequence[Reading], tenant: TenantId) -> None:
        because = "; ".join(in_words(reading) for reading in tripped)
        change = Change(tenant=tenant, actor=KEDGE, because=because, at=self.clock.now())
        if any(Secondary(reading.detector).freezes for reading in tripped):
            await ledger.policies.put(*freeze(policy, change))
        for reading in tripped:
            incident = Incident(
                policy=policy.name,
                detector=reading.detector,
                statistic=reading.value,
                evidence=in_words(reading),
                open_time=change.at,
                froze=Secondary(reading.detector).freezes,
            )
            await ledger.incidents.open(incident, change)
            log.warning("detector.tripped", tenant=tenant, policy=policy.name, detector=reading.detector)
