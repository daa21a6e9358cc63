"""A stand-in server and clients of it, closed when the test ends."""

from collections.abc import AsyncIterator, Callable
from itertools import count
from random import Random

import pytest

from kedge_client import FixedKedge, Kedge, Listener
from tests.client.stand_in import BASELINE, SERVED, Running, StandIn, start
from tests.client.stepped_clock import SteppedClock


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    running = await start(StandIn())
    yield running
    await running.server.stop(None)


@pytest.fixture
def stand_in(running: Running) -> StandIn:
    return running.servicer


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
async def connect(running: Running, clock: SteppedClock) -> AsyncIterator[Callable[..., Kedge]]:
    """Make clients of the stand-in; ids count up, jitter is seeded, the deadline is long unless a test shortens it."""
    opened: list[Kedge] = []
    numbers = count(1)

    def make(
        *,
        address: str | list[str] = running.address,
        decide_deadline_s: float = 10.0,
        queue_capacity: int = 10_000,
        listener: Listener | None = None,
        clock: SteppedClock = clock,
    ) -> Kedge:
        client = Kedge(
            address,
            key="kdg_secret",
            tenant="acme",
            baselines={"support": BASELINE},
            decide_deadline_s=decide_deadline_s,
            call_deadline_s=10.0,
            queue_capacity=queue_capacity,
            listener=listener,
            clock=clock,
            random=Random(7),
            new_id=lambda: f"id-{next(numbers)}",
        )
        opened.append(client)
        return client

    yield make
    for client in opened:
        await client.close(timeout_s=0.0)


@pytest.fixture
def kedge(connect: Callable[..., Kedge]) -> Kedge:
    return connect()


@pytest.fixture
async def fixed(clock: SteppedClock) -> AsyncIterator[FixedKedge]:
    async with FixedKedge({"support": BASELINE}, serves={"support": SERVED}, tenant="acme", clock=clock) as fixed:
        yield fixed
