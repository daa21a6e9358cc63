"""Map ramps and incidents between the wire and the domain."""

from math import inf
from typing import Final

from kedge.bandit.v1 import governance_service_pb2 as governance
from kedge.bandit.v1 import ramp_service_pb2 as pb
from kedge_bandit.adapters.grpc.wire import timestamp
from kedge_bandit.application.ramps import RampReport, Seen
from kedge_bandit.domain.alarm_delay import alarm_delay_days
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.incident import Incident, IncidentState, name_of
from kedge_bandit.domain.ramp import Origin, RampKind, RampState, Stage
from kedge_bandit.domain.ramp_metrics import LEAST_EPISODES, Finding, Metric, MetricRole

_KIND: Final = {kind: pb.RampKind.Value(f"RAMP_KIND_{kind}") for kind in RampKind}
_STATE: Final = {state: pb.RampState.Value(f"RAMP_STATE_{state}") for state in RampState}
_ORIGIN: Final = {origin: pb.RampStageOrigin.Value(f"RAMP_STAGE_ORIGIN_{origin}") for origin in Origin}
_ROLE: Final = {role: pb.RampMetricRole.Value(f"RAMP_METRIC_ROLE_{role}") for role in MetricRole}
_FINDING: Final = {finding: pb.RampMetricFinding.Value(f"RAMP_METRIC_FINDING_{finding}") for finding in Finding}
_INCIDENT: Final = {state: governance.IncidentState.Value(f"INCIDENT_STATE_{state}") for state in IncidentState}


def report_message(tenant: TenantId, report: RampReport) -> pb.GetRampResponse:
    """Write every ramp of a policy."""
    floor = report.seen[0].ramp.stage.value
    return pb.GetRampResponse(
        ramps=[ramp_message(tenant, seen, report.decisions_per_day, floor) for seen in report.seen],
        decisions_per_day=report.decisions_per_day,
    )


def ramp_message(tenant: TenantId, seen: Seen, decisions_per_day: float, floor: float) -> pb.Ramp:
    """Write a ramp with what a look found.

    Args:
        floor: of the policy, beside which a cap cannot give more than the rest.
    """
    ramp = seen.ramp
    message = pb.Ramp(
        policy=f"tenants/{tenant}/policies/{ramp.policy}",
        kind=_KIND[ramp.kind],
        arm_id=ramp.arm_id,
        state=_STATE[ramp.state],
        why=ramp.why,
        stage=ramp.at,
        stage_time=timestamp(ramp.since),
        metrics=[_metric_message(metric) for metric in seen.judged.metrics],
        holds=seen.judged.holds,
        waits_for=seen.judged.waits_for,
        learned_episodes=seen.looked.compared.learned.episodes,
        baseline_episodes=seen.looked.compared.baseline.episodes,
    )
    for stage in ramp.stages:
        message.stages.append(_stage_message(stage, ramp.kind, decisions_per_day, floor))
    return message


def _stage_message(stage: Stage, kind: RampKind, decisions_per_day: float, floor: float) -> pb.RampStage:
    message = pb.RampStage(value=stage.value, origin=_ORIGIN[stage.origin], proposal=stage.proposal)
    if kind is RampKind.FLOOR:
        message.harvestable_share = 1.0 - stage.value
        days = alarm_delay_days(decisions_per_day, stage.value)
        if days < inf:
            message.alarm_days = days
    else:
        message.harvestable_share = min(stage.value, 1.0 - floor)
    return message


def _metric_message(metric: Metric) -> pb.RampMetric:
    known = metric.lower > -inf
    return pb.RampMetric(
        name=metric.name,
        role=_ROLE[metric.role],
        learned=metric.learned,
        baseline=metric.baseline,
        lower=metric.lower if known else None,
        upper=metric.upper if known else None,
        breached=metric.breached,
        rule=metric.rule,
        finding=_FINDING[metric.finding],
        episodes=metric.episodes,
        needed_episodes=LEAST_EPISODES,
        over_cap=metric.over_cap,
    )


def incident_message(tenant: TenantId, incident: Incident) -> governance.Incident:
    """Write an incident."""
    message = governance.Incident(
        name=name_of(tenant, incident.number),
        policy=f"tenants/{tenant}/policies/{incident.policy}",
        detector=incident.detector,
        state=_INCIDENT[incident.state],
        owner=incident.owner,
        cause=incident.cause,
        statistic=incident.statistic,
        evidence=incident.evidence,
        open_time=timestamp(incident.open_time),
    )
    if incident.close_time is not None:
        message.close_time.CopyFrom(timestamp(incident.close_time))
    return message
