"""Read a folder of policy files, and say what stands between it and what is in force.

The folder is the truth about the policies that it names: FOLDER/TENANT/POLICY.toml or .json, or any other layout where
each file's `name` says whose it is. Policies that it does not name are left alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path

from kedge.bandit.v1 import policy_pb2
from kedge_bandit.adapters.grpc.wire import moment
from kedge_bandit.adapters.grpc.wire_policy import policy_message, spec_of
from kedge_bandit.domain.candidate import arms_of, contents
from kedge_bandit.domain.consent import new_content
from kedge_bandit.domain.dimension import Arm, Dimension
from kedge_bandit.domain.errors import InvalidPolicy
from kedge_bandit.domain.identifiers import parse_policy
from kedge_bandit.domain.lifecycle import with_history
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.policy import Policy, PolicySpec
from kedge_bandit.entrypoints.policy_file import FileRefused, read_policy

_SUFFIXES = (".toml", ".json")
_SAME = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What stands between a file and the policy in force.

    Attributes:
        name: tenants/{tenant}/policies/{policy}.
        version: of the policy in force; 0 where there is none.
        changes: what a put changes at once, a sentence each.
        arms, baseline, floor: what takes a proposal: arms of new content, another baseline, a lower floor.
        capped: names of arms whose cap is to be higher, which their ramps raise.
        after: what the policy is to be at once, without what takes a proposal.
    """

    name: str
    version: int
    changes: tuple[str, ...] = ()
    arms: tuple[Arm, ...] = ()
    baseline: dict[Dimension, str] | None = None
    floor: float | None = None
    capped: tuple[str, ...] = ()
    after: PolicySpec

    @property
    def is_none(self) -> bool:
        """Whether the file and the policy in force say the same."""
        return self.version > 0 and not (self.changes or self.needs_proposals or self.capped)

    @property
    def needs_proposals(self) -> tuple[str, ...]:
        """Say what takes a proposal, a sentence each."""
        found = [f"arm {arm.name}: new content" for arm in self.arms]
        if self.baseline is not None:
            found.append(f"baseline: {', '.join(self.baseline.values())}")
        if self.floor is not None:
            found.append(f"floor: down to {self.floor:g}")
        return tuple(found)


def read_folder(folder: Path) -> dict[str, policy_pb2.Policy]:
    """Read every policy of a folder, by name. Raises FileRefused, also for two files of one policy and for none."""
    found: dict[str, policy_pb2.Policy] = {}
    for path in sorted(path for path in folder.rglob("*") if path.suffix in _SUFFIXES and path.is_file()):
        policy = read_policy(path)
        if policy.name in found:
            raise FileRefused(f"{path}: another file of the folder is {policy.name} too")
        found[policy.name] = policy
    if not found:
        raise FileRefused(f"{folder} holds no policy: write TENANT/POLICY.toml, or start with `kedge export`")
    return found


def compare(wanted: policy_pb2.Policy, found: policy_pb2.Policy | None) -> Difference:
    """Say what stands between a file and the policy in force, None where there is none.

    Raises:
        InvalidPolicy and others: the file cannot be put.
    """
    spec = spec_of(wanted)
    if found is None:
        return Difference(name=wanted.name, version=0, changes=("new",), after=spec)
    policy = policy_of(found)
    if not wanted.exploration.HasField("exploitation_floor"):
        spec = _floored(spec, policy.spec.exploration.floor)
    arms = tuple(arm for arm in spec.arms if not arm.retired and new_content(policy.spec, arm))
    baseline = _new_baseline(policy.spec, spec)
    lower = spec.exploration.floor < policy.spec.exploration.floor - _SAME
    after = _at_once(policy, spec)
    return Difference(
        name=wanted.name,
        version=policy.version,
        changes=tuple(_changes(policy.spec, with_history(policy, after))),
        arms=arms,
        baseline=baseline,
        floor=spec.exploration.floor if lower else None,
        capped=_higher_caps(policy.spec, spec),
        after=after,
    )


