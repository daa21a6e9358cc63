"""Hold a policy's published vectors, and choose from one as the server chooses."""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType
from typing import Final, NamedTuple

from kedge.bandit.v1 import decision_pb2, policy_pb2
from kedge.bandit.v1.decision_service_pb2 import Allocation
from kedge_client.action import Action, ArmRef
from kedge_client.buckets import Feature, feature_of
from kedge_client.draw import narrow, pick
from kedge_client.errors import QuestionRefused
from kedge_client.question import PLAIN, Wish

APPLY: Final = policy_pb2.MODE_APPLY
_BASELINE_MODES: Final[Mapping[int, int]] = MappingProxyType(
    {
        int(policy_pb2.MODE_FROZEN): int(decision_pb2.DECISION_REASON_FROZEN),
        int(policy_pb2.MODE_BYPASS): int(decision_pb2.DECISION_REASON_BYPASS),
        int(policy_pb2.MODE_OBSERVE): int(decision_pb2.DECISION_REASON_OBSERVE),
    }
)
STOPPED: Final = frozenset({int(policy_pb2.MODE_FROZEN), int(policy_pb2.MODE_BYPASS)})
"""Modes that beat an episode's earlier decision."""


class Chosen(NamedTuple):
    """An action of a vector.

    Attributes:
        place: in the vector's actions.
        propensity: probability with which it was chosen, in (0, 1].
        reason: number of the DecisionReason.
        shadow: place of what would have been drawn, in OBSERVE.
    """

    place: int
    propensity: float
    reason: int
    is_randomised: bool
    shadow: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """A published allocation; lists run over `actions` in canonical order."""

    bucket: str
    version: int
    policy_version: int
    seed_epoch: int
    actions: tuple[str, ...]
    index: dict[str, int]
    q: tuple[float, ...]
    mean: tuple[float, ...]
    eligible: tuple[bool, ...]
    baseline: int
    floor: float
    uniform_slice: float
    caps: tuple[float, ...]
    closed: int
    p: tuple[float, ...]
    cumulative: tuple[float, ...]
    last_possible: int


def vector_of(message: Allocation) -> Vector:
    """Read a vector."""
    actions, p = tuple(message.action_keys), tuple(message.propensities)
    return Vector(
        bucket=message.bucket,
        version=message.allocation_version,
        policy_version=message.policy_version,
        seed_epoch=message.seed_epoch,
        actions=actions,
        index={key: place for place, key in enumerate(actions)},
        q=tuple(message.probability_best),
        mean=tuple(message.means),
        eligible=tuple(message.eligible),
        baseline=message.baseline_index,
        floor=message.exploitation_floor,
        uniform_slice=message.uniform_slice,
        caps=tuple(message.caps),
        closed=message.closed_reason,
        p=p,
        cumulative=tuple(accumulate(p)),
        last_possible=max(place for place, share in enumerate(p) if share > 0.0),
    )


def choose(vector: Vector, wish: Wish, mode: int, u: float) -> Chosen:
    """Choose by mode, wish and draw.

    Args:
        vector: of the episode's bucket.
        wish: what the caller asks for.
        mode: number of the effective Mode.
        u: the episode's number in [0, 1).

    Raises:
        QuestionRefused: the pinned action is not one of the vector's.
    """
    if wish is PLAIN and mode == APPLY:
        return _drawn(vector, u)
    subset = _subset(vector, wish.available)
    if wish.pinned and mode == APPLY:
        if wish.pinned not in vector.index:
            raise QuestionRefused("UNKNOWN_ACTION")
        return Chosen(vector.index[wish.pinned], 1.0, decision_pb2.DECISION_REASON_PINNED, False)
    if subset is not None and not subset[vector.baseline]:
        reason = decision_pb2.DECISION_REASON_BASELINE_UNAVAILABLE
        return Chosen(_best(vector, wish.available), 1.0, reason, False)
    if mode != APPLY:
        shadow = _narrowed(vector, subset, u).place if mode == policy_pb2.MODE_OBSERVE else None
        return Chosen(vector.baseline, 1.0, _BASELINE_MODES[mode], False, shadow)
    if wish.no_exploration:
        return Chosen(vector.baseline, 1.0, decision_pb2.DECISION_REASON_NO_EXPLORATION, False)
    if wish.in_tool_loop:
        return Chosen(vector.baseline, 1.0, decision_pb2.DECISION_REASON_TOOL_LOOP, False)
    return _narrowed(vector, subset, u)


