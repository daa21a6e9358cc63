"""Govern: freeze, unfreeze, change modes and stages of a policy, a tenant or everything, each with who and why."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TypeVar

from kedge_bandit.application.administration_ports import GovernedLedger, GovernedLedgers, WriteId
from kedge_bandit.application.floor_stages import follow_floor
from kedge_bandit.application.hold import SELF_CHECK
from kedge_bandit.application.ports import Clock
from kedge_bandit.application.read_modes import GLOBAL, Levels, Modes, Scope
from kedge_bandit.domain.audit import Actor, AuditEvent
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.errors import VersionMismatch
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.involvement import check_resumer
from kedge_bandit.domain.lifecycle import Move, freeze, renew_epoch, set_mode, stage, unfreeze
from kedge_bandit.domain.mode import Mode, most_restrictive
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.switch import (
    QuarantineChoice,
    check_freeze,
    check_second_person,
    check_set_mode,
    check_unfreeze,
    mode_before_stop,
    newest_mode,
    stopped_since,
    who_stopped,
)

_ATTEMPTS = 5
_STAMPS_APART = timedelta(seconds=1)
"""An alarm and the freeze that it made are one transaction, and their stamps may differ by less."""
_PAGE = 500

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Order:
    """Who asks for a change, why, and under which id."""

    actor: Actor
    because: str
    write: WriteId = WriteId()

    def change(self, tenant: TenantId, clock: Clock) -> Change:
        """Give the change that is asked for, of a tenant, now."""
        return Change(tenant=tenant, actor=self.actor, because=self.because, at=clock.now())


@dataclass(frozen=True, slots=True)
class Freeze:
    """Stop drawing and learning at one level; one person may do it at once."""

    levels: Levels
    clock: Clock

    async def __call__(self, scope: Scope, order: Order) -> Modes:
        """Freeze. Raises IllegalTransition when that level stands still already, ReasonRequired."""
        await _set(self.levels, self.clock, scope, order, _Wanted("frozen", freeze, check_freeze, Mode.FROZEN))
        return await self.levels(scope)


@dataclass(frozen=True, slots=True)
class SetMode:
    """Change the mode of one level."""

    levels: Levels
    clock: Clock

    async def __call__(self, scope: Scope, mode: Mode, order: Order) -> Modes:
        """Change it. Raises IllegalTransition when it is in that mode, or when learning would resume."""

        def move(policy: Policy, change: Change) -> Move:
            return set_mode(policy, mode, change)

        def check(found: Mode) -> None:
            check_set_mode(found, mode)

        await _set(self.levels, self.clock, scope, order, _Wanted("mode_set", move, check, mode))
        return await self.levels(scope)


@dataclass(frozen=True, slots=True)
class Unfreeze:
    """Resume a level in the mode before its stop, and say what becomes of quarantined evidence.

    The choice reaches every policy that runs again; one that another level still stops waits until that resumes. A
    policy that runs, but whose learning an alarm of the self-check holds, learns again; its self-check starts anew.
    """

    levels: Levels
    clock: Clock

    async def __call__(self, scope: Scope, quarantine: QuarantineChoice, order: Order) -> Modes:
        """Unfreeze. Raises IllegalTransition when it does not stand still, SecondPersonRequired for who stopped it."""
        if scope.tenant is None:
            await self._everything(quarantine, order)
        else:
            await retried(partial(self._within, scope.tenant, scope.policy, quarantine, order))
        return await self.levels(scope)

    async def _within(
        self, tenant: TenantId, name: PolicyName | None, quarantine: QuarantineChoice, order: Order
    ) -> None:
        change = order.change(tenant, self.clock)
        async with self.levels.ledgers.open(tenant) as ledger:
            if not await ledger.policies.is_first(order.write):
                return
            if name is None:
                await _resume_tenant(ledger, change, quarantine)
                return
            policy = await ledger.policies.get(name)
            if not policy.mode.stops_time and await _is_held(ledger, name):
                await ledger.learning.lock(wait=True)  # before the audit log: the worker takes both in this order
                await ledger.policies.put(*renew_epoch(policy, change, quarantine=quarantine))
                await ledger.learning.clear_hold(name)
            else:
                await _resume_policy(ledger, policy, change, quarantine)

    async def _everything(self, quarantine: QuarantineChoice, order: Order) -> None:
        registry = self.levels.registry
        changes = await registry.global_mode_changes()
        check_unfreeze(newest_mode(changes))
        check_second_person(who_stopped(changes, GLOBAL), order.actor)
        resume = mode_before_stop(changes, GLOBAL)
        await registry.put_global_mode(resume, _global_event(order, self.clock, "unfrozen", resume))
        after = ""
        while tenants := await registry.list(after=after, limit=_PAGE):
            for tenant in tenants:
                await retried(partial(self._resume_all, tenant.name, quarantine, order))
            after = tenants[-1].name

    async def _resume_all(self, tenant: TenantId, quarantine: QuarantineChoice, order: Order) -> None:
        async with self.levels.ledgers.open(tenant) as ledger:
            above = await ledger.policies.tenant_mode()
            await _resume_policies(ledger, above, order.change(tenant, self.clock), quarantine)


@dataclass(frozen=True, slots=True)
class StagePolicy:
    """Move a policy's floor and slice to another stage."""

    ledgers: GovernedLedgers
    clock: Clock

    async def __call__(
        self, tenant: TenantId, name: PolicyName, order: Order, *, floor: float, uniform_slice: float | None = None
    ) -> Policy:
        """Stage. Raises FloorNotApproved, ExplorationRefused, IllegalTransition for no change, ReasonRequired."""

        async def attempt() -> Policy:
            async with self.ledgers.open(tenant) as ledger:
                found = await ledger.policies.get(name)
                if not await ledger.policies.is_first(order.write):
                    return found
                change = order.change(tenant, self.clock)
                moved, event = stage(found, change, floor=floor, uniform_slice=uniform_slice)
                await follow_floor(ledger, found, floor, change)
                await ledger.policies.put(moved, event)
            return moved

        return await retried(attempt)


