"""What was put arrives once: not lost by failures, not doubled by retries, and every drop is counted."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.bandit.v1 import error_reason_pb2
from kedge.bandit.v1.feedback_service_pb2 import OutcomeResult, RecordOutcomesResponse
from kedge.bandit.v1.outcome_pb2 import (
    OUTCOME_STATUS_DUPLICATE,
    OUTCOME_STATUS_RECORDED,
    OUTCOME_STATUS_REJECTED,
    Outcome,
)
from kedge_client import CallFailed, Kedge, Listener, OutcomeCounts, OutcomeMaker, OutcomeQueue
from tests.client.outcome_hearing import HANDLE, Refusals, put
from tests.client.stand_in import UNAVAILABLE, Answer, Fail, Hang, StandIn
from tests.client.stepped_clock import SteppedClock

Connect = Callable[..., Kedge]


async def test_outcomes_are_sent_in_batches_of_at_most_five_hundred(kedge: Kedge, stand_in: StandIn) -> None:
    keys = put(kedge, 1_201)

    await kedge.outcomes.flush()

    assert list(stand_in.outcomes) == keys
    assert stand_in.batches == [500, 500, 201]
    assert kedge.outcomes.counts == OutcomeCounts(recorded=1_201)


async def test_what_comes_while_a_batch_is_under_way_goes_with_the_next(kedge: Kedge, stand_in: StandIn) -> None:
    hang = Hang()
    stand_in.script["RecordOutcomes"].append(hang)
    put(kedge, 1)
    await hang.entered.wait()
    put(kedge, 20, first=1)

    hang.released.set()
    await kedge.outcomes.flush()

    assert stand_in.batches == [1, 20]


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAUTHENTICATED]
)
async def test_failed_batches_are_sent_again_until_they_are_acknowledged(
    kedge: Kedge, stand_in: StandIn, code: grpc.StatusCode
) -> None:
    stand_in.script["RecordOutcomes"].extend([Fail(code=code)] * 6)
    keys = put(kedge, 700)

    await kedge.outcomes.flush()

    assert list(stand_in.outcomes) == keys
    assert kedge.outcomes.counts == OutcomeCounts(recorded=700, retries=6)


async def test_a_lost_acknowledgement_loses_nothing_and_doubles_nothing(kedge: Kedge, stand_in: StandIn) -> None:
    stand_in.script["RecordOutcomes"].append(Fail(code=grpc.StatusCode.UNAVAILABLE, committed=True))
    keys = put(kedge, 3)

    await kedge.outcomes.flush()

    assert list(stand_in.outcomes) == keys
    assert kedge.outcomes.counts == OutcomeCounts(duplicates=3, retries=1)


async def test_a_full_server_is_given_the_time_it_asks_for(
    connect: Connect, stand_in: StandIn, clock: SteppedClock
) -> None:
    full = Fail(code=grpc.StatusCode.RESOURCE_EXHAUSTED, reason="QUEUE_FULL", retry_after_s=2.5)
    stand_in.script["RecordOutcomes"].extend([full] * 3)
    heard = Refusals()
    client = connect(listener=heard)
    keys = put(client, 2)

    await client.outcomes.flush()

    assert list(stand_in.outcomes) == keys
    assert [reason for reason, _ in heard.delays] == ["QUEUE_FULL"] * 3
    assert clock.slept == [pause_s for _, pause_s in heard.delays]
    assert all(2.5 <= pause_s <= 2.5 + 0.1 * 2**attempt for attempt, pause_s in enumerate(clock.slept))


async def test_without_a_hint_the_pauses_double_up_to_thirty_seconds(
    kedge: Kedge, stand_in: StandIn, clock: SteppedClock
) -> None:
    stand_in.script["RecordOutcomes"].extend([UNAVAILABLE] * 12)
    put(kedge, 1)

    await kedge.outcomes.flush()

    longest = [min(0.1 * 2**attempt, 30.0) for attempt in range(12)]
    assert all(top / 2 <= pause_s <= top for pause_s, top in zip(clock.slept, longest, strict=True))


async def test_after_a_success_the_pauses_start_short_again(
    kedge: Kedge, stand_in: StandIn, clock: SteppedClock
) -> None:
    works = Hang()
    works.released.set()
    stand_in.script["RecordOutcomes"].extend([UNAVAILABLE, UNAVAILABLE, works, UNAVAILABLE])
    put(kedge, 501)

    await kedge.outcomes.flush()

    assert len(clock.slept) == 3
    assert 0.05 <= clock.slept[2] <= 0.1


async def test_outcomes_that_the_server_puts_off_one_by_one_are_sent_again_in_order(
    kedge: Kedge, stand_in: StandIn
) -> None:
    full = OutcomeResult(status=OUTCOME_STATUS_REJECTED, error_reason=error_reason_pb2.ERROR_REASON_QUEUE_FULL)
    done = OutcomeResult(status=OUTCOME_STATUS_RECORDED)
    stand_in.script["RecordOutcomes"].append(Answer(RecordOutcomesResponse(results=[full, done, full])))
    put(kedge, 3)

    await kedge.outcomes.flush()

    assert list(stand_in.outcomes) == ["key-0", "key-2"]
    assert kedge.outcomes.counts == OutcomeCounts(recorded=3, retries=1)


async def test_an_answer_that_does_not_fit_the_batch_settles_nothing(kedge: Kedge, stand_in: StandIn) -> None:
    short = RecordOutcomesResponse(results=[OutcomeResult(status=OUTCOME_STATUS_RECORDED)])
    stand_in.script["RecordOutcomes"].append(Answer(short))
    keys = put(kedge, 2)

    await kedge.outcomes.flush()

    assert list(stand_in.outcomes) == keys


async def test_one_outcome_that_spoils_its_batch_is_refused_alone(connect: Connect, stand_in: StandIn) -> None:
    heard = Refusals()
    client = connect(listener=heard)
    stand_in.poison = {"key-137", "key-1100"}
    keys = put(client, 1_200)

    await client.outcomes.flush()

    assert heard.refused == ["key-137", "key-1100"]
    assert list(stand_in.outcomes) == [key for key in keys if key not in stand_in.poison]
    assert client.outcomes.counts == OutcomeCounts(recorded=1_198, rejected=2)
    assert len(stand_in.batches) < 60


async def test_another_payload_under_a_used_key_is_a_conflict(connect: Connect, stand_in: StandIn) -> None:
    heard = Refusals()
    client = connect(listener=heard)
    client.outcomes.put(client.about(HANDLE).thumb(+1, key="key"))
    client.outcomes.put(client.about(HANDLE).thumb(-1, key="key"))

    await client.outcomes.flush()

    assert heard.refused == ["key"]
    assert client.outcomes.counts == OutcomeCounts(recorded=1, conflicts=1)
    assert stand_in.outcomes["key"].value == 1.0


async def test_changing_a_message_after_it_was_put_changes_nothing(kedge: Kedge, stand_in: StandIn) -> None:
    outcome = kedge.about(HANDLE).cost(0.02, key="key")
    kedge.outcomes.put(outcome)
    outcome.value = 99.0

    await kedge.outcomes.flush()

    assert stand_in.outcomes["key"].value == 0.02


@pytest.mark.parametrize(
    ("spoil", "hint"),
    [
        (lambda outcome: outcome.ClearField("idempotency_key"), "idempotency_key"),
        (lambda outcome: outcome.ClearField("decision_token"), "target"),
        (lambda outcome: outcome.ClearField("value"), "value"),
        (lambda outcome: setattr(outcome, "rater_id", "x" * 9_000), "bytes"),
    ],
)
async def test_a_malformed_outcome_is_a_value_error(kedge: Kedge, spoil: Callable[[Outcome], None], hint: str) -> None:
    outcome = kedge.about(HANDLE).thumb(+1)
    spoil(outcome)

    with pytest.raises(ValueError, match=hint):
        kedge.outcomes.put(outcome)


async def test_a_listener_that_raises_does_not_stop_the_delivery(connect: Connect, stand_in: StandIn) -> None:
    class Broken(Listener):
        def outcome_refused(self, outcome: Outcome, result: OutcomeResult) -> None:
            raise RuntimeError("metrics are down")

    client = connect(listener=Broken())
    stand_in.poison = {"key-1"}
    put(client, 3)

    await client.outcomes.flush()

    assert list(stand_in.outcomes) == ["key-0", "key-2"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["ok", "fail", "lost"]), max_size=30), st.integers(1, 1_600), st.integers(1, 900))
def test_whatever_fails_each_outcome_has_one_effect_in_order(script: list[str], total: int, capacity: int) -> None:
    stored: dict[str, Outcome] = {}
    steps = iter(script)

    async def send(batch: Sequence[Outcome]) -> list[OutcomeResult]:
        assert 1 <= len(batch) <= 500
        step = next(steps, "ok")
        await asyncio.sleep(0)
        if step == "fail":
            raise CallFailed(code="UNAVAILABLE")
        seen = [each.idempotency_key in stored for each in batch]
        stored.update({each.idempotency_key: each for each in batch})
        if step == "lost":
            raise CallFailed(code="DEADLINE_EXCEEDED")
        return [OutcomeResult(status=OUTCOME_STATUS_DUPLICATE if dup else OUTCOME_STATUS_RECORDED) for dup in seen]

    async def play() -> OutcomeCounts:
        clock = SteppedClock()
        queue = OutcomeQueue(send, clock=clock, random=Random(7), listener=Listener(), capacity=capacity)
        maker = OutcomeMaker(handle=HANDLE, now=clock.now, new_id=lambda: "unused")
        taken.extend(number for number in range(total) if queue.put(maker.accepted(key=str(number))))
        await queue.close()
        return queue.counts

    taken: list[int] = []
    counts = asyncio.run(play())

    assert list(stored) == [str(number) for number in taken]
    assert counts.recorded + counts.duplicates == len(taken) == min(total, capacity)
    assert (counts.dropped, counts.waiting) == (total - len(taken), 0)
