"""Move a policy from one version to the next. Every move is pure and yields its audit event; an illegal one fails."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from kedge_bandit.domain.allocation import check_exploration
from kedge_bandit.domain.arm_caps import new_cap, unstated_caps
from kedge_bandit.domain.audit import AuditEvent, Fact
from kedge_bandit.domain.change import Change, subject_of
from kedge_bandit.domain.dimension import Arm, Dimension
from kedge_bandit.domain.errors import ArmNotFound, IllegalTransition, InvalidPolicy
from kedge_bandit.domain.identifiers import PolicyName
from kedge_bandit.domain.learners import LEARNERS
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.policy import AUTO, Policy, PolicySpec
from kedge_bandit.domain.switch import QuarantineChoice, check_freeze, check_set_mode, check_unfreeze


@dataclass(frozen=True, slots=True)
class ArmPointer:
    """Names an arm of a policy.

    Attributes:
        hash_prefix: at least 12 hex digits of its content's hash; empty: the live arm of that name.
    """

    dimension: Dimension
    name: str
    hash_prefix: str = ""

    def names(self, arm: Arm) -> bool:
        """Say whether an arm is meant."""
        return (arm.dimension, arm.name) == (self.dimension, self.name) and arm.content_hash.startswith(
            self.hash_prefix
        )


Move = tuple[Policy, AuditEvent]


def create(name: PolicyName, spec: PolicySpec, change: Change) -> Move:
    """Start a policy at version 1 in APPLY.

    Raises:
        InvalidPolicy: the learner is unknown or an arm succeeds one that the policy does not have.
        ExplorationRefused: floor, slice or a cap is out of range.
        ReasonRequired: no reason is given.
    """
    _check(spec)
    policy = Policy(
        name=name,
        version=1,
        configuration_version=1,
        mode=Mode.APPLY,
        seed_epoch=1,
        spec=spec,
        create_time=change.at,
        update_time=change.at,
    )
    return policy, _event(policy, change, "policy.created", {"learner": spec.learner, "actions": len(spec.actions)})


def replace_spec(policy: Policy, spec: PolicySpec, change: Change) -> Move:
    """Configure a policy anew. Arms that the new spec leaves out stay as tombstones.

    A new reward is a new reward version. Floor, slice and the caps on what is served beside the baseline, alone, leave
    `configuration_version` as it is.

    Raises:
        InvalidPolicy, ExplorationRefused, ReasonRequired: as in `create`.
    """
    merged = with_history(policy, spec)
    _check(merged)
    named = [f.name for f in fields(merged) if getattr(policy.spec, f.name) != getattr(merged, f.name)]
    facts: dict[str, Fact] = {"changed": ",".join(named), "actions": len(merged.actions)}
    if _at_stage(policy.spec, merged) == merged:
        return _moved(policy, change, "policy.configured", facts, spec=merged)
    return _configured(policy, merged, change, "policy.configured", facts)


def with_history(policy: Policy, spec: PolicySpec) -> PolicySpec:
    """Complete a new spec with the policy's tombstones, the reward's version and caps that it does not state.

    An arm that is new to the policy starts under a cap of `NEW_ARM_CAP`, unless it is the baseline's; one that is not
    keeps its cap. An equal result changes nothing.
    """
    kept = {(arm.dimension, arm.arm_id) for arm in spec.arms}
    gone = tuple(_tombstone(arm) for arm in policy.spec.arms if (arm.dimension, arm.arm_id) not in kept)
    old = policy.spec.reward
    same = replace(spec.reward, version=old.version)
    reward = same if same == old else replace(spec.reward, version=old.version + 1)
    exploration = replace(spec.exploration, arm_caps=unstated_caps(policy, spec) | spec.exploration.arm_caps)
    return replace(spec, arms=(*spec.arms, *gone), reward=reward, exploration=exploration)


def stage(policy: Policy, change: Change, *, floor: float, uniform_slice: float | None = None) -> Move:
    """Move floor and slice to another stage; None keeps the slice.

    Raises:
        ExplorationRefused: floor, slice or a cap is out of range.
        IllegalTransition: both already have these values.
    """
    old = policy.spec.exploration
    new = replace(old, floor=floor, uniform_slice=old.uniform_slice if uniform_slice is None else uniform_slice)
    if new == old:
        raise IllegalTransition(
            f"the policy is already at floor {floor} and slice {new.uniform_slice}: nothing to stage"
        )
    spec = replace(policy.spec, exploration=new)
    _check(spec)
    facts: dict[str, Fact] = {
        "floor_before": old.floor,
        "floor": new.floor,
        "uniform_slice_before": old.uniform_slice,
        "uniform_slice": new.uniform_slice,
    }
    return _moved(policy, change, "policy.staged", facts, spec=spec)


def freeze(policy: Policy, change: Change) -> Move:
    """Stop drawing and learning; belief is kept exactly.

    Raises:
        IllegalTransition: it already is FROZEN or BYPASS.
    """
    check_freeze(policy.mode)
    return _moved(policy, change, "policy.frozen", {"mode_before": policy.mode}, mode=Mode.FROZEN)


def unfreeze(policy: Policy, change: Change, *, resume: Mode, quarantine: QuarantineChoice) -> Move:
    """Resume in the mode before the stop, under a new seed epoch.

    Args:
        resume: as `mode_before_stop` finds it.

    Raises:
        IllegalTransition: it is neither FROZEN nor BYPASS.
    """
    check_unfreeze(policy.mode)
    facts: dict[str, Fact] = {"mode_before": policy.mode, "mode": resume, "quarantine": quarantine}
    return _moved(policy, change, "policy.unfrozen", facts, mode=resume, seed_epoch=policy.seed_epoch + 1)


def renew_epoch(policy: Policy, change: Change, *, quarantine: QuarantineChoice) -> Move:
    """Start a new seed epoch because the tenant or everything is unfrozen."""
    facts: dict[str, Fact] = {"seed_epoch": policy.seed_epoch + 1, "quarantine": quarantine}
    return _moved(policy, change, "policy.resumed", facts, seed_epoch=policy.seed_epoch + 1)


def set_mode(policy: Policy, mode: Mode, change: Change) -> Move:
    """Change the policy's own mode.

    Raises:
        IllegalTransition: it is in that mode, or learning would resume, which `unfreeze` alone does.
    """
    check_set_mode(policy.mode, mode)
    return _moved(policy, change, "policy.mode_set", {"mode_before": policy.mode, "mode": mode}, mode=mode)


def upsert_arm(policy: Policy, arm: Arm, change: Change) -> Move:
    """Add an arm, or change the card of one that is there. Other content under a live name retires that arm.

    An arm that is new to the policy, or was retired, starts under a cap of `NEW_ARM_CAP`.

    Raises:
        IllegalTransition: the name is the baseline's and the content is not.
        InvalidPolicy, ExplorationRefused: the policy would not be valid with it.
    """
    arms = list(policy.spec.arms)
    caps = dict(policy.spec.exploration.arm_caps)
    pointer = ArmPointer(arm.dimension, arm.name)
    places = [i for i, old in enumerate(arms) if (old.dimension, old.arm_id) == (arm.dimension, arm.arm_id)]
    replaced = [i for i, old in enumerate(arms) if pointer.names(old) and not old.retired and i not in places]
    if replaced and policy.spec.baseline.get(arm.dimension) == arm.name:
        raise IllegalTransition(f"arm {arm.name} is the baseline's: give the new content another name")
    for i in replaced:
        arms[i] = _tombstone(arms[i])
        caps.pop(arms[i].arm_id, None)
    if places and arms[places[0]].content_hash != arm.content_hash:
        raise InvalidPolicy(f"arm {arm.arm_id}: other content has the same first 12 digits; change a character of it")
    joins = not places or arms[places[0]].retired
    if places:
        arms[places[0]] = replace(arm, retired=False)
    else:
        arms.append(replace(arm, retired=False))
    if joins:
        actions = len(replace(policy.spec, arms=tuple(arms)).actions)
        caps[arm.arm_id] = new_cap(policy.spec.exploration, actions)
    exploration = replace(policy.spec.exploration, arm_caps=caps)
    spec = replace(policy.spec, arms=tuple(arms), exploration=exploration)
    facts: dict[str, Fact] = {
        "dimension": arm.dimension,
        "arm": arm.arm_id,
        "content_hash": arm.content_hash,
        "retired": ",".join(arms[i].arm_id for i in replaced),
    }
    _check(spec)
    return _configured(policy, spec, change, "arm.added" if joins else "arm.changed", facts)


def retire_arm(policy: Policy, pointer: ArmPointer, change: Change) -> Move:
    """Make an arm a tombstone: its late outcomes are stored, it gets no traffic.

    Raises:
        ArmNotFound: the policy has no such arm.
        IllegalTransition: it is one already, or it is the baseline's.
    """
    found = [arm for arm in policy.spec.arms if pointer.names(arm)]
    if not found:
        raise ArmNotFound(f"the policy has no arm {pointer.name}: read its arms from GetPolicy")
    live = [arm for arm in found if not arm.retired]
    if not live:
        raise IllegalTransition(f"arm {found[0].arm_id} is retired already")
    [arm] = live
    if policy.spec.baseline.get(arm.dimension) == arm.name:
        raise IllegalTransition(f"arm {arm.arm_id} is the baseline's: put the policy with another baseline first")
    arms = tuple(_tombstone(old) if old == arm else old for old in policy.spec.arms)
    caps = {arm_id: cap for arm_id, cap in policy.spec.exploration.arm_caps.items() if arm_id != arm.arm_id}
    spec = replace(policy.spec, arms=arms, exploration=replace(policy.spec.exploration, arm_caps=caps))
    _check(spec)
    return _configured(policy, spec, change, "arm.retired", {"dimension": arm.dimension, "arm": arm.arm_id})


def _check(spec: PolicySpec) -> None:
    if spec.learner not in (AUTO, *LEARNERS):
        raise InvalidPolicy(
            f"learner {spec.learner[:80]!r} is not registered: use {AUTO} or one of {', '.join(sorted(LEARNERS))}"
        )
    known = {(arm.dimension, arm.arm_id) for arm in spec.arms}
    for arm in spec.arms:
        if arm.succeeds and ((arm.dimension, arm.succeeds) not in known or arm.succeeds == arm.arm_id):
            raise InvalidPolicy(
                f"arm {arm.name} succeeds {arm.succeeds[:80]!r}: name another arm id of the same dimension"
            )
    caps = dict(zip(spec.action_keys, spec.action_caps, strict=True)) if spec.action_caps else None
    exploration = spec.exploration
    check_exploration(
        floor=exploration.floor, uniform_slice=exploration.uniform_slice, actions=len(spec.actions), caps=caps
    )


def _tombstone(arm: Arm) -> Arm:
    return replace(arm, retired=True)


def _at_stage(spec: PolicySpec, staged: PolicySpec) -> PolicySpec:
    """Give a spec the floor, the slice and the caps per hour and day of another."""
    stage = staged.exploration
    exploration = replace(
        spec.exploration,
        floor=stage.floor,
        uniform_slice=stage.uniform_slice,
        max_non_baseline_decisions_per_hour=stage.max_non_baseline_decisions_per_hour,
        max_non_baseline_cost_usd_per_day=stage.max_non_baseline_cost_usd_per_day,
    )
    return replace(spec, exploration=exploration)


def _configured(policy: Policy, spec: PolicySpec, change: Change, verb: str, facts: Mapping[str, Fact]) -> Move:
    moved, event = _moved(policy, change, verb, facts, spec=spec)
    return replace(moved, configuration_version=moved.version), event


def _moved(
    policy: Policy,
    change: Change,
    verb: str,
    facts: Mapping[str, Fact],
    *,
    spec: PolicySpec | None = None,
    mode: Mode | None = None,
    seed_epoch: int | None = None,
) -> Move:
    moved = replace(
        policy,
        version=policy.version + 1,
        mode=policy.mode if mode is None else mode,
        seed_epoch=policy.seed_epoch if seed_epoch is None else seed_epoch,
        spec=policy.spec if spec is None else spec,
        update_time=change.at,
    )
    return moved, _event(moved, change, verb, facts)


def _event(policy: Policy, change: Change, verb: str, facts: Mapping[str, Fact]) -> AuditEvent:
    return change.event(verb, subject_of(change.tenant, policy.name), {"policy_version": policy.version, **facts})
