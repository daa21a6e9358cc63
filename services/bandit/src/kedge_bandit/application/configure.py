"""Configure: put a policy, add and retire arms, each from the version that the caller saw."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from kedge_bandit.application.administration_ports import GovernedLedger, GovernedLedgers
from kedge_bandit.application.floor_stages import follow_floor
from kedge_bandit.application.govern import Order
from kedge_bandit.application.ports import Clock
from kedge_bandit.domain.advice import warnings_of
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.dimension import Arm
from kedge_bandit.domain.errors import PolicyNotFound, VersionMismatch
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.lifecycle import ArmPointer, Move, create, replace_spec, retire_arm, upsert_arm, with_history
from kedge_bandit.domain.policy import Policy, PolicySpec


@dataclass(frozen=True, slots=True)
class Configured:
    """A policy as it stands after the change, with what deserves a second look."""

    policy: Policy
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PutPolicy:
    """Create a policy, or configure it anew; putting what is in force changes nothing."""

    ledgers: GovernedLedgers
    clock: Clock

    async def __call__(
        self,
        tenant: TenantId,
        name: PolicyName,
        spec: PolicySpec,
        order: Order,
        *,
        expected_version: int,
        keeps_floor: bool = False,
    ) -> Configured:
        """Put it.

        Args:
            expected_version: the version that the change was made from; 0 creates.
            keeps_floor: a policy that is there keeps the floor that its ramp has reached.

        Raises:
            VersionMismatch: another change came first.
            InvalidPolicy, ExplorationRefused: the configuration cannot serve.
            FloorNotApproved: its floor is below what the stages of the policy allow.
            ReasonRequired, IdempotencyConflict, TenantDenied.
        """
        change = Change(tenant=tenant, actor=order.actor, because=order.because, at=self.clock.now())
        async with self.ledgers.open(tenant) as ledger:
            found = await _find(ledger, name)
            policy = found
            if await ledger.policies.is_first(order.write) or found is None:
                _check_version(found, expected_version)
                if found is not None and keeps_floor:
                    spec = _at_floor(spec, found)
                if found is None:
                    policy, event = create(name, spec, change)
                    await ledger.policies.put(policy, event)
                elif with_history(found, spec) != found.spec:
                    policy, event = replace_spec(found, spec, change)
                    await follow_floor(ledger, found, spec.exploration.floor, change)
                    await ledger.policies.put(policy, event)
        if policy is None:
            raise PolicyNotFound(name)
        return Configured(policy, warnings_of(policy.spec))


@dataclass(frozen=True, slots=True)
class UpsertArm:
    """Add an arm, or change the card of one; other content under a live name retires that arm."""

    ledgers: GovernedLedgers
    clock: Clock

    async def __call__(
        self, tenant: TenantId, name: PolicyName, arm: Arm, order: Order, *, expected_version: int
    ) -> Policy:
        """Upsert it. Raises VersionMismatch, IllegalTransition for the baseline's name, InvalidPolicy."""

        def move(policy: Policy, change: Change) -> Move:
            return upsert_arm(policy, arm, change)

        return await _moved(self.ledgers, self.clock, (tenant, name, expected_version), order, move)


@dataclass(frozen=True, slots=True)
class RetireArm:
    """Make an arm a tombstone."""

    ledgers: GovernedLedgers
    clock: Clock

    async def __call__(
        self, tenant: TenantId, name: PolicyName, pointer: ArmPointer, order: Order, *, expected_version: int
    ) -> Policy:
        """Retire it. Raises VersionMismatch, ArmNotFound, IllegalTransition for the baseline's."""

        def move(policy: Policy, change: Change) -> Move:
            return retire_arm(policy, pointer, change)

        return await _moved(self.ledgers, self.clock, (tenant, name, expected_version), order, move)


async def _moved(
    ledgers: GovernedLedgers,
    clock: Clock,
    seen: tuple[TenantId, PolicyName, int],
    order: Order,
    move: Callable[[Policy, Change], Move],
) -> Policy:
    tenant, name, expected_version = seen
    change = Change(tenant=tenant, actor=order.actor, because=order.because, at=clock.now())
    async with ledgers.open(tenant) as ledger:
        found = await ledger.policies.get(name)
        if not await ledger.policies.is_first(order.write):
            return found
        _check_version(found, expected_version)
        moved, event = move(found, change)
        await ledger.policies.put(moved, event)
    return moved


def _at_floor(spec: PolicySpec, found: Policy) -> PolicySpec:
    """Give a spec the floor of the policy that it is put for."""
    return replace(spec, exploration=replace(spec.exploration, floor=found.spec.exploration.floor))


async def _find(ledger: GovernedLedger, name: PolicyName) -> Policy | None:
    try:
        return await ledger.policies.get(name)
    except PolicyNotFound:
        return None


def _check_version(found: Policy | None, expected: int) -> None:
    version = 0 if found is None else found.version
    if version != expected:
        raise VersionMismatch(expected=expected, found=version)
