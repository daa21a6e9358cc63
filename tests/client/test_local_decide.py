"""Decide in this process with a clock of the test's own: lease, stickiness, refusals, reports."""

import asyncio
from collections.abc import AsyncIterator, Callable
from random import Random

import pytest

from kedge.bandit.v1 import decision_service_pb2 as pb
from kedge.bandit.v1 import policy_pb2
from kedge_client import LOCAL_FALLBACK, CallFailed, Kedge, Listener
from tests.client.stand_in import BASELINE, SERVED
from tests.client.stepped_clock import START, SteppedClock
from tests.client.streaming import KEYS, Streaming, first_message


class Heard(Listener):
    def __init__(self) -> None:
        self.refused, self.dropped = list[str](), list[str]()

    def decision_refused(self, decision: str, why: str) -> None:
        self.refused.append(why)

    def decision_dropped(self, decision: str) -> None:
        self.dropped.append(decision)


@pytest.fixture
def wire(clock: SteppedClock) -> Streaming:
    return Streaming(clock)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
async def local(wire: Streaming, clock: SteppedClock, heard: Heard) -> AsyncIterator[Kedge]:
    made = Kedge(
        "unused:1",
        key="k",
        tenant="acme",
        baselines={"support": BASELINE},
        local=["support"],
        clock=clock,
        random=Random(7),
        listener=heard,
        wire=wire,
    )
    yield made
    await made.close(timeout_s=0.5)


async def held(local: Kedge, wire: Streaming, **more: float) -> None:
    wire.send(first_message(), **more)
    assert await local.ready()


async def test_until_the_vectors_are_here_the_server_is_asked(local: Kedge, wire: Streaming) -> None:
    choice = await local.decide("support", episode_id="turn-1")

    assert choice.token
    assert len(wire.decisions) == 1


async def test_with_the_vectors_nothing_is_asked_and_the_draw_decides(local: Kedge, wire: Streaming) -> None:
    await held(local, wire)

    choices = [await local.decide("support", episode_id=f"turn-{i}") for i in range(40)]

    assert {choice.action_key for choice in choices} == set(KEYS)
    assert {(c.propensity, c.reason, c.is_randomised, c.token) for c in choices} == {(0.5, "DRAWN", True, b"")}
    assert {c.action for c in choices} == {BASELINE.action, SERVED.action}
    assert wire.decisions == []


@pytest.mark.parametrize("more", [{"token": b"of another process"}, {"continues_episode": True}])
async def test_an_episode_that_another_process_decided_is_asked_for(
    local: Kedge, wire: Streaming, more: dict[str, object]
) -> None:
    await held(local, wire)

    await local.decide("support", episode_id="turn-1", **more)  # type: ignore[arg-type]

    assert len(wire.decisions) == 1


async def test_an_episode_keeps_its_choice_whatever_comes_later(local: Kedge, wire: Streaming) -> None:
    await held(local, wire)
    first = await local.decide("support", episode_id="turn-1")

    again = await local.decide("support", episode_id="turn-1", categories={"task": "math"}, no_exploration=True)

    assert again is first


async def test_when_the_lease_is_over_the_baseline_is_served_and_said_to_be(
    local: Kedge, wire: Streaming, clock: SteppedClock
) -> None:
    await held(local, wire)
    clock.seconds += 4.999
    assert (await local.decide("support", episode_id="just")).reason == "DRAWN"
    clock.seconds += 0.001

    stale = await local.decide("support", episode_id="late")

    assert (stale.action, stale.reason, stale.propensity) == (BASELINE.action, "STALE", 1.0)
    assert (stale.is_randomised, stale.fallback) == (False, False)
    await until(lambda: len(wire.reported) == 2)
    report = wire.reported[1]
    assert (report.allocation_version, report.policy_version, report.bucket) == (0, 3, "")


async def test_a_lease_counts_from_when_it_was_sent_not_from_when_it_came(
    local: Kedge, wire: Streaming, clock: SteppedClock
) -> None:
    await held(local, wire)
    clock.seconds += 4.0
    wire.send(pb.WatchAllocationsResponse(effective_mode=policy_pb2.MODE_APPLY), lease=5.0, travelled=3.0)
    await until(wire.messages.empty)
    clock.seconds += 1.5  # 2.5 s before the end of a lease that began when it came
    assert (await local.decide("support", episode_id="in time")).reason == "DRAWN"
    clock.seconds += 1.0

    assert (await local.decide("support", episode_id="late")).reason == "STALE"


async def test_nothing_is_decided_while_more_of_the_first_allocations_follow(local: Kedge, wire: Streaming) -> None:
    wire.send(first_message(), lease=0.0)
    await local.decide("support", episode_id="starts the stream")
    await until(wire.messages.empty)

    assert (await local.decide("support", episode_id="turn-1")).token  # the server was asked


