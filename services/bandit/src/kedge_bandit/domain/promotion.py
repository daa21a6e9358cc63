"""Change a policy as an approved proposal says, and back again."""

from dataclasses import replace

from kedge_bandit.domain.candidate import Candidate, arms_of, incumbent_arm
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.dimension import Arm
from kedge_bandit.domain.errors import InvalidPolicy
from kedge_bandit.domain.lifecycle import Move, replace_spec, stage, upsert_arm, with_history
from kedge_bandit.domain.policy import Policy, PolicySpec


def promote(policy: Policy, candidate: Candidate, change: Change) -> Move:
    """Serve a candidate: an arm joins under a cap of `NEW_ARM_CAP`, a baseline is re-pinned, a configuration put.

    Raises:
        IllegalTransition: it is served already, or an arm has the baseline's name.
        InvalidPolicy, ExplorationRefused: the policy would not be valid with it.
    """
    spec = policy.spec
    if candidate.arm is not None:
        return upsert_arm(policy, candidate.arm, change)
    if candidate.baseline is not None:
        pinned = arms_of(spec, candidate.baseline)
        caps = spec.exploration.arm_caps | {arm.arm_id: 1.0 for arm in pinned}
        exploration = replace(spec.exploration, arm_caps=caps)
        return replace_spec(policy, replace(spec, baseline=dict(candidate.baseline), exploration=exploration), change)
    if candidate.configuration is not None:
        return replace_spec(policy, _with_settings(spec, candidate.configuration), change)
    if candidate.floor is None:
        raise InvalidPolicy("the candidate is empty: propose an arm, a baseline, a configuration or a floor")
    return stage(policy, change, floor=candidate.floor, uniform_slice=candidate.uniform_slice)


def demote(policy: Policy, candidate: Candidate, base: PolicySpec, change: Change) -> Move | None:
    """Serve again what was served before a candidate; its content is read from `base`, wherever it went since.

    What was made safer since stays so: a floor is never lowered by it, a slice or a cap never raised.

    Returns:
        None where that is what the policy serves already.

    Raises:
        InvalidPolicy, ExplorationRefused: the policy would not be valid so.
    """
    if candidate.arm is not None:
        before = _without_arm(policy.spec, candidate.arm, incumbent_arm(candidate, base), base)
    elif candidate.baseline is not None:
        restored = policy.spec
        for arm in arms_of(base, base.baseline):
            restored = _with_arm(restored, arm, base)
        before = replace(restored, baseline=dict(base.baseline))
    elif candidate.configuration is not None:
        before = _with_settings(policy.spec, base)
    else:
        now, then = policy.spec.exploration, base.exploration
        floor, uniform_slice = max(now.floor, then.floor), min(now.uniform_slice, then.uniform_slice)
        before = replace(policy.spec, exploration=replace(now, floor=floor, uniform_slice=uniform_slice))
    if with_history(policy, before) == policy.spec:
        return None
    return replace_spec(policy, before, change)


def _with_settings(spec: PolicySpec, settings: PolicySpec) -> PolicySpec:
    """Give a spec other settings; what is served, and how much of it, stays as it is."""
    stage = spec.exploration
    exploration = replace(
        settings.exploration, arm_caps=stage.arm_caps, floor=stage.floor, uniform_slice=stage.uniform_slice
    )
    return replace(settings, arms=spec.arms, baseline=spec.baseline, exploration=exploration)


def _without_arm(spec: PolicySpec, new: Arm, old: Arm, base: PolicySpec) -> PolicySpec:
    """Retire a candidate's arm and have its incumbent live, as the baseline's where the candidate is that by now."""
    gone = [arm for arm in spec.arms if _same(arm, new) and not arm.retired]
    pinned = bool(gone) and spec.baseline.get(new.dimension) == new.name
    if gone:
        caps = {arm_id: cap for arm_id, cap in spec.exploration.arm_caps.items() if arm_id != new.arm_id}
        arms = tuple(replace(arm, retired=True) if _same(arm, new) else arm for arm in spec.arms)
        # An arm of each dimension has to be there at every moment, and the baseline's has to be live: both at once.
        joined = _joined(arms, old)
        baseline = spec.baseline | {new.dimension: old.name} if pinned else spec.baseline
        spec = replace(spec, arms=joined, baseline=baseline, exploration=replace(spec.exploration, arm_caps=caps))
        return _capped(spec, old, base)
    return _with_arm(spec, old, base)


def _with_arm(spec: PolicySpec, arm: Arm, base: PolicySpec) -> PolicySpec:
    """Have an arm live in the place of any other of its name."""
    if any(_same(one, arm) and not one.retired for one in spec.arms):
        return spec
    return _capped(replace(spec, arms=_joined(spec.arms, arm)), arm, base)


def _joined(arms: tuple[Arm, ...], arm: Arm) -> tuple[Arm, ...]:
    others = tuple(
        replace(one, retired=True) if (one.dimension, one.name) == (arm.dimension, arm.name) else one
        for one in arms
        if not _same(one, arm)
    )
    return (*others, replace(arm, retired=False))


def _capped(spec: PolicySpec, arm: Arm, base: PolicySpec) -> PolicySpec:
    """Give an arm that comes back the cap that it had, or a lower one that it has now; the baseline's has none."""
    caps = spec.exploration.arm_caps
    cap = base.exploration.arm_caps.get(arm.arm_id)
    if cap is None:
        return spec
    lower = min(cap, caps.get(arm.arm_id, cap))
    return replace(spec, exploration=replace(spec.exploration, arm_caps=caps | {arm.arm_id: lower}))


def _same(one: Arm, other: Arm) -> bool:
    return (one.dimension, one.arm_id) == (other.dimension, other.arm_id)
