"""Map divergence checks, and how a policy is checked, between the wire and the domain."""

from datetime import timedelta
from typing import Final

from google.protobuf.duration_pb2 import Duration

from kedge.bandit.v1 import governance_service_pb2 as pb
from kedge.bandit.v1 import policy_pb2
from kedge_bandit.adapters.grpc.wire import timestamp
from kedge_bandit.application.read_divergence import Standing
from kedge_bandit.domain.divergence import Reading
from kedge_bandit.domain.divergence_check import DivergenceCheck, Outcome
from kedge_bandit.domain.divergence_spec import DivergenceSpec
from kedge_bandit.domain.errors import InvalidPolicy
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.incident import name_of

_OUTCOME: Final = {outcome: pb.DivergenceOutcome.Value(f"DIVERGENCE_OUTCOME_{outcome}") for outcome in Outcome}


def divergence_of(message: policy_pb2.DivergenceSpec) -> DivergenceSpec:
    """Read how a policy is checked; what is left out has its default. Raises InvalidPolicy."""
    default = DivergenceSpec()
    has_interval = message.HasField("interval")
    return DivergenceSpec(
        interval=timedelta_of(message.interval, "divergence.interval") if has_interval else default.interval,
        episodes=message.episodes or default.episodes,
        same_verifier=message.same_verifier,
        max_cases=message.max_cases,
        max_cost_usd_per_day=message.max_cost_usd_per_day,
    )


def timedelta_of(duration: Duration, field: str) -> timedelta:
    """Read a duration of a policy. Raises InvalidPolicy."""
    try:
        return duration.ToTimedelta()
    except (ValueError, OverflowError) as error:
        raise InvalidPolicy(f"{field}: use a duration such as 1209600s") from error


def divergence_message(spec: DivergenceSpec) -> policy_pb2.DivergenceSpec:
    """Write how a policy is checked, defaults filled in."""
    return policy_pb2.DivergenceSpec(
        interval=duration_message(spec.interval),
        episodes=spec.episodes,
        same_verifier=spec.same_verifier,
        max_cases=spec.max_cases,
        max_cost_usd_per_day=spec.max_cost_usd_per_day,
    )


def duration_message(span: timedelta) -> Duration:
    """Write a duration."""
    duration = Duration()
    duration.FromTimedelta(span)
    return duration


def standing_message(tenant: TenantId, standing: Standing, size: int) -> pb.ListDivergenceChecksResponse:
    """Write a page of checks, of which one more than its size was read, and how the policy stands."""
    shown, watch, success = standing.checks[:size], standing.watch, standing.success
    return pb.ListDivergenceChecksResponse(
        checks=[check_message(tenant, check) for check in shown],
        next_page_token=str(shown[-1].number) if len(standing.checks) > size else "",
        watched=watch is not None,
        success_time=None if success is None else timestamp(success.check_time),
        blind=watch is not None and watch.blind > 0,
        observing=watch is not None and watch.blind > 1,
    )


def check_message(tenant: TenantId, check: DivergenceCheck) -> pb.DivergenceCheck:
    """Write a check with all its figures."""
    message = pb.DivergenceCheck(
        number=check.number,
        begin_time=timestamp(check.begin_time),
        check_time=timestamp(check.check_time),
        outcome=_OUTCOME[check.outcome],
        because=check.because,
        actor=check.actor,
        learned_episodes=check.online.learned_episodes,
        baseline_episodes=check.online.baseline_episodes,
        holdout_version=check.holdout.version,
        pool=check.holdout.pool,
        cases=check.holdout.cases,
        answers=check.holdout.answers,
        cost_usd=check.holdout.cost_usd,
        readings=[_reading_message(reading) for reading in check.readings.values()],
        incident=name_of(tenant, check.incident) if check.incident else "",
    )
    if check.reward is not None:
        message.reward_lift, message.reward_error = check.reward.value, check.reward.error
    if check.holdout.lift is not None:
        message.holdout_lift, message.holdout_error = check.holdout.lift.value, check.holdout.lift.error
    return message


def _reading_message(reading: Reading) -> pb.DetectorReading:
    return pb.DetectorReading(
        detector=reading.detector,
        value=reading.value,
        error=reading.error,
        margin=reading.margin,
        z=reading.z,
        evidence=reading.evidence,
        threshold=reading.threshold,
        tripped=reading.trips,
    )
