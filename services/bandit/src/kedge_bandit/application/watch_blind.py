"""Watch over the watch: where no divergence check succeeds, the worker takes traffic back from what nobody can see."""

from dataclasses import dataclass
from typing import Final

import structlog

from kedge_bandit.application.administration_ports import GovernedLedger, GovernedLedgers
from kedge_bandit.application.floor_stages import ramps_of
from kedge_bandit.application.ports import Clock
from kedge_bandit.application.ramps import settle
from kedge_bandit.domain.audit import KEDGE
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.divergence_check import Watch, blindness
from kedge_bandit.domain.errors import KedgeError
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.incident import Incident
from kedge_bandit.domain.lifecycle import set_mode
from kedge_bandit.domain.mode import Mode, policy_clock
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.ramp_step import back_to_first

BLIND: Final = "blind"
"""Name of the detector."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WatchBlind:
    """Look at the watched policies of a tenant."""

    ledgers: GovernedLedgers
    clock: Clock

    async def __call__(self, tenant: TenantId) -> dict[PolicyName, int]:
        """Take every step that is due; gives how blind a policy has become, by its name.

        Raises:
            TenantDenied, StoreUnavailable.
        """
        async with self.ledgers.open(tenant) as ledger:
            watched = await ledger.divergence.watched()
        done: dict[PolicyName, int] = {}
        for watch in watched:
            try:
                async with self.ledgers.open(tenant) as ledger:
                    blind = await self._look(ledger, tenant, watch)
            except KedgeError as error:
                log.warning("blind.not_looked_at", tenant=tenant, policy=watch.policy, reason=error.reason)
                continue
            if blind:
                done[watch.policy] = blind
        return done

    async def _look(self, ledger: GovernedLedger, tenant: TenantId, watch: Watch) -> int:
        """Give how blind the policy has become in this look; 0 where nothing was to be done."""
        now, policy = self.clock.now(), await ledger.policies.get(watch.policy)
        clock = policy_clock(await ledger.policies.mode_changes(policy.name))
        success = await ledger.divergence.newest(policy.name, succeeded=True)
        elapsed = clock.at(now) - (clock.at(watch.since) if success is None else success.policy_time)
        blind = blindness(policy.spec.divergence, elapsed)
        if blind <= watch.blind or not await ledger.divergence.be_blind(policy.name, blind):
            return 0
        newest = await ledger.divergence.newest(policy.name)
        why = newest.because if newest is not None and newest.because else "the gate made no check"
        spec = policy.spec.divergence
        told = f"no divergence check has succeeded for {elapsed / spec.interval.total_seconds():.1f} intervals: {why}"
        change = Change(tenant=tenant, actor=KEDGE, because=told, at=now)
        if watch.blind == 0:
            policy = await _floor_back(ledger, policy, change)
            incident = Incident(policy=policy.name, detector=BLIND, statistic=elapsed, evidence=told, open_time=now)
            await ledger.incidents.open(incident, change)
        if blind > 1 and policy.mode is Mode.APPLY:
            await ledger.policies.put(*set_mode(policy, Mode.OBSERVE, change))
        log.warning("divergence.blind", tenant=tenant, policy=policy.name, blind=blind)
        return blind


async def _floor_back(ledger: GovernedLedger, policy: Policy, change: Change) -> Policy:
    """Take the floor back to its first stage, from which only an approval leads on."""
    floor, *_ = await ramps_of(ledger, policy)
    if floor.at == 0:
        return policy
    return await settle(ledger, policy, floor, back_to_first(floor, change), change)
