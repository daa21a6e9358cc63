"""Watch for divergence: the gate compares reward lift and holdout lift, and freezes within the check that alarms."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import structlog

from kedge_bandit.application.ask_sensor import LONGEST, Asked, AskSensor, Sensor
from kedge_bandit.application.holdout_ports import AnswererPart, HoldoutRecord, Holdouts
from kedge_bandit.application.ports import Clock
from kedge_bandit.application.proposal_ports import ProposingLedger
from kedge_bandit.domain.audit import KEDGE
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.divergence import Lift, Reading, compare, restarted, tripped
from kedge_bandit.domain.divergence_check import DivergenceCheck, HoldoutSide, Outcome, is_due, told
from kedge_bandit.domain.holdout import Part
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.incident import Incident
from kedge_bandit.domain.lifecycle import freeze
from kedge_bandit.domain.mode import PolicyClock, most_restrictive, policy_clock
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.published import Allocation

_LEASE: Final = LONGEST + timedelta(minutes=1)
_DAY: Final = timedelta(days=1)
_BUCKETS: Final = 100_000
_RANDOM_BYTES: Final = 32

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claimed:
    """A check that this process makes."""

    policy: Policy
    begin: datetime
    actor: str
    sensor: Sensor
    allocations: Mapping[str, Allocation]
    is_spent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchDivergence:
    """Look at one policy, and make a check where one is due.

    Attributes:
        randomness: gives that many random bytes, fit for secrets.
    """

    holdouts: Holdouts
    ask: AskSensor
    clock: Clock
    randomness: Callable[[int], bytes]

    async def __call__(self, tenant: TenantId, name: PolicyName) -> DivergenceCheck | None:
        """Look. None where no check is due, or another process makes it.

        Raises:
            TenantDenied, PolicyNotFound, StoreUnavailable.
        """
        claimed = await self._claim(tenant, name)
        if claimed is None:
            return None
        if claimed.is_spent:
            nothing = HoldoutSide(version=claimed.sensor.version, pool=0, cases=0, answers=0, cost_usd=0.0)
            asked = Asked(nothing, "the checks of the last day have cost what they may (max_cost_usd_per_day)")
        else:
            seed = self.randomness(_RANDOM_BYTES)
            asked = await self.ask(tenant, claimed.policy, claimed.sensor, claimed.allocations, seed)
        return await self._conclude(tenant, claimed, asked)

    async def _claim(self, tenant: TenantId, name: PolicyName) -> _Claimed | None:
        now = self.clock.now()
        async with self.holdouts.open(tenant) as record:
            async with record.tenant() as ledger:
                policy, watch = await ledger.policies.get(name), await ledger.divergence.watch(name)
                if watch is None:
                    return None
                if not await _wanted(ledger, policy, now):
                    await ledger.divergence.put_off(name, now + policy.spec.divergence.pause)
                    return None
                if not await ledger.divergence.claim(name, now, _LEASE):
                    return None
                limit = policy.spec.divergence.max_cost_usd_per_day
                is_spent = limit > 0 and await ledger.divergence.spent(name, now - _DAY) >= limit
                found = await ledger.proposals.allocations(name, limit=_BUCKETS)
            sensor = await self._sensor(record, name)
        return _Claimed(
            policy=policy,
            begin=now,
            actor=watch.asked_by or KEDGE.name,
            sensor=sensor,
            allocations={one.bucket: one for one in found},
            is_spent=is_spent,
        )

    async def _sensor(self, record: HoldoutRecord, name: PolicyName) -> Sensor:
        newest = await record.cases.newest(name)
        answerer = await record.answerers.get(name, AnswererPart.ANSWERER)
        judge = await record.answerers.get(name, AnswererPart.JUDGE)
        return Sensor(
            version="" if newest is None else newest.digest,
            cases=[] if newest is None else await record.cases.read(name, Part.SENSOR, newest.number),
            answerer=None if answerer is None else answerer[0],
            judge=None if judge is None else judge[0],
            secret=await record.cases.secret(self.randomness(_RANDOM_BYTES)),
        )

    async def _conclude(self, tenant: TenantId, claimed: _Claimed, asked: Asked) -> DivergenceCheck:
        """Keep the check, and freeze where it alarms: one transaction, so that neither is ever there alone."""
        now, name, why = self.clock.now(), claimed.policy.name, asked.why
        async with self.holdouts.open(tenant) as record:
            spread = (await record.cases.add_lifts(name, asked.lifts)).sd_between
            async with record.tenant() as ledger:
                await ledger.proposals.hold(name)
                policy, before = await ledger.policies.get(name), await ledger.divergence.newest(name)
                online = await ledger.divergence.online(policy, before.online.through if before else 0)
                check = DivergenceCheck(
                    policy=name,
                    begin_time=claimed.begin,
                    check_time=now,
                    policy_time=(await _clock(ledger, name)).at(now),
                    outcome=Outcome.FAILED if why else Outcome.TOO_FEW,
                    because=why,
                    actor=claimed.actor,
                    reward=online.lift("quality"),
                    online=online,
                    holdout=replace(asked.side, spread=spread),
                )
                check = await self._judged(ledger, policy, check, before)
                await ledger.divergence.release(name, now + policy.spec.divergence.pause, sees=not why)
            await record.add_check(check)
        log.info("divergence.checked", tenant=tenant, policy=name, outcome=check.outcome, incident=check.incident)
        return check

    async def _judged(
        self, ledger: ProposingLedger, policy: Policy, check: DivergenceCheck, before: DivergenceCheck | None
    ) -> DivergenceCheck:
        """Take a check into the detectors, and freeze where one trips; what was not compared counts in the next one."""
        known = dict(before.readings) if before else {}
        reward, holdout = check.reward, check.holdout.lift
        if check.outcome is Outcome.FAILED or reward is None or holdout is None:
            online = replace(check.online, through=before.online.through if before else 0)
            return replace(check, online=online, readings=known)
        readings = known | {one.detector: one for one in read_all(policy, check, reward, holdout, known)}
        check = replace(check, outcome=Outcome.COMPARED, readings=readings)
        alarms = tripped(readings)
        if not alarms:
            return check
        change = Change(tenant=ledger.tenant, actor=KEDGE, because=told(check, alarms[0]), at=check.check_time)
        if not policy.mode.stops_time:
            await ledger.policies.put(*freeze(policy, change))
        opened = [await ledger.incidents.open(_incident(check, one), change) for one in alarms]
        return replace(check, readings=restarted(readings), incident=opened[0].number)


def read_all(
    policy: Policy, check: DivergenceCheck, reward: Lift, holdout: Lift, before: Mapping[str, Reading]
) -> tuple[Reading, ...]:
    """Read every detector of a check that measured both lifts."""
    rule, side = policy.spec.divergence.rule, check.holdout
    return compare(rule, reward, holdout, between=side.spread, pool=side.pool, before=before)


async def _wanted(ledger: ProposingLedger, policy: Policy, now: datetime) -> bool:
    """Say whether a check is to be made now; none that nobody asked for while nothing is learned."""
    watch, last = await ledger.divergence.watch(policy.name), await ledger.divergence.newest(policy.name)
    if watch is None:
        return False
    modes = (policy.mode, await ledger.policies.tenant_mode(), await ledger.policies.global_mode())
    if most_restrictive(modes).stops_time and not watch.asked_by:
        return False
    clock = await _clock(ledger, policy.name)
    success = await ledger.divergence.newest(policy.name, succeeded=True)
    since = clock.at(watch.since) if success is None else success.policy_time
    online = await ledger.divergence.online(policy, last.online.through if last else 0)
    return is_due(policy.spec.divergence, watch, clock.at(now) - since, online)


async def _clock(ledger: ProposingLedger, name: PolicyName) -> PolicyClock:
    return policy_clock(await ledger.policies.mode_changes(name))


def _incident(check: DivergenceCheck, reading: Reading) -> Incident:
    return Incident(
        policy=check.policy,
        detector=reading.detector,
        statistic=reading.evidence,
        evidence=told(check, reading),
        open_time=check.check_time,
        froze=True,
    )
