"""Map policies between the wire and the domain. Their status and audit events are mapped in `wire_governance`."""

import math
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from google.protobuf.message import Message

from kedge.bandit.v1 import policy_pb2
from kedge_bandit.adapters.grpc.wire import MODE, timestamp
from kedge_bandit.adapters.grpc.wire_divergence import (
    divergence_message,
    divergence_of,
    duration_message,
    timedelta_of,
)
from kedge_bandit.domain.context import CategoricalFeature, Feature, NumericFeature
from kedge_bandit.domain.dimension import Arm, CostCard, Dimension
from kedge_bandit.domain.errors import InvalidPolicy, UnknownDimension
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.known_change import CellChange
from kedge_bandit.domain.policy import AUTO, Exploration, Policy, PolicySpec, Settlement
from kedge_bandit.domain.reward_spec import RewardSpec, SafetySource
from kedge_bandit.domain.self_check import Finding
from kedge_bandit.domain.settlement import Windows

DIMENSION: Final = {dimension: policy_pb2.Dimension.Value(f"DIMENSION_{dimension}") for dimension in Dimension}
_DIMENSION_OF: Final[dict[int, Dimension]] = {int(number): dimension for dimension, number in DIMENSION.items()}
ACTION_FIELD: Final = {dimension: dimension.value.lower() for dimension in Dimension}
_SAFETY: Final = {source: policy_pb2.SafetySource.Value(f"SAFETY_SOURCE_{source}") for source in SafetySource}
_SAFETY_OF: Final[dict[int, SafetySource]] = {int(number): source for source, number in _SAFETY.items()}

# Optional numbers: the same name on both sides; what the wire leaves out has the domain's default.
_REWARD: Final = (
    "weight_human",
    "weight_judge",
    "weight_task_success",
    "weight_cost",
    "weight_latency",
    "missing_cost",
    "missing_latency",
    "edit_accept",
    "edit_neutral",
)
_CARD: Final = ("usd_per_million_prompt_tokens", "usd_per_million_completion_tokens", "usd_per_episode")
_WINDOWS: Final = ("task_success", "safety", "judge")


# From the wire ------------------------------------------------------------------------------------------------------


def spec_of(message: policy_pb2.Policy) -> PolicySpec:
    """Read what a person configures; output-only fields are ignored, but a retired arm stays one.

    Raises:
        InvalidPolicy, RewardSpecInvalid, WindowsInvalid, UnknownDimension: what to change.
    """
    arms = tuple(arm_of(arm) for arm in message.arms)
    settings: dict[str, float | timedelta] = {}
    if message.HasField("half_life"):
        settings["half_life"] = timedelta_of(message.half_life, "half_life")
    if message.HasField("prior_strength"):
        settings["prior_strength"] = message.prior_strength
    return PolicySpec(
        features=tuple(_feature_of(feature) for feature in message.features),
        arms=arms,
        baseline=_baseline_of(message.baseline, arms),
        reward=_reward_of(message.reward),
        settlement=_settlement_of(message.settlement),
        exploration=_exploration_of(message.exploration),
        divergence=divergence_of(message.divergence),
        learner=message.learner or AUTO,
        **settings,  # type: ignore[arg-type] # each name has its own type above
    )


def arm_of(message: policy_pb2.Arm) -> Arm:
    """Read an arm."""
    card = {name: getattr(message.cost_card, name) for name in _CARD}
    if not all(0 <= usd < math.inf for usd in card.values()):
        raise InvalidPolicy(f"arm {message.name[:80]!r}: cost card in US dollars, 0 or more and finite")
    return Arm(
        dimension=dimension_of(message.dimension),
        name=message.name,
        content=_text(message.content, f"content of arm {message.name[:80]!r}"),
        cost_card=CostCard(**card),
        template_variables=tuple(_text(name, "template_variables") for name in message.template_variables),
        succeeds=_text(message.succeeds, "succeeds"),
        retired=message.HasField("retire_time"),
    )


