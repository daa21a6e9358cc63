"""Move the cap of one arm to another stage of its ramp."""

from dataclasses import replace
from typing import Final

from kedge_bandit.domain.allocation import check_exploration
from kedge_bandit.domain.audit import Fact
from kedge_bandit.domain.change import Change, subject_of
from kedge_bandit.domain.errors import ArmNotFound
from kedge_bandit.domain.lifecycle import Move
from kedge_bandit.domain.policy import Policy

CAP_STAGES: Final = (0.2, 0.5, 1.0)
"""Caps that follow an arm's first one; who approves the arm approves them, each still has to be earned."""


def stages_from(first: float) -> tuple[float, ...]:
    """Give the stages of an arm that starts under a cap.

    >>> stages_from(0.05)
    (0.05, 0.2, 0.5, 1.0)
    """
    return (first, *(cap for cap in CAP_STAGES if cap > first))


def is_live(policy: Policy, arm_id: str) -> bool:
    """Say whether an arm gets traffic under a cap."""
    return any(arm.arm_id == arm_id and not arm.retired for arm in policy.spec.arms)


def cap_arm(policy: Policy, arm_id: str, cap: float, change: Change) -> Move:
    """Give an arm another cap, in (0, 1]; like a floor's stage it leaves the counts of the configuration as they are.

    Raises:
        ArmNotFound: no live arm of the policy has that id.
        ExplorationRefused: the cap is under the slice's own share.
    """
    if not is_live(policy, arm_id):
        raise ArmNotFound(f"the policy has no live arm {arm_id}: read its arms from GetPolicy")
    old = policy.spec.exploration
    spec = replace(policy.spec, exploration=replace(old, arm_caps={**old.arm_caps, arm_id: cap}))
    caps = dict(zip(spec.action_keys, spec.action_caps, strict=True)) if spec.action_caps else None
    check_exploration(floor=old.floor, uniform_slice=old.uniform_slice, actions=len(spec.actions), caps=caps)
    moved = replace(policy, version=policy.version + 1, spec=spec, update_time=change.at)
    facts: dict[str, Fact] = {
        "policy_version": moved.version,
        "arm": arm_id,
        "cap_before": old.arm_caps.get(arm_id, 1.0),
        "cap": cap,
    }
    return moved, change.event("policy.staged", subject_of(change.tenant, policy.name), facts)