def message_after(wanted: policy_pb2.Policy, difference: Difference) -> policy_pb2.Policy:
    """Write what may be put at once as the wire has it."""
    tenant, name = parse_policy(wanted.name)
    now = datetime.now(UTC)
    policy = Policy(
        name=name,
        version=1,
        configuration_version=1,
        mode=Mode.APPLY,
        seed_epoch=1,
        spec=difference.after,
        create_time=now,
        update_time=now,
    )
    return policy_message(tenant, policy)


def policy_of(message: policy_pb2.Policy) -> Policy:
    """Read a policy as it stands from the wire."""
    return Policy(
        name=parse_policy(message.name)[1],
        version=message.policy_version,
        configuration_version=message.policy_version,
        mode=Mode.APPLY,
        seed_epoch=message.seed_epoch,
        spec=spec_of(message),
        create_time=moment(message.create_time, field="create_time"),
        update_time=moment(message.update_time, field="update_time"),
    )


def _at_once(policy: Policy, wanted: PolicySpec) -> PolicySpec:
    """Give what may be put now: live arms of new content wait, and with them baseline, higher caps and lower floor."""
    before = policy.spec
    known = [arm for arm in wanted.arms if arm.retired or not new_content(before, arm)]
    waiting = {(arm.dimension, arm.name) for arm in wanted.arms if not arm.retired and new_content(before, arm)}
    pinned = set(before.baseline.items())
    names = {(arm.dimension, arm.name) for arm in known if not arm.retired}
    kept = [
        arm
        for arm in before.arms
        if not arm.retired
        and (arm.dimension, arm.name) not in names
        and ((arm.dimension, arm.name) in waiting or (arm.dimension, arm.name) in pinned)
    ]
    live = {arm.arm_id for arm in (*known, *kept)}
    old = before.exploration.arm_caps
    caps = {
        arm_id: min(cap, old.get(arm_id, 1.0)) for arm_id, cap in wanted.exploration.arm_caps.items() if arm_id in live
    }
    floor = max(wanted.exploration.floor, before.exploration.floor)
    exploration = replace(wanted.exploration, arm_caps=caps, floor=floor)
    return replace(wanted, arms=(*known, *kept), baseline=dict(before.baseline), exploration=exploration)


def _new_baseline(before: PolicySpec, wanted: PolicySpec) -> dict[Dimension, str] | None:
    """Give the baseline that is wanted, where its arms serve already and it is another."""
    try:
        pinned = contents(arms_of(before, wanted.baseline))
    except InvalidPolicy:
        return None  # an arm of it is new: it has to serve first
    return dict(wanted.baseline) if pinned != contents(arms_of(before, before.baseline)) else None


def _higher_caps(before: PolicySpec, wanted: PolicySpec) -> tuple[str, ...]:
    caps = before.exploration.arm_caps
    higher = {arm_id for arm_id, cap in wanted.exploration.arm_caps.items() if cap > caps.get(arm_id, 1.0) + _SAME}
    return tuple(arm.name for arm in wanted.arms if arm.arm_id in higher)


def _floored(spec: PolicySpec, floor: float) -> PolicySpec:
    return replace(spec, exploration=replace(spec.exploration, floor=floor))


def _changes(before: PolicySpec, after: PolicySpec) -> Iterator[str]:
    """Say field by field what changes; of arms, which."""
    for field in fields(PolicySpec):
        old, new = getattr(before, field.name), getattr(after, field.name)
        if old == new:
            continue
        if field.name == "arms":
            yield from _arm_changes(before, after)
        elif hasattr(old, "__dataclass_fields__"):
            for inner in fields(old):
                one, other = getattr(old, inner.name), getattr(new, inner.name)
                if one != other:
                    yield f"{field.name}.{inner.name}: {one} → {other}"
        else:
            yield f"{field.name}: {old} → {new}"


def _arm_changes(before: PolicySpec, after: PolicySpec) -> Iterator[str]:
    old = {(arm.dimension, arm.arm_id): arm for arm in before.arms}
    for arm in after.arms:
        known = old.get((arm.dimension, arm.arm_id))
        if known is None or known == arm:
            continue
        yield f"arm {arm.name}: retired" if arm.retired and not known.retired else f"arm {arm.name}: another card"