def dimension_of(number: int) -> Dimension:
    """Read a dimension. Raises UnknownDimension."""
    found = _DIMENSION_OF.get(number)
    if found is None:
        raise UnknownDimension(f"dimension {number} is none: use MODEL_ROUTE, REASONING_DEPTH or PROMPT_VARIANT")
    return found


def _baseline_of(message: policy_pb2.Action, arms: Iterable[Arm]) -> dict[Dimension, str]:
    baseline: dict[Dimension, str] = {}
    for dimension, field in ACTION_FIELD.items():
        if not _has(message, field):
            continue
        reference: policy_pb2.ArmRef = getattr(message, field)
        baseline[dimension] = reference.name
        named = [arm for arm in arms if (arm.dimension, arm.name) == (dimension, reference.name) and not arm.retired]
        if any(not arm.content_hash.startswith(reference.content_hash) for arm in named):
            raise InvalidPolicy(f"baseline: the content of arm {reference.name[:80]!r} has another hash; leave it out")
    return baseline


def _feature_of(message: policy_pb2.Feature) -> Feature:
    match message.WhichOneof("kind"):
        case "categorical":
            values = tuple(
                _text(value, f"values of feature {message.name[:80]!r}") for value in message.categorical.values
            )
            return CategoricalFeature(message.name, values)
        case "numeric":
            return NumericFeature(message.name, tuple(message.numeric.cut_points))
        case _:
            raise InvalidPolicy(f"feature {message.name[:80]!r}: say categorical or numeric")


def _reward_of(message: policy_pb2.RewardSpec) -> RewardSpec:
    if message.safety_source and message.safety_source not in _SAFETY_OF:
        raise InvalidPolicy("safety_source: use GUARDRAILS or NONE")
    return RewardSpec(
        cost_reference_usd=message.cost_reference_usd,
        latency_reference_ms=message.latency_reference_ms,
        safety_source=_SAFETY_OF.get(message.safety_source, SafetySource.GUARDRAILS),
        **{name: getattr(message, name) for name in _REWARD if _has(message, name)},
    )


def _settlement_of(message: policy_pb2.SettlementSpec) -> Settlement:
    given = (name for name in _WINDOWS if _has(message, f"{name}_window"))
    windows = {name: timedelta_of(getattr(message, f"{name}_window"), f"{name}_window") for name in given}
    return Settlement(
        expects_task_success=message.expects_task_success, judge_rate=message.judge_rate, windows=Windows(**windows)
    )


def _exploration_of(message: policy_pb2.ExplorationSpec) -> Exploration:
    default = Exploration()
    return Exploration(
        floor=message.exploitation_floor if message.HasField("exploitation_floor") else default.floor,
        uniform_slice=message.uniform_slice if message.HasField("uniform_slice") else default.uniform_slice,
        budget_share=message.budget_share if message.HasField("budget_share") else default.budget_share,
        budget_off=message.budget_off,
        arm_caps=dict(message.arm_caps),
        max_non_baseline_decisions_per_hour=message.max_non_baseline_decisions_per_hour,
        max_non_baseline_cost_usd_per_day=message.max_non_baseline_cost_usd_per_day,
    )


def _has(message: Message, field: str) -> bool:
    return message.HasField(field)


def _text(text: str, field: str) -> str:
    """Refuse what the store cannot hold."""
    if "\0" in text:
        raise InvalidPolicy(f"{field}: leave the zero character out")
    return text


# Onto the wire ------------------------------------------------------------------------------------------------------


