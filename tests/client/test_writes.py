"""Writes that somebody waits for are repeated a few times under the same id, and then say what went wrong."""

from collections.abc import AsyncIterator, Callable

import grpc
import pytest

from kedge.bandit.v1.episode_pb2 import Trajectory
from kedge.bandit.v1.episode_service_pb2 import LogEpisodeRequest
from kedge_client import ArmContentMismatch, CallFailed, FixedKedge, Kedge, log_request
from kedge_client.errors import call_failed
from tests.client.stand_in import BASELINE, LARGE, SERVED, UNAVAILABLE, Fail, StandIn
from tests.client.stepped_clock import SteppedClock

Connect = Callable[..., Kedge]


async def test_a_log_entry_survives_three_failures_and_a_lost_acknowledgement(
    kedge: Kedge, stand_in: StandIn, clock: SteppedClock
) -> None:
    lost = Fail(code=grpc.StatusCode.UNAVAILABLE, committed=True)
    stand_in.script["LogEpisode"].extend([UNAVAILABLE, UNAVAILABLE, lost])

    await kedge.log_episode(kedge.episode("support", "turn-1"), Trajectory(terminated=True))

    assert (stand_in.calls["LogEpisode"], len(stand_in.episodes)) == (4, 1)
    assert len(clock.slept) == 3


async def test_after_four_attempts_the_caller_decides(kedge: Kedge, stand_in: StandIn) -> None:
    stand_in.always["SettleEpisode"] = UNAVAILABLE

    with pytest.raises(CallFailed) as caught:
        await kedge.settle(kedge.episode("support", "turn-1"))

    assert stand_in.calls["SettleEpisode"] == 4
    assert caught.value.is_transient


async def test_a_refused_write_is_not_repeated(kedge: Kedge, stand_in: StandIn) -> None:
    stand_in.always["LogEpisode"] = Fail(code=grpc.StatusCode.INVALID_ARGUMENT, reason="INVALID_TRAJECTORY")

    with pytest.raises(CallFailed) as caught:
        await kedge.log_episode(kedge.episode("support", "turn-1"), Trajectory())

    assert stand_in.calls["LogEpisode"] == 1
    assert (caught.value.code, caught.value.reason) == ("INVALID_ARGUMENT", "INVALID_TRAJECTORY")
    assert caught.value.detail == "scripted"


async def test_exhausted_resources_are_retried_no_sooner_than_asked(
    kedge: Kedge, stand_in: StandIn, clock: SteppedClock
) -> None:
    full = Fail(code=grpc.StatusCode.RESOURCE_EXHAUSTED, reason="QUEUE_FULL", retry_after_s=1.25)
    stand_in.script["RecordOutcomes"].append(full)

    await kedge.record_outcomes([kedge.about(kedge.episode("support", "turn-1")).accepted()])

    assert len(clock.slept) == 1
    assert 1.25 <= clock.slept[0] <= 1.35


async def test_a_server_that_asks_for_more_than_a_deadline_is_not_waited_for(
    kedge: Kedge, stand_in: StandIn, clock: SteppedClock
) -> None:
    stand_in.always["LogEpisode"] = Fail(
        code=grpc.StatusCode.RESOURCE_EXHAUSTED, reason="QUOTA_EXHAUSTED", retry_after_s=60.5
    )

    with pytest.raises(CallFailed) as caught:
        await kedge.log_episode(kedge.episode("support", "turn-1"), Trajectory())

    assert clock.slept == []
    assert caught.value.retry_after_s == pytest.approx(60.5)


async def test_a_closed_client_refuses_writes_at_once(kedge: Kedge, clock: SteppedClock) -> None:
    await kedge.close()

    with pytest.raises(CallFailed, match="CLIENT_CLOSED"):
        await kedge.settle(kedge.episode("support", "turn-1"))
    assert clock.slept == []


