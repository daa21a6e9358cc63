"""One suite for the client against a server and for the fixed one that users test with: same calls, same answers."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from kedge.bandit.v1.episode_pb2 import LlmCall, Trajectory
from kedge.bandit.v1.episode_service_pb2 import LogEpisodeRequest
from kedge.bandit.v1.outcome_pb2 import OUTCOME_STATUS_CONFLICT, OUTCOME_STATUS_DUPLICATE, OUTCOME_STATUS_RECORDED
from kedge_client import LOCAL_FALLBACK, CallFailed, FixedKedge, Kedge, log_request
from tests.client.stand_in import BASELINE, DIRECT, LARGE, SERVED, SMALL, UNAVAILABLE, StandIn

ENDED = Trajectory(llm_calls=[LlmCall(model_id="gemma-2-9b-it", cost_usd=0.001)], terminated=True)
EVERY_RPC = ("Decide", "BestAction", "LogEpisode", "RecordOutcomes", "SettleEpisode", "Activate", "Cancel", "GetArm")


@dataclass
class Subject:
    """A client under the contract, and how to take its server down."""

    kedge: Kedge
    take_down: Callable[[], None]


@pytest.fixture(params=["server", "fixed"])
def subject(request: pytest.FixtureRequest, kedge: Kedge, stand_in: StandIn, fixed: FixedKedge) -> Subject:
    def stop_server() -> None:
        stand_in.always.update(dict.fromkeys(EVERY_RPC, UNAVAILABLE))

    def stop_fixed() -> None:
        fixed.said.failure = CallFailed(code="UNAVAILABLE", reason="STORE_UNAVAILABLE")

    return Subject(kedge, stop_server) if request.param == "server" else Subject(fixed, stop_fixed)


async def test_a_choice_names_the_served_arms_and_carries_a_token(subject: Subject) -> None:
    choice = await subject.kedge.decide("support", episode_id="turn-1")

    assert (choice.model_route, choice.reasoning_depth, choice.prompt_variant) == ("large", None, "direct")
    assert (choice.action, choice.action_key) == (SERVED.action, SERVED.action.key)
    assert 0.0 < choice.propensity <= 1.0
    assert choice.token
    assert choice.decision.startswith("tenants/acme/decisions/")
    assert not choice.fallback


async def test_an_episode_keeps_its_action(subject: Subject) -> None:
    first = await subject.kedge.decide("support", episode_id="turn-1")
    again = await subject.kedge.decide("support", episode_id="turn-1", token=first.token)

    assert (again.action, again.token) == (first.action, first.token)


async def test_the_best_action_is_not_randomised(subject: Subject) -> None:
    best = await subject.kedge.best_action("support", episode_id="turn-1")

    assert (best.reason, best.is_randomised) == ("BEST_ACTION", False)
    assert best.mean is not None
    assert 0.0 <= best.mean <= 1.0


async def test_a_server_that_is_down_means_the_baseline(subject: Subject) -> None:
    subject.take_down()

    for choice in (
        await subject.kedge.decide("support", episode_id="turn-1"),
        await subject.kedge.best_action("support", episode_id="turn-1"),
    ):
        assert (choice.action, choice.reason, choice.failure) == (BASELINE.action, LOCAL_FALLBACK, "STORE_UNAVAILABLE")


async def test_the_same_log_entry_is_recorded_once_and_more_of_the_episode_again(subject: Subject) -> None:
    handle = (await subject.kedge.decide("support", episode_id="turn-1")).handle

    duplicates = [
        await subject.kedge.log_episode(handle, Trajectory()),
        await subject.kedge.log_episode(handle, Trajectory()),
        await subject.kedge.log_episode(handle, ENDED),
    ]

    assert duplicates == [False, True, False]


async def test_another_entry_under_a_used_request_id_is_refused(subject: Subject) -> None:
    handle = subject.kedge.episode("support", "turn-1")
    await subject.kedge.log_episode(handle, Trajectory(), request_id="log-1")

    with pytest.raises(CallFailed) as caught:
        await subject.kedge.log_episode(handle, ENDED, request_id="log-1")
    assert (caught.value.code, caught.value.reason) == ("ALREADY_EXISTS", "IDEMPOTENCY_CONFLICT")


async def test_streamed_episodes_are_acknowledged_one_by_one(subject: Subject) -> None:
    entries = [log_request(subject.kedge.episode("support", f"turn-{turn % 2}"), ENDED) for turn in range(3)]
    entries.append(log_request(subject.kedge.episode("support", "other"), ENDED, request_id=entries[0].request_id))

    async def logged() -> AsyncIterator[LogEpisodeRequest]:
        for entry in entries:
            yield entry

    answers = [answer async for answer in subject.kedge.stream_episodes(logged())]

    assert [answer.request_id for answer in answers] == [entry.request_id for entry in entries]
    assert [answer.duplicate for answer in answers] == [False, False, True, False]
    assert [answer.error_reason for answer in answers] == ["", "", "", "IDEMPOTENCY_CONFLICT"]


async def test_what_the_stream_of_episodes_raises_reaches_the_caller(subject: Subject) -> None:
    async def logged() -> AsyncIterator[LogEpisodeRequest]:
        yield log_request(subject.kedge.episode("support", "turn-1"), ENDED)
        raise LookupError("the log file ends early")

    with pytest.raises(LookupError, match="ends early"):
        async for _ in subject.kedge.stream_episodes(logged()):
            pass


async def test_outcomes_are_recorded_once_and_other_payloads_conflict(subject: Subject) -> None:
    about = subject.kedge.about((await subject.kedge.decide("support", episode_id="turn-1")).handle)
    up, down = about.thumb(+1, key="thumb-1"), about.thumb(-1, key="thumb-1")

    statuses = [
        result.status
        for batch in ([up, about.judge(0.7)], [up], [down])
        for result in await subject.kedge.record_outcomes(batch)
    ]

    recorded, duplicate, conflict = OUTCOME_STATUS_RECORDED, OUTCOME_STATUS_DUPLICATE, OUTCOME_STATUS_CONFLICT
    assert statuses == [recorded, recorded, duplicate, conflict]


async def test_queued_outcomes_arrive(subject: Subject) -> None:
    about = subject.kedge.about(subject.kedge.episode("support", "turn-1"))
    for number in range(3):
        assert subject.kedge.outcomes.put(about.accepted(key=f"key-{number}"))

    await subject.kedge.outcomes.flush()

    assert subject.kedge.outcomes.counts.recorded == 3


async def test_a_batch_has_one_to_five_hundred_outcomes(subject: Subject) -> None:
    outcome = subject.kedge.about(subject.kedge.episode("support", "turn-1")).accepted()
    for batch in ([], [outcome] * 501):
        with pytest.raises(ValueError, match="500"):
            await subject.kedge.record_outcomes(batch)


async def test_settle_activate_and_cancel_are_accepted(subject: Subject) -> None:
    handle = (await subject.kedge.decide("support", episode_id="turn-1")).handle

    await subject.kedge.activate(handle, served_action_key=SERVED.action.key)
    await subject.kedge.settle(handle)
    await subject.kedge.cancel(handle)


async def test_arms_are_read_by_hash(subject: Subject) -> None:
    choice = await subject.kedge.decide("support", episode_id="turn-1")
    assert choice.action.model_route is not None

    assert await subject.kedge.get_arm(choice.action.model_route.content_hash) == LARGE
    assert await subject.kedge.get_arm(DIRECT.ref.content_hash) == DIRECT
    with pytest.raises(CallFailed) as caught:
        await subject.kedge.get_arm("f" * 64)
    assert (caught.value.code, caught.value.reason) == ("NOT_FOUND", "ARM_NOT_FOUND")


async def test_the_baselines_arms_need_no_server(subject: Subject) -> None:
    subject.take_down()

    assert await subject.kedge.get_arm(SMALL.ref.content_hash) == SMALL


async def test_writes_to_a_server_that_is_down_fail_with_its_reason(subject: Subject) -> None:
    handle = (await subject.kedge.decide("support", episode_id="turn-1")).handle
    subject.take_down()

    for write in (
        subject.kedge.log_episode(handle, ENDED),
        subject.kedge.record_outcomes([subject.kedge.about(handle).accepted()]),
        subject.kedge.settle(handle),
        subject.kedge.activate(handle),
        subject.kedge.cancel(handle),
        subject.kedge.get_arm("e" * 64),
    ):
        with pytest.raises(CallFailed) as caught:
            await write
        assert (caught.value.code, caught.value.reason) == ("UNAVAILABLE", "STORE_UNAVAILABLE")


@pytest.mark.parametrize("bad", [{"policy": "unknown"}, {"episode_id": ""}, {"numbers": {"words": "many"}}])
async def test_mistakes_of_the_caller_are_value_errors(subject: Subject, bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"baseline|episode_id|numbers"):
        await subject.kedge.decide(**{"policy": "support", "episode_id": "turn-1", **bad})
