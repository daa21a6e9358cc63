"""Look at ramps, and let people move them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kedge_bandit.application.administration_ports import GovernedLedger, GovernedLedgers, Override
from kedge_bandit.application.floor_stages import ramps_of
from kedge_bandit.application.govern import Order, retried
from kedge_bandit.application.ports import Clock
from kedge_bandit.application.proposal_ports import ProposingLedgers
from kedge_bandit.domain.cap_stage import cap_arm
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.errors import ArmNotFound
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.involvement import check_advancer
from kedge_bandit.domain.lifecycle import stage
from kedge_bandit.domain.mode import Mode, most_restrictive
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.proposal_state import ProposalState
from kedge_bandit.domain.ramp import (
    Judged,
    Looked,
    Move,
    Ramp,
    RampKind,
    abort,
    advance,
    judge,
    pause,
)


@dataclass(frozen=True, slots=True)
class Seen:
    """A ramp with what a look found."""

    ramp: Ramp
    looked: Looked
    judged: Judged


_UNJUDGED: Final = Judged((), (), ())

Movement = Callable[[Seen, Change], Move]


@dataclass(frozen=True, slots=True)
class RampReport:
    """Every ramp of a policy, the floor's first, and the decisions a day that alarms are computed for."""

    seen: Sequence[Seen]
    decisions_per_day: float


@dataclass(frozen=True, slots=True)
class ReadRamps:
    """Look at every ramp of a policy."""

    ledgers: GovernedLedgers
    override: Override

    async def __call__(self, tenant: TenantId, name: PolicyName, *, with_metrics: bool = True) -> RampReport:
        """Read them. Raises TenantDenied, PolicyNotFound.

        Args:
            with_metrics: else the evidence is not looked at: states and stages alone.
        """
        async with self.ledgers.open(tenant) as ledger:
            policy = await ledger.policies.get(name)
            if not with_metrics:
                known = [Seen(ramp, Looked(now=ramp.since), _UNJUDGED) for ramp in await ramps_of(ledger, policy)]
                return RampReport(known, 0.0)
            applied = await is_applied(ledger, policy, self.override(tenant, name))
            seen = [await look(ledger, policy, ramp, is_applied=applied) for ramp in await ramps_of(ledger, policy)]
            return RampReport(seen, await ledger.ramps.decisions_per_day(name))


@dataclass(frozen=True, slots=True)
class MoveRamp:
    """Advance, pause or abort one ramp of a policy."""

    ledgers: ProposingLedgers
    clock: Clock
    override: Override

    async def __call__(self, tenant: TenantId, name: PolicyName, arm_id: str, order: Order, move: Movement) -> Ramp:
        """Move it, and the floor or the cap with it; gives it as it stands then.

        Args:
            arm_id: whose ramp; empty: the floor's.
            move: `advancing`, `pausing` or `aborting`.

        Raises:
            ArmNotFound: the arm has no ramp.
            SecondPersonRequired: it is to go on, and who asks proposed what is served.
            IllegalTransition: as `domain.ramp` says; ReasonRequired.
        """

        async def attempt() -> Ramp:
            change = order.change(tenant, self.clock)
            async with self.ledgers.open(tenant) as ledger:
                policy = await ledger.policies.get(name)
                applied = await is_applied(ledger, policy, self.override(tenant, name))
                found = await _find(ledger, policy, arm_id)
                if not await ledger.policies.is_first(order.write):
                    return found
                moved = move(await look(ledger, policy, found, is_applied=applied), change)
                if move is advancing:
                    serving = frozenset({ProposalState.SERVING})
                    check_advancer(await ledger.proposals.in_state(name, serving), order.actor)
                await settle(ledger, policy, found, moved, change)
                return moved[0]

        return await retried(attempt)


def advancing(seen: Seen, change: Change) -> Move:
    """Go to the next stage, or let a ramp that stands go on."""
    return advance(seen.ramp, change, seen.judged)


def pausing(seen: Seen, change: Change) -> Move:
    """Keep a ramp at its stage."""
    return pause(seen.ramp, change)


def aborting(seen: Seen, change: Change) -> Move:
    """Go back to the first stage."""
    return abort(seen.ramp, change)


async def _find(ledger: GovernedLedger, policy: Policy, arm_id: str) -> Ramp:
    for ramp in await ramps_of(ledger, policy):
        if ramp.arm_id == arm_id:
            return ramp
    raise ArmNotFound(f"arm {arm_id[:90]!r} has no ramp: GetRamp lists those that have one")


async def look(ledger: GovernedLedger, policy: Policy, ramp: Ramp, *, is_applied: bool) -> Seen:
    """Look at one ramp and judge it."""
    looked = await ledger.ramps.looked(policy, ramp, is_applied=is_applied)
    return Seen(ramp, looked, judge(ramp, looked))


async def is_applied(ledger: GovernedLedger, policy: Policy, outside: Mode) -> bool:
    """Say whether a policy serves what it learned, at every level and on this replica."""
    modes = (policy.mode, await ledger.policies.tenant_mode(), await ledger.policies.global_mode(), outside)
    return most_restrictive(modes) is Mode.APPLY


async def settle(ledger: GovernedLedger, policy: Policy, before: Ramp, moved: Move, change: Change) -> Policy:
    """Store a ramp's move, and give its policy the floor or the cap of the stage that is now in force."""
    ramp, event = moved
    if ramp.stage.value != before.stage.value:
        if ramp.kind is RampKind.FLOOR:
            policy, staged = stage(policy, change, floor=ramp.stage.value)
        else:
            policy, staged = cap_arm(policy, ramp.arm_id, ramp.stage.value, change)
        await ledger.policies.put(policy, staged)
    await ledger.ramps.put(ramp, event)
    return policy
