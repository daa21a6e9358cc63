"""Reports that read much wait for each other, a tenant for itself first, and let others go on between their rows."""

import asyncio
from collections.abc import AsyncIterator

from kedge_bandit.application.take_turns import AT_ONCE, TakeTurns, giving_way
from kedge_bandit.domain.identifiers import TenantId


class Reports:
    """Reports that last until they are let go; notes which of them began."""

    def __init__(self) -> None:
        self.turns, self.done = TakeTurns(), asyncio.Event()
        self.begun: list[str] = []

    async def report(self, tenant: str) -> None:
        async with self.turns.turn(TenantId(tenant)):
            self.begun.append(tenant)
            await self.done.wait()


async def settled() -> None:
    """Let every task go as far as it can without anything from outside."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_who_asks_often_waits_for_itself_and_leaves_a_place_to_others() -> None:
    reports = Reports()
    async with asyncio.TaskGroup() as group:
        for tenant in [*["greedy"] * 5, "other"]:
            group.create_task(reports.report(tenant))
        await settled()
        assert reports.begun == ["greedy", "other"]
        reports.done.set()
    assert sorted(reports.begun) == [*["greedy"] * 5, "other"]


async def test_no_more_than_a_few_are_computed_at_a_time_and_one_that_fails_ends_its_turn() -> None:
    reports = Reports()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(reports.report(f"t-{n}")) for n in range(AT_ONCE + 2)]
        await settled()
        assert len(reports.begun) == AT_ONCE
        tasks[0].cancel()
        await settled()
        assert len(reports.begun) == AT_ONCE + 1
        reports.done.set()
    assert not reports.turns.tenants


async def test_others_go_on_between_the_rows_of_one_page() -> None:
    async def page() -> AsyncIterator[int]:
        for row in range(1_000):
            yield row

    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(tick())
    assert [row async for row in giving_way(page())] == list(range(1_000))
    other.cancel()
    assert ticks >= 9
