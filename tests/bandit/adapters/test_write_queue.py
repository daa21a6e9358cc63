"""The queue before the group commit: bounds and turns, without a database."""

import asyncio
from collections.abc import Iterator

import pytest

from kedge_bandit.adapters.postgres.rows import Row
from kedge_bandit.adapters.postgres.write_queue import Waiting, WriteQueue
from kedge_bandit.domain.identifiers import TenantId

FLOOD, OTHER = TenantId("flood"), TenantId("other")


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def sender(loop: asyncio.AbstractEventLoop, tenant: TenantId, rows: int = 1, *, size: int = 10) -> Waiting:
    made = [Row("outcomes", f"{tenant}-{number}", encoded=b" " * size) for number in range(rows)]
    return Waiting(tenant, made, (), loop.create_future())


def test_what_comes_first_of_a_tenant_leaves_first(loop: asyncio.AbstractEventLoop) -> None:
    queue = WriteQueue(rows=100, size=10_000)
    sent = [sender(loop, FLOOD) for _ in range(5)]
    assert all(queue.put(waiting) for waiting in sent)
    assert [*queue.take(rows=2, size=10_000), *queue.take(rows=100, size=10_000)] == sent


def test_a_flood_of_one_tenant_does_not_hold_up_another(loop: asyncio.AbstractEventLoop) -> None:
    queue = WriteQueue(rows=10_000, size=1_000_000)
    for _ in range(10):
        queue.put(sender(loop, FLOOD, 500))
    others = [sender(loop, OTHER) for _ in range(300)]
    for waiting in others:
        queue.put(waiting)
    batch = queue.take(rows=1_000, size=1_000_000)
    assert [waiting for waiting in batch if waiting.tenant == OTHER] == others
    assert sum(len(waiting.rows) for waiting in batch) <= 1_000


def test_one_tenant_may_hold_half_and_all_of_them_the_whole(loop: asyncio.AbstractEventLoop) -> None:
    queue = WriteQueue(rows=10, size=1_000)
    assert [queue.put(sender(loop, FLOOD)) for _ in range(6)] == [True] * 5 + [False]
    assert queue.put(sender(loop, OTHER, 5))
    assert not queue.put(sender(loop, TenantId("third")))


def test_bytes_are_bounded_like_rows(loop: asyncio.AbstractEventLoop) -> None:
    queue = WriteQueue(rows=1_000, size=1_000)
    assert [queue.put(sender(loop, FLOOD, size=200)) for _ in range(3)] == [True, True, False]
    assert queue.put(sender(loop, OTHER, size=600))
    assert not queue.put(sender(loop, TenantId("third"), size=10))


def test_a_batch_is_bounded_in_bytes_but_never_empty(loop: asyncio.AbstractEventLoop) -> None:
    queue = WriteQueue(rows=100, size=100_000)
    for _ in range(3):
        queue.put(sender(loop, FLOOD, size=5_000))
    assert [len(queue.take(rows=100, size=1_000)) for _ in range(4)] == [1, 1, 1, 0]


def test_room_is_given_back_once_rows_are_written(loop: asyncio.AbstractEventLoop) -> None:
    queue = WriteQueue(rows=2, size=100)
    queue.put(sender(loop, FLOOD))
    assert not queue.put(sender(loop, FLOOD))
    (taken,) = queue.take(rows=10, size=100)
    assert not queue.put(sender(loop, FLOOD)), "rows on their way to the database count"
    queue.release(taken)
    assert (queue.rows, queue.size, queue.senders) == (0, 0, 0)
    assert queue.put(sender(loop, FLOOD))
