"""Each veto reason, sent over gRPC as a core application would send it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from kedge.bandit.v1 import (
    decision_pb2,
    decision_service_pb2,
    episode_pb2,
    episode_service_pb2,
    feedback_service_pb2,
    outcome_pb2,
    policy_service_pb2,
)
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Services, Stack, wait_for

TENANT = "vetoes"
POLICY = f"tenants/{TENANT}/policies/support"

TRIPS: dict[str, Callable[[episode_pb2.Trajectory], object]] = {
    "GUARDRAIL_PII": lambda t: t.guardrail_events.add(kind=episode_pb2.GUARDRAIL_KIND_PII, tripped=True),
    "GUARDRAIL_POLICY": lambda t: t.guardrail_events.add(kind=episode_pb2.GUARDRAIL_KIND_POLICY, tripped=True),
    "GUARDRAIL_INJECTION": lambda t: t.guardrail_events.add(kind=episode_pb2.GUARDRAIL_KIND_INJECTION, tripped=True),
    "TOOL_BLOCKED": lambda t: t.tool_calls.add(tool_name="refund", blocked=True),
    "TOOL_VERIFIER_FAILED": lambda t: t.tool_calls.add(
        tool_name="lookup", verifier_verdict=episode_pb2.VERIFIER_VERDICT_FAILED
    ),
    "APPROVAL_DENIED": lambda t: t.approvals.add(subject="refund", verdict=episode_pb2.APPROVAL_VERDICT_DENIED),
    "APPROVAL_BYPASSED": lambda t: t.approvals.add(subject="refund", verdict=episode_pb2.APPROVAL_VERDICT_BYPASSED),
    "ASSERTION_SCHEMA": lambda t: t.assertions.add(kind=episode_pb2.ASSERTION_KIND_SCHEMA, passed=False, hard=True),
    "ASSERTION_FORBIDDEN_CONTENT": lambda t: t.assertions.add(
        kind=episode_pb2.ASSERTION_KIND_FORBIDDEN_CONTENT, passed=False, hard=True
    ),
    "ASSERTION_TENANT_ISOLATION": lambda t: t.assertions.add(
        kind=episode_pb2.ASSERTION_KIND_TENANT_ISOLATION, passed=False, hard=True
    ),
}


@pytest.fixture(scope="module")
def services(stack: Stack) -> Iterator[Services]:
    key = stack.tenant(TENANT)
    stack.put_policy(two_models(TENANT))
    with stack.services(key) as connected:
        yield connected


def now() -> Timestamp:
    stamp = Timestamp()
    stamp.GetCurrentTime()
    return stamp


def decide(services: Services, episode: str) -> Any:
    return services.decisions.Decide(
        decision_service_pb2.DecideRequest(
            policy=POLICY,
            request_id=episode,
            episode_id=episode,
            context=decision_pb2.Context(categories={"task": "math"}),
        )
    )


def record(services: Services, decision: Any, key: str, **facts: Any) -> None:
    outcome = outcome_pb2.Outcome(
        idempotency_key=key, decision_token=decision.decision_token, observed_time=now(), **facts
    )
    request = feedback_service_pb2.RecordOutcomesRequest(parent=f"tenants/{TENANT}", outcomes=[outcome])
    answer = services.feedback.RecordOutcomes(request)
    assert answer.results[0].status == outcome_pb2.OUTCOME_STATUS_RECORDED, answer


def episode_of(services: Services, episode: str) -> Any:
    request = episode_service_pb2.GetEpisodeRequest(policy=POLICY, episode_id=episode)
    return services.episodes.GetEpisode(request).episode


def vetoes_of(services: Services, action_key: str) -> float:
    status = services.policies.GetPolicyStatus(policy_service_pb2.GetPolicyStatusRequest(name=POLICY))
    return float(sum(action.vetoes for action in status.actions if action.action_key == action_key))


def is_folded(services: Services, episode: str, version: int) -> bool:
    try:
        return bool(episode_of(services, episode).reward_version >= version)
    except Exception as error:  # noqa: BLE001 - not folded yet
        return "EPISODE_NOT_FOUND" in str(error) and False


@pytest.mark.parametrize("reason", TRIPS)
def test_a_tripped_rule_vetoes_moves_the_veto_belief_and_outlasts_a_thumb_up(services: Services, reason: str) -> None:
    episode = f"veto-{reason}"
    decision = decide(services, episode)
    before = vetoes_of(services, decision.action_key)
    trajectory = episode_pb2.Trajectory(terminated=True)
    TRIPS[reason](trajectory)
    record(services, decision, f"{episode}-task", signal=outcome_pb2.SIGNAL_TASK_SUCCESS, value=1.0)
    services.episodes.LogEpisode(
        episode_service_pb2.LogEpisodeRequest(
            policy=POLICY,
            request_id=episode,
            episode_id=episode,
            decision_token=decision.decision_token,
            trajectory=trajectory,
        )
    )
    wait_for(lambda: is_folded(services, episode, 1), "the veto to be folded")
    found = episode_of(services, episode)
    assert found.state == episode_pb2.EPISODE_STATE_VETOED
    assert found.reward == 0
    assert [outcome_pb2.VetoReason.Name(r) for r in found.veto_reasons] == [f"VETO_REASON_{reason}"]
    wait_for(lambda: vetoes_of(services, decision.action_key) > before + 0.99, "the veto belief to move")

    record(
        services,
        decision,
        f"{episode}-thumb",
        signal=outcome_pb2.SIGNAL_HUMAN,
        provenance=outcome_pb2.HUMAN_PROVENANCE_THUMB,
        value=1.0,
        rater_id="someone",
    )
    # A later episode of the same tenant is folded after the thumb: then the thumb has been looked at.
    marker = decide(services, f"after-{reason}")
    services.episodes.LogEpisode(
        episode_service_pb2.LogEpisodeRequest(
            policy=POLICY,
            request_id=f"after-{reason}",
            episode_id=f"after-{reason}",
            decision_token=marker.decision_token,
            trajectory=episode_pb2.Trajectory(terminated=True),
        )
    )
    wait_for(lambda: _exists(services, f"after-{reason}"), "the marker to be folded")
    found = episode_of(services, episode)
    assert found.state == episode_pb2.EPISODE_STATE_VETOED
    assert found.reward == 0


def _exists(services: Services, episode: str) -> bool:
    try:
        episode_of(services, episode)
    except Exception:  # noqa: BLE001 - not folded yet
        return False
    return True


def test_a_safety_outcome_vetoes_without_a_trajectory_that_says_so(services: Services) -> None:
    decision = decide(services, "veto-by-outcome")
    record(
        services,
        decision,
        "veto-by-outcome-safety",
        signal=outcome_pb2.SIGNAL_SAFETY,
        value=0.0,
        veto_reason=outcome_pb2.VETO_REASON_GUARDRAIL_POLICY,
    )
    services.episodes.LogEpisode(
        episode_service_pb2.LogEpisodeRequest(
            policy=POLICY,
            request_id="veto-by-outcome",
            episode_id="veto-by-outcome",
            decision_token=decision.decision_token,
            trajectory=episode_pb2.Trajectory(terminated=True),
        )
    )
    wait_for(lambda: is_folded(services, "veto-by-outcome", 1), "the veto to be folded")
    assert episode_of(services, "veto-by-outcome").state == episode_pb2.EPISODE_STATE_VETOED
