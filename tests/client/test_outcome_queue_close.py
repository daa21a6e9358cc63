"""A queue that is full or closed says so, and closing loses nothing silently."""

from collections.abc import Callable

from kedge_client import Kedge, OutcomeCounts
from tests.client.outcome_hearing import HANDLE, Refusals, put
from tests.client.stand_in import UNAVAILABLE, StandIn
from tests.client.stepped_clock import StoppedClock

Connect = Callable[..., Kedge]


async def test_a_full_queue_drops_what_comes_on_top_and_counts_it(connect: Connect, stand_in: StandIn) -> None:
    heard = Refusals()
    client = connect(queue_capacity=3, listener=heard)

    put(client, 5)
    assert client.outcomes.counts == OutcomeCounts(waiting=3, dropped=2)
    await client.outcomes.flush()

    assert list(stand_in.outcomes) == ["key-0", "key-1", "key-2"]
    assert heard.dropped == ["key-3", "key-4"]
    assert client.outcomes.put(client.about(HANDLE).accepted())


async def test_closing_delivers_what_waits(kedge: Kedge, stand_in: StandIn) -> None:
    keys = put(kedge, 900)

    left = await kedge.close()

    assert left == ()
    assert list(stand_in.outcomes) == keys


async def test_closing_does_not_sit_out_a_pause(connect: Connect, stand_in: StandIn) -> None:
    stand_in.script["RecordOutcomes"].append(UNAVAILABLE)
    heard = Refusals()
    client = connect(clock=StoppedClock(), listener=heard)
    keys = put(client, 2)
    await heard.paused.wait()

    assert await client.close() == ()
    assert list(stand_in.outcomes) == keys


async def test_closing_gives_back_what_could_not_be_delivered(connect: Connect, stand_in: StandIn) -> None:
    stand_in.always["RecordOutcomes"] = UNAVAILABLE
    heard = Refusals()
    client = connect(clock=StoppedClock(), listener=heard)
    keys = put(client, 4)
    await heard.paused.wait()

    left = await client.close(timeout_s=0.05)

    assert [outcome.idempotency_key for outcome in left] == keys == heard.dropped
    assert client.outcomes.counts.dropped == 4
    # One try when it was put, one when closing cut the pause short; a server that is down is not hammered.
    assert stand_in.calls["RecordOutcomes"] == 2
    stand_in.always.clear()
    later = connect()
    for outcome in left:
        later.outcomes.put(outcome)
    await later.outcomes.flush()
    assert list(stand_in.outcomes) == keys


async def test_a_closed_queue_takes_nothing_and_says_so(kedge: Kedge) -> None:
    await kedge.close()

    assert not kedge.outcomes.put(kedge.about(HANDLE).accepted())
    assert kedge.outcomes.counts == OutcomeCounts(dropped=1)
