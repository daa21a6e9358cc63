"""Configure: put a policy, add and retire arms, each from the version that the caller saw."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from kedge_bandit.application.administration_ports import GovernedLedger, GovernedLedgers
from kedge_bandit.application.floor_stages import follow_floor
from kedge_bandit.application.govern import Order
from kedge_bandit.application.ports import Clock
from kedge_bandit.application.proposal_ports import ProposingLedgers
from kedge_bandit.application.propose import Wish, submitted
from kedge_bandit.domain.advice import warnings_of
from kedge_bandit.domain.candidate import Candidate, ProposalKind
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.consent import check_terms, new_content, what_needs_consent
from kedge_bandit.domain.dimension import Arm, Dimension
from kedge_bandit.domain.errors import PolicyNotFound, VersionMismatch
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.lifecycle import ArmPointer, Move, create, replace_spec, retire_arm, upsert_arm, with_history
from kedge_bandit.domain.policy import Policy, PolicySpec
from kedge_bandit.domain.principal import Person
from kedge_bandit.domain.proposal import Proposal
from kedge_bandit.domain.proposal_errors import ProposalRequired


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
            ProposalRequired: it brings what takes a second person: new content, another baseline, a higher cap.
            FloorNotApproved: its floor is below what the stages of the policy allow.
            ReasonRequired, IdempotencyConflict, TenantDenied.
        """
        change = order.change(tenant, self.clock)
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
                    _check_consent(found, spec)
                    policy, event = replace_spec(found, spec, change)
                    await follow_floor(ledger, found, spec.exploration.floor, change)
                    await ledger.policies.put(policy, event)
        if policy is None:
            raise PolicyNotFound(name)
        return Configured(policy, warnings_of(policy.spec))


@dataclass(frozen=True, slots=True)
class Upserted:
    """A policy as it stands, and the proposal that new content became; None where there was none."""

    policy: Policy
    proposal: Proposal | None


@dataclass(frozen=True, slots=True)
class UpsertArm:
    """Change the card of an arm; content that is not live becomes a proposal, of which nothing is served."""

    ledgers: ProposingLedgers
    clock: Clock

    async def __call__(
        self,
        tenant: TenantId,
        name: PolicyName,
        arm: Arm,
        order: Order,
        *,
        expected_version: int,
        person: Person | None = None,
    ) -> Upserted:
        """Upsert it.

        Args:
            expected_version: of the policy whose card is changed; a proposal changes no policy.
            person: who asks; None for a program.

        Raises:
            VersionMismatch, IllegalTransition, InvalidPolicy, and for new content what `SubmitProposal` raises.
        """
        change = order.change(tenant, self.clock)
        async with self.ledgers.open(tenant) as ledger:
            found = await ledger.policies.get(name)
            if new_content(found.spec, arm):
                kind = ProposalKind.PROMPT if arm.dimension is Dimension.PROMPT_VARIANT else ProposalKind.ARM
                wish = Wish(policy=name, candidate=Candidate(kind, arm=arm), person=person)
                return Upserted(found, await submitted(ledger, wish, order, change))
            if not await ledger.policies.is_first(order.write):
                return Upserted(found, None)
            _check_version(found, expected_version)
            check_terms(found.spec, arm)
            moved, event = upsert_arm(found, arm, change)
            await ledger.policies.put(moved, event)
        return Upserted(moved, None)


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
    change = order.change(tenant, clock)
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


def _check_consent(found: Policy, spec: PolicySpec) -> None:
    for arm in spec.arms:
        check_terms(found.spec, arm)
    if needing := what_needs_consent(found.spec, with_history(found, spec)):
        raise ProposalRequired(
            " and ".join(needing), "put the policy as it is, and submit each with `kedge proposal submit`"
        )


async def _find(ledger: GovernedLedger, name: PolicyName) -> Policy | None:
    try:
        return await ledger.policies.get(name)
    except PolicyNotFound:
        return None


def _check_version(found: Policy | None, expected: int) -> None:
    version = 0 if found is None else found.version
    if version != expected:
        raise VersionMismatch(expected=expected, found=version)
