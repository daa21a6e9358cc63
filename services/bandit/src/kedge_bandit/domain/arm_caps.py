"""Cap what an arm gets that joins a policy later, until a person states another cap."""

from kedge_bandit.domain.policy import Exploration, Policy, PolicySpec

NEW_ARM_CAP = 0.05
"""Largest probability of the actions of an arm that joined a policy later; raised by configuring another cap."""


def new_cap(exploration: Exploration, actions: int) -> float:
    """Cap a new arm, at no less than the slice's own share, under which no cap may lie.

    >>> new_cap(Exploration(floor=0.8, uniform_slice=0.1), 4)
    0.05
    """
    return max(NEW_ARM_CAP, (1.0 - exploration.floor) * exploration.uniform_slice / actions)


def unstated_caps(policy: Policy, spec: PolicySpec) -> dict[str, float]:
    """Give the caps of the live arms of a policy's next spec, whether it states others or not.

    One that is new to the policy is capped, unless it is the baseline's; one that is not keeps its cap.
    """
    known = {(arm.dimension, arm.arm_id) for arm in policy.spec.arms}
    kept = policy.spec.exploration.arm_caps
    caps: dict[str, float] = {}
    for arm in spec.arms:
        if arm.retired:
            continue
        if (arm.dimension, arm.arm_id) not in known and spec.baseline.get(arm.dimension) != arm.name:
            caps[arm.arm_id] = new_cap(spec.exploration, len(spec.actions))
        elif arm.arm_id in kept:
            caps[arm.arm_id] = kept[arm.arm_id]
    return caps
