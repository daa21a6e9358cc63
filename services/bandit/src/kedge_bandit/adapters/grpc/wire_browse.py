"""Put on the wire what people find who look through a tenant's record."""

from datetime import datetime
from typing import assert_never

from kedge.bandit.v1 import decision_pb2, decision_service_pb2, episode_pb2, outcome_pb2, policy_service_pb2
from kedge.bandit.v1 import episode_service_pb2 as pb
from kedge_bandit.adapters.grpc.wire import (
    REASON,
    action_message,
    decision_message,
    episode_message,
    moment,
    timestamp,
)
from kedge_bandit.adapters.grpc.wire_governance import page_size_of
from kedge_bandit.adapters.grpc.wire_policy import reward_message
from kedge_bandit.adapters.grpc.wire_trajectory import trajectory_message
from kedge_bandit.application.browse import Happening, History, Timeline
from kedge_bandit.application.browse_ports import DecisionSearch, EpisodeSearch, Tally
from kedge_bandit.application.explain import FoundDecision, Why
from kedge_bandit.application.ports import EpisodeRecord
from kedge_bandit.application.read_belief import GRID, BucketBelief
from kedge_bandit.domain.decision import Decision
from kedge_bandit.domain.dossier import Event
from kedge_bandit.domain.errors import InvalidValue
from kedge_bandit.domain.evidence_log import EvidenceEntry
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.outcome import Outcome
from kedge_bandit.domain.settlement import Arrival

MOST_BUCKETS = 1000
_REASON_OF = {number: reason for reason, number in REASON.items()}


def search_of(request: decision_service_pb2.ListDecisionsRequest, policy: PolicyName) -> DecisionSearch:
    """Read which decisions are wanted. Raises InvalidValue."""
    reason = _REASON_OF.get(request.reason)
    if request.reason and reason is None:
        raise InvalidValue("reason", str(request.reason), "one of the reasons of the API")
    return DecisionSearch(
        policy=policy,
        episode_id=request.episode_id,
        action=request.action_key,
        bucket=request.bucket,
        reason=reason,
        end=moment(request.end_time, field="end_time") if request.HasField("end_time") else None,
        size=page_size_of(request.page_size),
        token=request.page_token,
    )


def episode_search_of(request: pb.ListEpisodesRequest, policy: PolicyName) -> EpisodeSearch:
    """Read which episodes are wanted. Raises InvalidValue."""
    states = episode_pb2.EpisodeState
    if request.state not in states.values():
        raise InvalidValue("state", str(request.state), "one of the states of the API")
    return EpisodeSearch(
        policy=policy,
        state=states.Name(request.state).removeprefix("EPISODE_STATE_") if request.state else "",
        end=moment(request.end_time, field="end_time") if request.HasField("end_time") else None,
        size=page_size_of(request.page_size),
        token=request.page_token,
    )


def found_message(found: FoundDecision) -> decision_pb2.Decision:
    """Put a decision on the wire with what it was drawn from."""
    place = found.spec.index.get(found.decision.action)
    action = action_message(found.spec.actions[place]) if place is not None else None
    return decision_message(found.decision, action=action, actions=found.actions, vector=found.vector)


def explanation_message(why: Why) -> decision_service_pb2.ExplainDecisionResponse:
    """Put an explanation on the wire."""
    return decision_service_pb2.ExplainDecisionResponse(
        decision=found_message(why.found),
        actions=[
            decision_service_pb2.ActionExplanation(
                action_key=line.action,
                eligible=line.eligible,
                available=line.available,
                probability_best=line.probability_best,
                mean=line.mean,
                propensity=line.propensity,
                draw_from=line.draw_from,
                draw_to=line.draw_to,
            )
            for line in why.lines
        ],
        draw=why.draw,
        exploitation_floor=why.floor,
        uniform_slice=why.uniform_slice,
        sentences=why.sentences,
    )


def timeline_message(tenant: TenantId, timeline: Timeline) -> pb.GetTimelineResponse:
    """Put a timeline on the wire."""
    reward = None if timeline.reward is None else reward_message(timeline.reward)
    return pb.GetTimelineResponse(
        entries=[_entry(tenant, time, one) for time, one in timeline.happenings], reward=reward
    )


