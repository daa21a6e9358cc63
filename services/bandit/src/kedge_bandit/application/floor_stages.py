"""Read the ramps that bear on a policy, and let the floor's follow what is set by hand or was approved."""

from datetime import datetime

from kedge_bandit.application.administration_ports import GovernedLedger
from kedge_bandit.domain.cap_stage import is_live, stages_from
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.errors import IllegalTransition
from kedge_bandit.domain.lifecycle import stage
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.ramp import UNWATCHED, Ramp, RampKind, begin_cap, begin_floor
from kedge_bandit.domain.ramp_step import approve_floor, check_floor, moved_by_hand, reverted

_SAME = 1e-9


async def ramps_of(ledger: GovernedLedger, policy: Policy) -> list[Ramp]:
    """Read the ramps that bear on a policy as it is: the floor's always, and those of live arms."""
    stored = await ledger.ramps.of(policy.name)
    floor = policy.spec.exploration.floor
    begun = next((ramp for ramp in stored if ramp.kind is RampKind.FLOOR), None)
    if begun is None:
        begun = begin_floor(policy.name, floor, policy.create_time)
    elif abs(begun.stage.value - floor) > _SAME:
        begun = moved_by_hand(begun, floor, policy.update_time)
    caps = policy.spec.exploration.arm_caps
    live = [ramp for ramp in stored if ramp.arm_id and is_live(policy, ramp.arm_id)]
    return [begun, *(_at_cap(ramp, caps.get(ramp.arm_id, 1.0), policy.update_time) for ramp in live)]


def _at_cap(ramp: Ramp, cap: float, at: datetime) -> Ramp:
    return ramp if abs(ramp.stage.value - cap) <= _SAME else moved_by_hand(ramp, cap, at)


async def follow_floor(ledger: GovernedLedger, found: Policy, floor: float, change: Change) -> None:
    """Let the ramp follow a floor that is set by hand.

    Args:
        found: the policy before.

    Raises:
        FloorNotApproved: it is below what the stages allow.
    """
    if abs(found.spec.exploration.floor - floor) <= _SAME:
        return
    begun, *_ = await ramps_of(ledger, found)
    check_floor(begun, floor)
    await ledger.ramps.put(moved_by_hand(begun, floor, change.at), None)


async def take_floor_stage(
    ledger: GovernedLedger, policy: Policy, change: Change, *, floor: float, uniform_slice: float | None, proposal: str
) -> Policy:
    """Carry out an approved proposal of kind FLOOR_STAGE; the one who calls has checked who approved it.

    Args:
        proposal: resource name of the proposal, for the stage.

    Raises:
        IllegalTransition: the floor is no stage after the one in force, or the policy is not watched.
        ExplorationRefused: a cap is under the slice's own share there.
    """
    if await ledger.divergence.watch(policy.name) is None:
        raise IllegalTransition(f"no floor leaves its first stage without {UNWATCHED}")
    begun, *_ = await ramps_of(ledger, policy)
    ramp, event = approve_floor(begun, floor, proposal, change)
    policy, staged = stage(policy, change, floor=floor, uniform_slice=uniform_slice)
    await ledger.policies.put(policy, staged)
    await ledger.ramps.put(ramp, event)
    return policy


async def begin_arm_ramp(ledger: GovernedLedger, policy: Policy, change: Change, *, arm_id: str, proposal: str) -> None:
    """Start the ramp of an arm that was approved, from the cap that it has now.

    Raises:
        IllegalTransition: the arm is not under a cap.
    """
    cap = policy.spec.exploration.arm_caps.get(arm_id)
    if cap is None or not is_live(policy, arm_id):
        raise IllegalTransition(f"arm {arm_id} is under no cap: a ramp raises one")
    ramp, event = begin_cap(policy.name, arm_id, stages_from(cap), proposal, change)
    await ledger.ramps.put(ramp, event)


async def follow_reverted(ledger: GovernedLedger, before: Policy, after: Policy, change: Change) -> None:
    """Let the floor's ramp follow a proposal that was reverted."""
    floor = after.spec.exploration.floor
    if abs(floor - before.spec.exploration.floor) > _SAME:
        begun, *_ = await ramps_of(ledger, before)
        await ledger.ramps.put(reverted(begun, floor, change.at), None)