async def retried(attempt: Callable[[], Awaitable[_T]]) -> _T:
    """Do again what another change came before: these verbs apply to whatever version is in force."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return await attempt()
        except VersionMismatch:
            continue
    return await attempt()


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A change of mode, as it is said for a policy and for the levels above."""

    verb: str
    move: Callable[[Policy, Change], Move]
    check: Callable[[Mode], None]
    mode: Mode


async def _set(levels: Levels, clock: Clock, scope: Scope, order: Order, wanted: _Wanted) -> None:
    if scope.tenant is None:
        wanted.check(newest_mode(await levels.registry.global_mode_changes()))
        event = _global_event(order, clock, wanted.verb, wanted.mode)
        await levels.registry.put_global_mode(wanted.mode, event)
    elif scope.policy is None:
        await _set_tenant(levels.ledgers, order.change(scope.tenant, clock), order.write, wanted)
    else:
        await _moved(levels.ledgers, clock, (scope.tenant, scope.policy), order, wanted.move)


async def _set_tenant(ledgers: GovernedLedgers, change: Change, write: WriteId, wanted: _Wanted) -> None:
    async with ledgers.open(change.tenant) as ledger:
        if not await ledger.policies.is_first(write):
            return
        found = await ledger.policies.tenant_mode()
        wanted.check(found)
        facts = {"mode_before": found.value, "mode": wanted.mode.value}
        event = change.event(f"tenant.{wanted.verb}", f"tenants/{change.tenant}", facts)
        await ledger.policies.put_tenant_mode(wanted.mode, event)


async def _moved(
    ledgers: GovernedLedgers,
    clock: Clock,
    subject: tuple[TenantId, PolicyName],
    order: Order,
    move: Callable[[Policy, Change], Move],
) -> Policy:
    tenant, name = subject

    async def attempt() -> Policy:
        async with ledgers.open(tenant) as ledger:
            found = await ledger.policies.get(name)
            if not await ledger.policies.is_first(order.write):
                return found
            moved, event = move(found, order.change(tenant, clock))
            await ledger.policies.put(moved, event)
        return moved

    return await retried(attempt)


async def _is_held(ledger: GovernedLedger, name: PolicyName) -> bool:
    """Say whether only a person can let learning go on; a lack of safety verdicts ends by itself."""
    return (await ledger.policies.learned(name, with_cells=False)).learning_held == SELF_CHECK


async def _resume_policy(ledger: GovernedLedger, policy: Policy, change: Change, quarantine: QuarantineChoice) -> None:
    changes = await ledger.policies.mode_changes(policy.name)
    resume = mode_before_stop(changes, "policy")
    check_second_person(who_stopped(changes, "policy"), change.actor)
    since = stopped_since(changes, "policy")
    if since is not None:
        check_resumer(
            change.tenant, await ledger.incidents.that_froze(policy.name, since - _STAMPS_APART), change.actor
        )
    moved, event = unfreeze(policy, change, resume=resume, quarantine=quarantine)
    await ledger.policies.put(moved, event)
    above = (await ledger.policies.tenant_mode(), await ledger.policies.global_mode())
    if not most_restrictive(above).stops_time:
        await ledger.policies.release_quarantine(policy.name, quarantine, change.at)


async def _resume_tenant(ledger: GovernedLedger, change: Change, quarantine: QuarantineChoice) -> None:
    found = await ledger.policies.tenant_mode()
    check_unfreeze(found)
    changes = await ledger.policies.tenant_mode_changes()
    check_second_person(who_stopped(changes, "tenant"), change.actor)
    resume = mode_before_stop(changes, "tenant")
    facts = {"mode_before": found.value, "mode": resume.value, "quarantine": quarantine.value}
    event = change.event("tenant.unfrozen", f"tenants/{change.tenant}", facts)
    await ledger.policies.put_tenant_mode(resume, event)
    await _resume_policies(ledger, await ledger.policies.global_mode(), change, quarantine)


async def _resume_policies(ledger: GovernedLedger, above: Mode, change: Change, quarantine: QuarantineChoice) -> None:
    """Start a new seed epoch of every policy that runs again, and release its quarantine."""
    if above.stops_time:
        return
    for policy in await ledger.policies.list():
        if not policy.mode.stops_time:
            await ledger.policies.put(*renew_epoch(policy, change, quarantine=quarantine))
            await ledger.policies.release_quarantine(policy.name, quarantine, change.at)


def _global_event(order: Order, clock: Clock, verb: str, mode: Mode) -> AuditEvent:
    return AuditEvent(
        time=clock.now(),
        actor=order.actor,
        verb=f"global.{verb}",
        subject=GLOBAL,
        because=order.because,
        payload={"mode": mode.value},
    )
