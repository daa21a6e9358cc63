"""Map off-policy evaluation between the wire and the domain."""

import math
from collections.abc import Mapping

from kedge.bandit.v1 import policy_service_pb2 as pb
from kedge_bandit.application.evaluate import Evaluated, Target
from kedge_bandit.domain.errors import InvalidValue
from kedge_bandit.domain.evaluation import Estimator, Valued
from kedge_bandit.domain.off_policy import Estimate


def target_of(request: pb.EvaluatePolicyRequest) -> Target:
    """Read what would be served. Raises InvalidValue for a bucket named twice."""
    by_bucket = {each.bucket: dict(each.target) for each in request.bucket_targets}
    if len(by_bucket) < len(request.bucket_targets):
        raise InvalidValue("bucket_targets", "a bucket twice", "one target for each bucket")
    return Target(dict(request.target), by_bucket)


def evaluated_message(evaluated: Evaluated) -> pb.EvaluatePolicyResponse:
    """Write an evaluation; without one, a target that is refused."""
    found = evaluated.evaluation
    if found is None:
        nothing = pb.PolicyValue(refusal="fewer than two randomised episodes are settled in this time: log more")
        return pb.EvaluatePolicyResponse(left_out=evaluated.left_out, target=nothing, baseline=nothing)
    return pb.EvaluatePolicyResponse(
        episodes=found.episodes,
        left_out=evaluated.left_out,
        logged=_value(found.logged),
        target=_valued(found.target),
        baseline=_valued(found.baseline),
        lift=_estimates(found.lifts),
    )


def _valued(valued: Valued) -> pb.PolicyValue:
    message = pb.PolicyValue(
        effective_sample_size=valued.effective_sample_size,
        mean_weight=valued.mean_weight,
        refusal=valued.refusal,
        estimates=_estimates(valued.estimates),
    )
    if math.isfinite(valued.switch):
        message.switch_weight = valued.switch
    return message


def _estimates(estimates: Mapping[Estimator, Estimate]) -> pb.OffPolicyEstimates | None:
    if not estimates:
        return None
    return pb.OffPolicyEstimates(**{way.value.lower(): _value(estimate) for way, estimate in estimates.items()})


def _value(estimate: Estimate) -> pb.EstimatedValue:
    low, high = estimate.interval()
    return pb.EstimatedValue(value=estimate.value, low=low, high=high)
