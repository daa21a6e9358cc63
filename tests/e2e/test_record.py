"""Record as a core application meets it: early, twice, by name, wrong, cancelled."""

from kedge.bandit.v1 import (
    decision_service_pb2,
    episode_pb2,
    error_reason_pb2,
    feedback_service_pb2,
    outcome_pb2,
)
from tests.fixtures.core_app import POLICY, TENANT, ask, episode_of, keys, log, now, refusal, success
from tests.fixtures.stack import Services, wait_for


def test_an_outcome_that_names_the_episode_before_its_decision_exists_is_joined(services: Services) -> None:
    reference = outcome_pb2.EpisodeRef(policy=POLICY, episode_id="early")
    assert success(services, "early", episode=reference).status == outcome_pb2.OUTCOME_STATUS_RECORDED
    decided = ask(services, "early")
    log(services, decided, "early")
    wait_for(lambda: episode_of(services, "early").state == episode_pb2.EPISODE_STATE_SETTLED, "the join")
    assert episode_of(services, "early").weight == 1


def test_an_outcome_by_its_decisions_name_is_joined(services: Services) -> None:
    decided = ask(services, "by-name")
    assert success(services, "by-name", decision=decided.decision).status == outcome_pb2.OUTCOME_STATUS_RECORDED
    log(services, decided, "by-name")
    wait_for(lambda: episode_of(services, "by-name").state == episode_pb2.EPISODE_STATE_SETTLED, "the join")


def test_an_episode_that_served_another_action_is_stored_and_not_learned(services: Services) -> None:
    small, large = keys(services)
    decided = ask(services, "swapped")
    other = large if decided.action_key == small else small
    success(services, "swapped", decision_token=decided.decision_token)
    log(services, decided, "swapped", served_action_key=other)
    wait_for(lambda: episode_of(services, "swapped").state == episode_pb2.EPISODE_STATE_SETTLED, "the verdict")
    found = episode_of(services, "swapped")
    assert (found.weight, found.weight_reason) == (0, "OTHER_ACTION_SERVED")


def test_a_repeated_log_is_a_duplicate_and_another_one_a_conflict(services: Services) -> None:
    decided = ask(services, "repeated")
    assert not log(services, decided, "repeated").duplicate
    assert log(services, decided, "repeated").duplicate
    different = episode_pb2.Trajectory(truncated=True)
    assert refusal(lambda: log(services, decided, "repeated", trajectory=different)) == "IDEMPOTENCY_CONFLICT"


def test_a_cancelled_decision_is_not_scored(services: Services) -> None:
    decided = ask(services, "cancelled")
    services.decisions.Cancel(
        decision_service_pb2.CancelRequest(decision=decided.decision, decision_token=decided.decision_token)
    )
    log(services, decided, "cancelled")
    wait_for(lambda: episode_of(services, "cancelled").state == episode_pb2.EPISODE_STATE_CANCELLED, "the cancellation")


def test_a_bad_outcome_is_answered_by_itself_and_holds_nothing_up(services: Services) -> None:
    decided = ask(services, "mixed")
    common = {"decision_token": decided.decision_token, "observed_time": now()}
    batch = [
        outcome_pb2.Outcome(idempotency_key="mixed-1", signal=outcome_pb2.SIGNAL_JUDGE, value=0.5, **common),
        outcome_pb2.Outcome(idempotency_key="mixed-2", signal=outcome_pb2.SIGNAL_JUDGE, value=float("nan"), **common),
        outcome_pb2.Outcome(idempotency_key="mixed-3", signal=outcome_pb2.SIGNAL_JUDGE, value=1.5, **common),
        outcome_pb2.Outcome(idempotency_key="mixed-4", value=0.5, **common),
        outcome_pb2.Outcome(idempotency_key="mixed-1", signal=outcome_pb2.SIGNAL_JUDGE, value=0.5, **common),
    ]
    request = feedback_service_pb2.RecordOutcomesRequest(parent=f"tenants/{TENANT}", outcomes=batch)
    statuses = [outcome_pb2.OutcomeStatus.Name(r.status) for r in services.feedback.RecordOutcomes(request).results]
    assert [status.removeprefix("OUTCOME_STATUS_") for status in statuses] == [
        "RECORDED",
        "REJECTED",
        "REJECTED",
        "REJECTED",
        "DUPLICATE",
    ]


def test_texts_that_are_stored_are_bounded(services: Services) -> None:
    decided = ask(services, "bounded")
    found = success(services, "bounded", decision_token=decided.decision_token, served_action_key="x" * 257)
    assert (found.status, found.error_reason) == (
        outcome_pb2.OUTCOME_STATUS_REJECTED,
        error_reason_pb2.ERROR_REASON_INVALID_NAME,
    )
    assert refusal(lambda: log(services, decided, "bounded", served_action_key="x" * 257)) == "INVALID_NAME"
    zero = success(services, "zero \0", decision_token=decided.decision_token)
    assert zero.error_reason == error_reason_pb2.ERROR_REASON_INVALID_OUTCOME
    late = success(services, "still-takes", decision_token=decided.decision_token, served_action_key="x" * 256)
    assert late.status == outcome_pb2.OUTCOME_STATUS_RECORDED
