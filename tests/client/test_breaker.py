"""A server that does not answer is left alone for a while, and found again by a single question."""

import asyncio
from collections.abc import Callable
from itertools import pairwise

import grpc
from hypothesis import given
from hypothesis import strategies as st

from kedge_client import Kedge
from kedge_client.breaker import BreakerState, CircuitBreaker
from tests.client.stand_in import UNAVAILABLE, Fail, Hang, StandIn
from tests.client.stepped_clock import SteppedClock

Connect = Callable[..., Kedge]


async def fail_five_times(kedge: Kedge, stand_in: StandIn) -> None:
    stand_in.script["Decide"].extend([UNAVAILABLE] * 5)
    for turn in range(5):
        assert (await kedge.decide("support", episode_id=f"turn-{turn}")).failure == "STORE_UNAVAILABLE"


async def test_after_five_failures_in_a_row_nothing_is_asked_for_a_second(
    kedge: Kedge, stand_in: StandIn, clock: SteppedClock
) -> None:
    await fail_five_times(kedge, stand_in)
    clock.seconds += 0.999

    choice = await kedge.decide("support", episode_id="turn-6")

    assert (choice.failure, choice.model_route, choice.fallback) == ("BREAKER_OPEN", "small", True)
    assert stand_in.calls["Decide"] == 5


async def test_after_the_pause_one_success_closes_the_breaker(
    kedge: Kedge, stand_in: StandIn, clock: SteppedClock
) -> None:
    await fail_five_times(kedge, stand_in)
    clock.seconds += 1.0

    choices = [await kedge.decide("support", episode_id=f"turn-{turn}") for turn in range(6, 9)]

    assert [choice.fallback for choice in choices] == [False, False, False]


async def test_only_one_of_many_questions_is_the_probe(kedge: Kedge, stand_in: StandIn, clock: SteppedClock) -> None:
    await fail_five_times(kedge, stand_in)
    clock.seconds += 1.0
    hang = Hang()
    stand_in.script["Decide"].append(hang)

    probe = asyncio.create_task(kedge.decide("support", episode_id="probe"))
    await hang.entered.wait()
    others = [await kedge.decide("support", episode_id=f"other-{turn}") for turn in range(10)]
    hang.released.set()

    assert {choice.failure for choice in others} == {"BREAKER_OPEN"}
    assert not (await probe).fallback
    assert stand_in.calls["Decide"] == 6


async def test_a_probe_that_is_cancelled_leaves_the_next_question_to_probe(
    kedge: Kedge, stand_in: StandIn, clock: SteppedClock
) -> None:
    await fail_five_times(kedge, stand_in)
    clock.seconds += 1.0
    hang = Hang()
    stand_in.script["Decide"].append(hang)
    probe = asyncio.create_task(kedge.decide("support", episode_id="probe"))
    await hang.entered.wait()

    probe.cancel()
    await asyncio.wait([probe])
    hang.released.set()

    assert not (await kedge.decide("support", episode_id="next")).fallback


async def test_failed_probes_double_the_pause_up_to_thirty_seconds(
    kedge: Kedge, stand_in: StandIn, clock: SteppedClock
) -> None:
    stand_in.always["Decide"] = UNAVAILABLE
    asked_at: list[float] = []
    while len(asked_at) < 12:
        before = stand_in.calls["Decide"]
        await kedge.decide("support", episode_id="turn")
        if stand_in.calls["Decide"] > before:
            asked_at.append(clock.seconds)
        else:
            clock.seconds += 0.5

    pauses = [later - earlier for earlier, later in pairwise(asked_at[4:])]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


async def test_after_a_recovery_the_pause_is_one_second_again(
    kedge: Kedge, stand_in: StandIn, clock: SteppedClock
) -> None:
    await fail_five_times(kedge, stand_in)
    clock.seconds += 1.0
    stand_in.script["Decide"].append(UNAVAILABLE)
    await kedge.decide("support", episode_id="failed probe")
    clock.seconds += 2.0
    await kedge.decide("support", episode_id="good probe")
    await fail_five_times(kedge, stand_in)
    clock.seconds += 1.0

    assert not (await kedge.decide("support", episode_id="next")).fallback


async def test_a_success_between_failures_keeps_the_breaker_closed(kedge: Kedge, stand_in: StandIn) -> None:
    for turn in range(12):
        if turn % 5 != 4:
            stand_in.script["Decide"].append(UNAVAILABLE)
        await kedge.decide("support", episode_id=f"turn-{turn}")

    assert stand_in.calls["Decide"] == 12


async def test_refusals_of_a_request_do_not_open_the_breaker(kedge: Kedge, stand_in: StandIn) -> None:
    stand_in.always["Decide"] = Fail(code=grpc.StatusCode.INVALID_ARGUMENT, reason="UNDECLARED_FEATURE")

    for turn in range(8):
        await kedge.decide("support", episode_id=f"turn-{turn}")

    assert stand_in.calls["Decide"] == 8


async def test_missed_deadlines_open_the_breaker(connect: Connect, stand_in: StandIn) -> None:
    hang = Hang()
    stand_in.always["Decide"] = hang
    client = connect(decide_deadline_s=0.02)

    failures = [(await client.decide("support", episode_id=f"turn-{turn}")).failure for turn in range(6)]

    hang.released.set()
    assert failures == ["DEADLINE_EXCEEDED"] * 5 + ["BREAKER_OPEN"]


def test_a_slow_failure_from_before_does_not_reopen_a_closed_breaker() -> None:
    clock = SteppedClock()
    breaker = CircuitBreaker(monotonic=clock.monotonic)
    slow = breaker.enter()
    for _ in range(5):
        breaker.failed(breaker.enter())
    clock.seconds = 1.0
    breaker.succeeded(breaker.enter())

    for _ in range(5):
        breaker.failed(slow)

    assert breaker.state is BreakerState.CLOSED


@given(st.lists(st.tuples(st.booleans(), st.floats(0.0, 40.0)), max_size=80))
def test_the_breaker_never_stays_shut_longer_than_thirty_seconds(history: list[tuple[bool, float]]) -> None:
    clock = SteppedClock()
    breaker = CircuitBreaker(monotonic=clock.monotonic)
    for works, pause_s in history:
        era = breaker.enter()
        if works:
            breaker.succeeded(era)
        else:
            breaker.failed(era)
        clock.seconds += pause_s

    clock.seconds += 30.0

    assert breaker.enter() is not None