def _entry(tenant: TenantId, time: datetime, one: Happening) -> pb.TimelineEntry:
    entry = pb.TimelineEntry(receive_time=timestamp(time))
    match one:
        case Decision():
            entry.decision.CopyFrom(decision_message(one, action=None))
        case Event():
            entry.event.kind, entry.event.served_action_key = one.kind, one.served_action or ""
            if one.trajectory is not None:
                entry.event.trajectory.CopyFrom(trajectory_message(one.trajectory))
        case Arrival():
            entry.source = one.outcome.source
            entry.outcome.CopyFrom(_outcome(one.outcome))
        case EvidenceEntry():
            entry.verdict.CopyFrom(_verdict(tenant, one))
        case _:
            assert_never(one)
    return entry


def _outcome(outcome: Outcome) -> outcome_pb2.Outcome:
    message = outcome_pb2.Outcome(
        idempotency_key=outcome.key,
        signal=outcome_pb2.Signal.Value(f"SIGNAL_{outcome.signal}"),
        observed_time=timestamp(outcome.observed_time),
        judge_version=outcome.judge_version or "",
    )
    if outcome.absent is not None:
        message.absent = outcome_pb2.AbsentReason.Value(f"ABSENT_REASON_{outcome.absent}")
    else:
        message.value = outcome.value if outcome.value is not None else outcome.edit_distance or 0.0
    if outcome.provenance is not None:
        message.provenance = outcome_pb2.HumanProvenance.Value(f"HUMAN_PROVENANCE_{outcome.provenance}")
    if outcome.veto_reason is not None:
        message.veto_reason = outcome_pb2.VetoReason.Value(f"VETO_REASON_{outcome.veto_reason}")
    return message


def _verdict(tenant: TenantId, entry: EvidenceEntry) -> episode_pb2.Episode:
    """Put an episode on the wire as it stood at one reward version."""
    state = "VETOED" if entry.vetoed else "UNSCORED" if entry.reward is None else "SETTLED"
    if entry.weight_reason == "CANCELLED":
        state = "CANCELLED"
    record = EpisodeRecord(
        policy=entry.policy,
        episode_id=entry.episode_id,
        open_time=entry.decision_time,
        decision_id=entry.decision_id,
        action=entry.action,
        state=state,
        quarantined=False,
        reward=entry.reward,
        weight=entry.weight,
        weight_reason=entry.weight_reason or "",
        veto_reasons=entry.verdict.veto_reasons,
        reward_version=entry.reward_version,
        components=entry.verdict.components,
        signals=entry.verdict.signals,
        settle_time=entry.settle_time,
        policy_time=entry.policy_time,
        evidence_sequence=entry.sequence,
        evidence_bucket=entry.bucket,
    )
    return episode_message(tenant, record)


def belief_message(found: BucketBelief) -> policy_service_pb2.GetBeliefResponse:
    """Put the belief of a bucket on the wire."""
    return policy_service_pb2.GetBeliefResponse(
        bucket=found.bucket,
        buckets=found.buckets[:MOST_BUCKETS],
        grid=GRID.tolist(),
        actions=[
            policy_service_pb2.ActionBelief(
                action_key=one.action,
                weight=one.weight,
                mean=one.mean,
                lower=one.lower,
                upper=one.upper,
                probability_best=one.probability_best,
                density=one.density,
            )
            for one in found.actions
        ],
    )


def history_message(history: History) -> policy_service_pb2.GetHistoryResponse:
    """Put counts over time on the wire."""
    return policy_service_pb2.GetHistoryResponse(
        start_time=timestamp(history.start),
        end_time=timestamp(history.end),
        points=[
            policy_service_pb2.HistoryPoint(start_time=timestamp(start), actions=[_tally(one) for one in tallies])
            for start, tallies in history.points
        ],
        changes=[
            policy_service_pb2.Change(change_time=timestamp(time), cause=cause) for time, cause in history.changes
        ],
    )


def _tally(tally: Tally) -> policy_service_pb2.ActionTally:
    return policy_service_pb2.ActionTally(
        action_key=tally.action,
        decisions=tally.decisions,
        episodes=tally.episodes,
        reward_sum=tally.reward_sum,
        reward_square_sum=tally.reward_square_sum,
        vetoes=tally.vetoes,
        costed_episodes=tally.costed,
        cost_usd=tally.cost_usd,
        timed_episodes=tally.timed,
        latency_ms=tally.latency_ms,
    )
