"""Map experiments and their reports between the wire and the domain."""

from collections.abc import Callable
from datetime import datetime, timedelta
from math import isfinite
from typing import Final

from kedge.bandit.v1 import experiment_pb2 as pb
from kedge.bandit.v1 import experiment_service_pb2 as service
from kedge_bandit.adapters.grpc.wire import moment, timestamp
from kedge_bandit.application.experiments import Reported
from kedge_bandit.application.read_kpis import Kpis
from kedge_bandit.domain.errors import InvalidName, InvalidValue
from kedge_bandit.domain.experiment import (
    Experiment,
    ExperimentMetric,
    ExperimentSide,
    ExperimentUnit,
    name_of,
    parse_experiment,
)
from kedge_bandit.domain.experiment_report import (
    ExperimentDecision,
    ExperimentReport,
    HoldoutFinding,
    MetricFinding,
    Range,
)
from kedge_bandit.domain.identifiers import TenantId, parse_policy
from kedge_bandit.domain.win_rate import WinRate

USUAL_DAYS: Final = 14

_UNIT: Final = {unit: pb.ExperimentUnit.Value(f"EXPERIMENT_UNIT_{unit}") for unit in ExperimentUnit}
_UNIT_OF: Final[dict[int, ExperimentUnit]] = {int(number): unit for unit, number in _UNIT.items()}
_DECISION: Final = {one: pb.ExperimentDecision.Value(f"EXPERIMENT_DECISION_{one}") for one in ExperimentDecision}
SIDE: Final = {side: pb.ExperimentSide.Value(f"EXPERIMENT_SIDE_{side}") for side in ExperimentSide}


# From the wire ------------------------------------------------------------------------------------------------------


def draft_of(tenant: TenantId, message: pb.Experiment) -> Callable[[datetime], Experiment]:
    """Read what is to be fixed; without a start it starts now, without an end it lasts 14 days.

    Raises:
        InvalidName: name or policy belong to another tenant, or are none.
        InvalidValue: unit or a metric is not known; and what `Experiment` refuses.
    """
    owner, experiment_id = parse_experiment(message.name)
    policy_owner, policy = parse_policy(message.policy)
    if owner != tenant or policy_owner != tenant:
        raise InvalidName("name", message.name[:80], f"an experiment and a policy of tenants/{tenant}")
    if message.unit not in _UNIT_OF:
        raise InvalidValue("unit", str(message.unit), "EPISODE, SESSION or COHORT")

    def draft(now: datetime) -> Experiment:
        start = moment(message.start_time, field="start_time") if message.HasField("start_time") else now
        ends = message.HasField("end_time")
        return Experiment(
            experiment_id=experiment_id,
            policy=policy,
            unit=_UNIT_OF[message.unit],
            start=start,
            end=moment(message.end_time, field="end_time") if ends else start + timedelta(days=USUAL_DAYS),
            control_share=message.control_share if message.HasField("control_share") else None,
            primary=tuple(map(_metric_of, message.primary_metrics or [ExperimentMetric.REWARD.value])),
            guardrails=tuple(map(_metric_of, message.guardrail_metrics)),
            because="",
            create_time=now,
        )

    return draft


def _metric_of(name: str) -> ExperimentMetric:
    try:
        return ExperimentMetric(name)
    except ValueError:
        raise InvalidValue("metric", name[:40], f"one of {', '.join(ExperimentMetric)}") from None


# To the wire --------------------------------------------------------------------------------------------------------


def experiment_message(tenant: TenantId, experiment: Experiment) -> pb.Experiment:
    """Write an experiment without a report."""
    message = pb.Experiment(
        name=name_of(tenant, experiment.experiment_id),
        policy=f"tenants/{tenant}/policies/{experiment.policy}",
        unit=_UNIT[experiment.unit],
        start_time=timestamp(experiment.start),
        end_time=timestamp(experiment.end),
        primary_metrics=experiment.primary,
        guardrail_metrics=experiment.guardrails,
        control_share=experiment.control_share,
        because=experiment.because,
        create_time=timestamp(experiment.create_time),
        end_because=experiment.end_because,
    )
    if experiment.ended_time is not None:
        message.ended_time.CopyFrom(timestamp(experiment.ended_time))
    return message


def reported_message(tenant: TenantId, reported: Reported) -> pb.Experiment:
    """Write an experiment with its report where there is one."""
    message = experiment_message(tenant, reported.experiment)
    if reported.report is not None:
        message.report.CopyFrom(_report_message(reported.report))
    return message


def _report_message(report: ExperimentReport) -> pb.ExperimentReport:
    return pb.ExperimentReport(
        decision=_DECISION[report.decision],
        sentence=report.sentence,
        episodes=report.episodes,
        crossed=report.crossed,
        sample_ratio=pb.SampleRatio(
            learned_units=report.ratio.learned,
            baseline_units=report.ratio.baseline,
            expected_learned_share=report.ratio.expected_share,
            p_value=report.ratio.p_value,
        ),
        served_share=report.served_share,
        metrics=[metric_message(finding) for finding in report.findings],
        holdout=None if report.holdout is None else _holdout_message(report.holdout),
        is_truncated=report.is_truncated,
    )


def metric_message(finding: MetricFinding) -> pb.ExperimentMetric:
    """Write one metric."""
    return pb.ExperimentMetric(
        metric=finding.metric,
        is_primary=finding.is_primary,
        learned_mean=finding.lift.learned,
        baseline_mean=finding.lift.baseline,
        units=finding.lift.units,
        learned_lift=range_message(finding.learned),
        served_lift=range_message(finding.served),
        variance_kept=finding.lift.variance_kept,
        is_worse=finding.is_worse,
    )


def range_message(found: Range) -> pb.LiftInterval:
    """Write a lift; without ends where they are infinite."""
    is_known = isfinite(found.lower)
    return pb.LiftInterval(
        value=found.value, lower=found.lower if is_known else None, upper=found.upper if is_known else None
    )


def _holdout_message(found: HoldoutFinding) -> pb.ExperimentHoldout:
    return pb.ExperimentHoldout(
        checks=found.checks, lift=found.mean, standard_error=found.error, lower=found.lower, upper=found.upper
    )


def kpis_message(kpis: Kpis) -> service.GetPolicyKpisResponse:
    """Write the figures of a policy."""
    message = service.GetPolicyKpisResponse(
        episodes=kpis.episodes,
        reward_lift=metric_message(kpis.reward),
        latency_lift=metric_message(kpis.latency),
        veto_rate=metric_message(kpis.veto_rate),
        pareto=[
            pb.ParetoPoint(
                action_key=point.action,
                episodes=point.episodes,
                quality=point.quality,
                cost_usd=point.cost_usd,
                is_on_front=point.is_on_front,
            )
            for point in kpis.pareto
        ],
        regret=None if kpis.regret is None else range_message(kpis.regret),
        coverage=[pb.SignalCoverage(signal=name, share=share) for name, share in kpis.coverage.items()],
        non_baseline_share=kpis.non_baseline_share,
        effective_episodes=kpis.effective_episodes or 0.0,
        half_life_seconds=kpis.half_life_seconds,
        advice=kpis.advice,
    )
    if kpis.people.pairs:
        message.win_rate.CopyFrom(_win_rate_message(kpis.people))
    if kpis.judge.pairs:
        message.judge_win_rate.CopyFrom(_win_rate_message(kpis.judge))
    return message


def _win_rate_message(found: WinRate) -> pb.WinRate:
    return pb.WinRate(pairs=found.pairs, ties=found.ties, value=found.value, lower=found.lower, upper=found.upper)