async def test_the_token_and_the_served_action_travel_with_the_episode(kedge: Kedge, stand_in: StandIn) -> None:
    choice = await kedge.decide("support", episode_id="turn-1")

    await kedge.log_episode(choice.handle, Trajectory(terminated=True), served_action_key=BASELINE.action.key)
    await kedge.activate(choice.handle, served_action_key=BASELINE.action.key)
    await kedge.cancel(choice.handle)
    await kedge.settle(choice.handle)

    logged, activated = stand_in.received["LogEpisode"], stand_in.received["Activate"]
    cancelled, settled = stand_in.received["Cancel"], stand_in.received["SettleEpisode"]
    assert (logged.policy, logged.episode_id) == ("tenants/acme/policies/support", "turn-1")
    assert (logged.decision_token, logged.served_action_key) == (choice.token, BASELINE.action.key)
    assert (activated.decision, activated.served_action_key) == (choice.decision, BASELINE.action.key)
    assert (cancelled.decision, cancelled.decision_token) == (choice.decision, choice.token)
    assert (settled.policy, settled.episode_id) == (logged.policy, logged.episode_id)


async def test_a_fallback_has_no_decision_to_activate_or_cancel(kedge: Kedge, stand_in: StandIn) -> None:
    stand_in.always["Decide"] = UNAVAILABLE
    handle = (await kedge.decide("support", episode_id="turn-1")).handle

    await kedge.activate(handle)
    await kedge.cancel(handle)

    assert stand_in.calls.keys() == {"Decide"}


async def test_an_arm_is_asked_for_once(kedge: Kedge, stand_in: StandIn) -> None:
    for _ in range(3):
        assert await kedge.get_arm(LARGE.ref.content_hash) == LARGE

    assert stand_in.calls["GetArm"] == 1


async def test_content_with_another_hash_is_not_believed(kedge: Kedge, stand_in: StandIn) -> None:
    with pytest.raises(ArmContentMismatch) as caught:
        await kedge.get_arm("0" * 64)
    with pytest.raises(ArmContentMismatch):
        await kedge.get_arm("0" * 64)

    assert caught.value.expected_hash == "0" * 64
    assert stand_in.calls["GetArm"] == 2


async def test_a_stream_that_breaks_says_why(kedge: Kedge, stand_in: StandIn) -> None:
    stand_in.script["StreamEpisodes"].extend([Fail(code=grpc.StatusCode.UNAVAILABLE, committed=True), UNAVAILABLE])

    async def logged() -> AsyncIterator[LogEpisodeRequest]:
        for turn in range(2):
            yield log_request(kedge.episode("support", f"turn-{turn}"), Trajectory(terminated=True))

    answers = kedge.stream_episodes(logged())

    assert not (await anext(answers)).duplicate
    with pytest.raises(CallFailed, match="STORE_UNAVAILABLE"):
        await anext(answers)


async def test_details_that_cannot_be_read_leave_the_code() -> None:
    metadata = grpc.aio.Metadata(("grpc-status-details-bin", b"\xff\xff"))
    error = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), metadata, details="down")

    failure = call_failed(error)

    assert (failure.code, failure.reason, failure.retry_after_s, failure.detail) == ("UNAVAILABLE", "", None, "down")


async def test_the_fixed_client_shows_what_was_said(fixed: FixedKedge) -> None:
    choice = await fixed.decide("support", episode_id="turn-1", categories={"task": "refund"})
    await fixed.log_episode(choice.handle, Trajectory(terminated=True))
    fixed.outcomes.put(fixed.about(choice.handle).thumb(+1, key="thumb-1"))
    await fixed.outcomes.flush()
    await fixed.cancel(choice.handle)

    said = fixed.said
    assert [asked.episode_id for asked in said.decisions] == ["turn-1"]
    assert [logged.trajectory.terminated for logged in said.episodes.values()] == [True]
    assert said.outcomes["thumb-1"].decision_token == choice.token
    assert [cancelled.decision for cancelled in said.cancelled] == [choice.decision]


async def test_the_fixed_client_serves_a_pin_only_on_what_it_serves(fixed: FixedKedge) -> None:
    pinned = await fixed.decide("support", episode_id="turn-1", pinned=SERVED.action.key)
    other = await fixed.decide("support", episode_id="turn-2", pinned=BASELINE.action.key)

    assert (pinned.reason, pinned.action_key) == ("PINNED", SERVED.action.key)
    assert (other.fallback, other.failure) == (True, "UNKNOWN_ACTION")