def _drawn(vector: Vector, u: float) -> Chosen:
    if vector.closed:
        return Chosen(vector.baseline, 1.0, vector.closed, False)
    index = min(bisect_right(vector.cumulative, u), vector.last_possible)
    propensity = vector.p[index]
    return Chosen(index, propensity, decision_pb2.DECISION_REASON_DRAWN, propensity < 1.0)


def _narrowed(vector: Vector, subset: tuple[bool, ...] | None, u: float) -> Chosen:
    if subset is None or vector.closed:
        return _drawn(vector, u)
    p = narrow(
        vector.q,
        subset=subset,
        baseline=vector.baseline,
        floor=vector.floor,
        uniform_slice=vector.uniform_slice,
        caps=vector.caps,
    )
    index = pick(p, u)
    return Chosen(index, p[index], decision_pb2.DECISION_REASON_DRAWN, p[index] < 1.0)


def _subset(vector: Vector, available: tuple[str, ...]) -> tuple[bool, ...] | None:
    """Mark what is both available and eligible; None when availability narrows nothing."""
    if not available:
        return None
    able = frozenset(available)
    pairs = list(zip(vector.actions, vector.eligible, strict=True))
    if all(key in able for key, eligible in pairs if eligible):
        return None
    return tuple(key in able and eligible for key, eligible in pairs)


def _best(vector: Vector, available: tuple[str, ...]) -> int:
    """Find the available action of highest mean, an eligible one where there is one; the baseline if none is known."""
    able = frozenset(available)
    candidates = [place for place, key in enumerate(vector.actions) if key in able]
    eligible = [place for place in candidates if vector.eligible[place]]
    return max(eligible or candidates or [vector.baseline], key=lambda place: (vector.mean[place], -place))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """A policy as it stands, as far as deciding needs it.

    Attributes:
        kinds: kind of each feature by name.
        live: keys of the actions that it has now; a vector made before may have others.
        refs: field of `Action` and reference of every arm, retired or not, by its id.
        known: actions that were asked for, by key.
    """

    version: int
    seed_epoch: int
    features: tuple[Feature, ...]
    kinds: dict[str, type[Feature]]
    judge_rate: float
    live: tuple[str, ...]
    baseline_key: str
    refs: dict[str, tuple[str, ArmRef]]
    known: dict[str, Action]

    def action(self, key: str) -> Action:
        """Name the arms of an action."""
        found = self.known.get(key)
        if found is None:
            found = Action(**dict(self.refs[arm_id] for arm_id in key.split("|") if arm_id in self.refs))
            self.known[key] = found
        return found


def rules_of(policy: policy_pb2.Policy) -> Rules:
    """Read a policy."""
    features = tuple(map(feature_of, policy.features))
    refs: dict[str, tuple[str, ArmRef]] = {}
    for arm in policy.arms:
        field = policy_pb2.Dimension.Name(arm.dimension).removeprefix("DIMENSION_").lower()
        reference = ArmRef(arm.name, arm.content_hash)
        refs[reference.arm_id] = (field, reference)
    return Rules(
        version=policy.policy_version,
        seed_epoch=policy.seed_epoch,
        features=features,
        kinds={feature.name: type(feature) for feature in features},
        judge_rate=policy.settlement.judge_rate,
        live=tuple(policy.action_keys),
        baseline_key=policy.action_keys[policy.baseline_index],
        refs=refs,
        known={},
    )