async def test_a_freeze_beats_an_earlier_choice(local: Kedge, wire: Streaming) -> None:
    await held(local, wire)
    drawn = [await local.decide("support", episode_id=f"turn-{i}") for i in range(20)]
    large = next(choice for choice in drawn if choice.action == SERVED.action)
    wire.send(pb.WatchAllocationsResponse(effective_mode=policy_pb2.MODE_FROZEN))
    await until(wire.messages.empty)

    frozen = await local.decide("support", episode_id=large.episode_id)

    assert (frozen.action, frozen.reason) == (BASELINE.action, "FROZEN")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"categories": {"colour": "red"}}, "UNDECLARED_FEATURE"),
        ({"pinned": "unknown"}, "UNKNOWN_ACTION"),
        ({"categories": {"task": "x" * 300}}, "CONTEXT_TOO_LARGE"),
    ],
)
async def test_what_the_server_would_refuse_is_answered_like_its_refusal(
    local: Kedge, wire: Streaming, more: dict[str, object], why: str
) -> None:
    await held(local, wire)

    choice = await local.decide("support", episode_id="turn-1", **more)  # type: ignore[arg-type]

    assert (choice.action, choice.reason, choice.failure) == (BASELINE.action, LOCAL_FALLBACK, why)
    assert wire.reported == []


async def test_a_report_says_everything_and_its_id_says_its_time(
    local: Kedge, wire: Streaming, clock: SteppedClock
) -> None:
    await held(local, wire)
    clock.seconds += 1.25
    choice = await local.decide("support", episode_id="turn-1", categories={"task": "math"}, available=KEYS)
    await until(lambda: bool(wire.reported))

    (report,) = wire.reported
    assert report.name == choice.decision
    assert report.decision_time.ToMilliseconds() == int(START.timestamp() * 1000) + 1250
    assert int(report.name.rpartition("/")[2].replace("-", "")[:12], 16) == report.decision_time.ToMilliseconds()
    assert (report.bucket, report.allocation_version, report.policy_version) == ("task=math", 7, 3)
    assert dict(report.context.categories) == {"task": "math"}
    assert list(report.available_action_keys) == KEYS


async def test_reports_wait_for_a_server_that_is_down_and_refusals_are_told(
    local: Kedge, wire: Streaming, heard: Heard
) -> None:
    await held(local, wire)
    wire.failure = CallFailed(code="UNAVAILABLE")
    await local.decide("support", episode_id="turn-1")
    await asyncio.sleep(0)
    assert wire.reported == []
    wire.failure, wire.refuse = None, "ACTION_DIFFERS"

    await until(lambda: bool(wire.reported))

    await until(lambda: heard.refused == ["ACTION_DIFFERS"])
    assert heard.dropped == []


async def test_what_cannot_be_reported_before_the_end_is_told(local: Kedge, wire: Streaming, heard: Heard) -> None:
    await held(local, wire)
    wire.failure = CallFailed(code="UNAVAILABLE")
    choice = await local.decide("support", episode_id="turn-1")

    await local.close(timeout_s=0.01)

    assert heard.dropped == [choice.decision]


async def test_what_the_wire_cannot_carry_is_dropped_alone(local: Kedge, wire: Streaming, heard: Heard) -> None:
    await held(local, wire)
    bad = await local.decide("support", episode_id="turn-1", categories={"task": "half a \ud800"})
    good = await local.decide("support", episode_id="turn-2")

    await until(lambda: [report.name for report in wire.reported] == [good.decision])

    assert heard.dropped == [bad.decision]


async def test_a_mode_that_this_client_does_not_know_means_its_own_baseline(local: Kedge, wire: Streaming) -> None:
    await held(local, wire)
    wire.send(pb.WatchAllocationsResponse(effective_mode=99))  # type: ignore[arg-type]
    await until(wire.messages.empty)

    choice = await local.decide("support", episode_id="turn-1")

    assert (choice.action, choice.reason, choice.failure) == (BASELINE.action, LOCAL_FALLBACK, "LOCAL_ERROR")


async def test_a_stream_that_ends_is_begun_again(local: Kedge, wire: Streaming) -> None:
    await held(local, wire)
    wire.messages.put_nowait(CallFailed(code="UNAVAILABLE", reason="STORE_UNAVAILABLE"))
    wire.messages.put_nowait(None)

    await until(lambda: wire.watches == 3)


async def until(condition: Callable[[], bool]) -> None:
    """Let other tasks run until a condition holds."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - it is seen from outside only
            await asyncio.sleep(0.005)