def policy_message(tenant: TenantId, policy: Policy) -> policy_pb2.Policy:
    """Put a policy on the wire, defaults filled in."""
    spec = policy.spec
    message = policy_pb2.Policy(
        name=f"tenants/{tenant}/policies/{policy.name}",
        features=[_feature_message(feature) for feature in spec.features],
        arms=[arm_message(arm, retire_time=policy.update_time) for arm in spec.arms],
        reward=reward_message(spec.reward),
        settlement=_settlement_message(spec.settlement),
        exploration=policy_pb2.ExplorationSpec(
            exploitation_floor=spec.exploration.floor,
            uniform_slice=spec.exploration.uniform_slice,
            budget_share=spec.exploration.budget_share,
            budget_off=spec.exploration.budget_off,
            arm_caps=spec.exploration.arm_caps,
            max_non_baseline_decisions_per_hour=spec.exploration.max_non_baseline_decisions_per_hour,
            max_non_baseline_cost_usd_per_day=spec.exploration.max_non_baseline_cost_usd_per_day,
        ),
        divergence=divergence_message(spec.divergence),
        learner=spec.learner,
        half_life=duration_message(spec.half_life),
        prior_strength=spec.prior_strength,
        mode=MODE[policy.mode],
        policy_version=policy.version,
        action_keys=spec.action_keys,
        create_time=timestamp(policy.create_time),
        update_time=timestamp(policy.update_time),
        seed_epoch=policy.seed_epoch,
        baseline_index=spec.baseline_index,
        learner_in_force=spec.learner_in_force,
    )
    for arm in spec.actions[spec.baseline_index].arms:
        reference = getattr(message.baseline, ACTION_FIELD[arm.dimension])
        reference.name = arm.name
        reference.content_hash = arm.content_hash
    return message


def arm_message(arm: Arm, *, retire_time: datetime | None = None) -> policy_pb2.Arm:
    """Put an arm on the wire.

    Args:
        retire_time: shown if the arm is a tombstone; a time at which it was one already.
    """
    message = policy_pb2.Arm(
        dimension=DIMENSION[arm.dimension],
        name=arm.name,
        content=arm.content,
        content_hash=arm.content_hash,
        template_variables=arm.template_variables,
        succeeds=arm.succeeds,
    )
    if arm.cost_card != CostCard():
        message.cost_card.CopyFrom(policy_pb2.CostCard(**{name: getattr(arm.cost_card, name) for name in _CARD}))
    if arm.retired and retire_time is not None:
        message.retire_time.FromDatetime(retire_time)
    return message


def known_change_message(change: CellChange) -> policy_pb2.KnownChange:
    """Put a known change or a succession on the wire."""
    return policy_pb2.KnownChange(
        bucket=change.bucket,
        action_key=change.action,
        source_action_key=change.source,
        policy_time=change.policy_time,
        factor=change.factor,
        cause=change.cause,
        evidence_sequence=change.sequence,
    )


def self_check_message(finding: Finding | None) -> policy_pb2.SelfCheck:
    """Put a look at the self-check on the wire; empty before the first decision."""
    if finding is None:
        return policy_pb2.SelfCheck(p_value=1.0)
    return policy_pb2.SelfCheck(
        decisions=finding.decisions,
        chi_square=finding.chi_square,
        degrees_of_freedom=finding.degrees_of_freedom,
        p_value=finding.p_value,
        alarm=finding.alarm,
    )


def _feature_message(feature: Feature) -> policy_pb2.Feature:
    match feature:
        case CategoricalFeature():
            categorical = policy_pb2.CategoricalFeature(values=feature.values)
            return policy_pb2.Feature(name=feature.name, categorical=categorical)
        case NumericFeature():
            numeric = policy_pb2.NumericFeature(cut_points=feature.cut_points)
            return policy_pb2.Feature(name=feature.name, numeric=numeric)


def reward_message(spec: RewardSpec) -> policy_pb2.RewardSpec:
    """Put a reward spec on the wire."""
    return policy_pb2.RewardSpec(
        cost_reference_usd=spec.cost_reference_usd,
        latency_reference_ms=spec.latency_reference_ms,
        safety_source=_SAFETY[spec.safety_source],
        **{name: getattr(spec, name) for name in _REWARD},
    )


def _settlement_message(settlement: Settlement) -> policy_pb2.SettlementSpec:
    windows = {f"{name}_window": duration_message(getattr(settlement.windows, name)) for name in _WINDOWS}
    return policy_pb2.SettlementSpec(
        expects_task_success=settlement.expects_task_success, judge_rate=settlement.judge_rate, **windows
    )
