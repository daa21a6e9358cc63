"""Build Decide's answer. What is the same for every draw of one allocation and action is encoded once."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from kedge.bandit.v1 import decision_service_pb2, policy_pb2
from kedge_bandit.adapters.grpc.wire import MODE, REASON, action_message, distribution
from kedge_bandit.application.decide import Decided
from kedge_bandit.application.ports import TokenSigner
from kedge_bandit.domain.decision import Reason
from kedge_bandit.domain.dimension import Dimension
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.policy import PolicySpec

_EXPIRY_SECONDS = int(timedelta(days=30).total_seconds())
_CACHED = 20_000


@dataclass(slots=True)
class DecideAnswers:
    """Answers by allocation; the cache is emptied when it is full, since new allocations replace the old."""

    tokens: TokenSigner
    _fixed: dict[tuple[str, str, int, str, tuple[Mode, Reason, float]], bytes] = field(default_factory=dict)

    def build(self, decided: Decided) -> decision_service_pb2.DecideResponse:
        """Build the answer of one decision."""
        decision = decided.decision
        answer = decision_service_pb2.DecideResponse.FromString(self._fixed_part(decided))
        answer.decision = f"tenants/{decision.tenant}/decisions/{decision.decision_id}"
        answer.decision_token = self.tokens.sign(decision)
        answer.judge_requested = decision.judge_requested
        answer.reused = decided.reused
        seconds, nanos = int(decision.time.timestamp()), decision.time.microsecond * 1000
        time = answer.decision_time
        time.seconds, time.nanos = seconds, nanos
        time = answer.expire_time
        time.seconds, time.nanos = seconds + _EXPIRY_SECONDS, nanos
        return answer

    def _fixed_part(self, decided: Decided) -> bytes:
        allocation, decision = decided.allocation, decided.decision
        if allocation is None or decided.vector is not allocation.p:
            return _encode(decided)
        why = (decision.mode, decision.reason, decision.judge_rate)
        key = (decision.tenant, decision.policy, allocation.version, decision.action, why)
        found = self._fixed.get(key)
        if found is None:
            if len(self._fixed) >= _CACHED:
                self._fixed.clear()
            found = self._fixed[key] = _encode(decided)
        return found


def _encode(decided: Decided) -> bytes:
    decision, spec = decided.decision, decided.serving.policy.spec
    actions = (decision.action,) if decided.allocation is None else decided.allocation.actions
    # The arms themselves are known only while the policy has them; the key stands for them afterwards.
    place = spec.index.get(decision.action)
    action = action_message(spec.actions[place]) if place is not None else policy_pb2.Action()
    model, depth, prompt = marginals(spec, actions, decided.vector, decision.action)
    return decision_service_pb2.DecideResponse(
        action=action,
        action_key=decision.action,
        propensity=decision.propensity,
        model_route_propensity=model,
        reasoning_depth_propensity=depth,
        prompt_variant_propensity=prompt,
        distribution=distribution(actions, decided.vector),
        bucket=decision.bucket,
        policy_version=decision.policy_version,
        allocation_version=decision.allocation_version,
        mode=MODE[decision.mode],
        reason=REASON[decision.reason],
        is_randomised=decision.is_randomised,
        judge_rate=decision.judge_rate,
    ).SerializeToString()


def marginals(
    spec: PolicySpec, actions: Sequence[str], vector: Sequence[float], chosen: str
) -> tuple[float, float, float]:
    """Sum the probability of each of the chosen arms over the actions that contain it; 1 for an unused dimension."""
    used = [dimension for dimension in Dimension if any(arm.dimension is dimension for arm in spec.arms)]
    parts = chosen.split("|")
    sums = {}
    for place, dimension in enumerate(used):
        arm = parts[place] if place < len(parts) else ""
        matching = (p for key, p in zip(actions, vector, strict=True) if key.split("|")[place : place + 1] == [arm])
        sums[dimension] = min(1.0, sum(matching))
    return (
        sums.get(Dimension.MODEL_ROUTE, 1.0),
        sums.get(Dimension.REASONING_DEPTH, 1.0),
        sums.get(Dimension.PROMPT_VARIANT, 1.0),
    )


def mean_of(decided: Decided) -> float:
    """Read the posterior mean of the decided action as it was published; 0 where nothing was."""
    allocation = decided.allocation
    if allocation is None or decided.decision.action not in allocation.index:
        return 0.0
    return allocation.mean[allocation.index[decided.decision.action]]
