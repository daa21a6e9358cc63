"""Write raw rows in group commits: one SQL function call for whatever has gathered while the last one ran.

One connection, one batch at a time, so rows are committed in the order in which they were handed over. Acknowledgements
are given after the commit. A batch that the database refuses is split in halves until the bad row stands alone, and
that row alone is refused. Tenants take turns in a batch, and none may fill the queue.
"""

import asyncio
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import psycopg
import structlog

from kedge_bandit.adapters.postgres.rows import (
    RECORDED,
    Batch,
    Row,
    decision_row,
    event_row,
    outcome_row,
    waiting_decision,
)
from kedge_bandit.adapters.postgres.write_queue import Waiting, WriteQueue, single_rows
from kedge_bandit.application.ports import EpisodeEvent, OutcomeEvent
from kedge_bandit.domain.decision import Decision
from kedge_bandit.domain.errors import InvalidValue, QueueFull, StoreUnavailable, TenantDenied
from kedge_bandit.domain.identifiers import TenantId

_CALL = "SELECT control.write_batch(%s::jsonb)"
_RETRY_SECONDS = 0.1
_KNOWN_DECISIONS = 100_000
_RATE_SECONDS = 0.05
"""Over which the rate of senders is averaged."""
_WORTH_A_PAUSE = 4
"""Senders that must be expected within the pace."""
_QUIET_SECONDS = 0.002
"""Without a new sender for so long, all who could have come are here."""

log = structlog.get_logger(__name__)


class GroupWriter:
    """Gather rows, write them, acknowledge them.

    Args:
        connect: opens an autocommit connection of the service's login.
        capacity: rows whose senders may wait, and as many decisions nobody waits for; beyond it writes are pushed back,
            and decisions dropped (their tokens rebuild them). One tenant may have half of either.
        capacity_bytes: bytes of the former, likewise.
        linger: seconds that decisions nobody waits for may gather before they are written; a commit costs about as
            much CPU as five decisions however few rows it has.
        pace: most seconds from the begin of a commit to the begin of the next while many senders come. A commit costs
            as much for one row as for ten, and on a fast disk each row would become a commit of its own.
        batch_rows, batch_bytes: of one commit, about.
        patience: seconds for one commit. A connection that is open and carries nothing any more is given up then; its
            senders are told, and a commit that went through all the same makes what they repeat duplicates.
        dropped: called with the number of decisions that were dropped.
        committed: called after each commit with its rows and seconds.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[psycopg.AsyncConnection[tuple[Any, ...]]]],
        *,
        capacity: int = 50_000,
        capacity_bytes: int = 128 * 1024 * 1024,
        linger: float = 0.1,
        pace: float = 0.008,
        batch_rows: int = 1_000,
        batch_bytes: int = 8 * 1024 * 1024,
        patience: float = 10.0,
        dropped: Callable[[int], None] = lambda _count: None,
        committed: Callable[[int, float], None] = lambda _rows, _seconds: None,
    ) -> None:
        self._connect = connect
        self._capacity = capacity
        self._linger = linger
        self._pace = pace
        self._batch_rows = batch_rows
        self._batch_bytes = batch_bytes
        self._patience = patience
        self._dropped = dropped
        self._committed = committed
        self._decisions: list[Decision] = []
        self._unwritten = 0
        self._unwritten_of: Counter[TenantId] = Counter()
        self._queue = WriteQueue(rows=capacity, size=capacity_bytes)
        self._began = 0.0
        self._rate = 0.0
        self._wake = asyncio.Event()
        self._urgent = asyncio.Event()
        self._closing = False
        self._written: OrderedDict[str, None] = OrderedDict()
        self._connection: psycopg.AsyncConnection[tuple[Any, ...]] | None = None

    @property
    def queued(self) -> int:
        """Rows that wait, decisions included."""
        return self._queue.rows + self._unwritten

    def decision(self, decision: Decision) -> None:
        """Take a decision without waiting."""
        if self._unwritten >= self._capacity or self._unwritten_of[decision.tenant] >= self._capacity // 2:
            self._dropped(1)
            return
        self._unwritten += 1
        self._unwritten_of[decision.tenant] += 1
        self._decisions.append(decision)
        if len(self._decisions) == 1:
            self._wake.set()

    async def episode_event(self, tenant: TenantId, event: EpisodeEvent) -> str:
        """Write one episode event and wait for the commit."""
        (status,) = await self._wait(tenant, [event_row(event)], [event.decision])
        return status

    async def outcomes(self, tenant: TenantId, events: Sequence[OutcomeEvent]) -> Sequence[str]:
        """Write outcomes and wait for the commit; statuses in their order."""
        return await self._wait(tenant, [outcome_row(e) for e in events], [e.decision for e in events])

    async def decisions(self, tenant: TenantId, decisions: Sequence[Decision]) -> Sequence[str]:
        """Write decisions and wait for the commit; statuses in their order."""
        return await self._wait(tenant, [waiting_decision(decision) for decision in decisions], [])

    async def first_decision(self, decision: Decision) -> bool:
        """Write the first decision of an episode and wait for the commit; False where there is another."""
        (status,) = await self._wait(decision.tenant, [waiting_decision(decision, only_first=True)], [])
        return status == RECORDED

    async def _wait(self, tenant: TenantId, rows: list[Row], decisions: Sequence[Decision | None]) -> list[str]:
        if self._closing:
            raise StoreUnavailable("this replica is draining: send the same request again")
        unknown = {d.decision_id: d for d in decisions if d is not None and d.decision_id not in self._written}
        waiting = Waiting(tenant, rows, list(unknown.values()), asyncio.get_running_loop().create_future())
        if not self._queue.put(waiting):
            raise QueueFull(retry_seconds=_RETRY_SECONDS * 5)
        self._wake.set()
        self._urgent.set()
        return await waiting.answer

    async def run(self) -> None:
        """Write until `close` was called and everything that waits is written."""
        while True:
            await self._wake.wait()
            await self._gather()
            decisions, waiting = self._take()
            if decisions or waiting:
                await self._write(decisions, waiting)
            elif self._closing:
                break
        if self._connection is not None:
            await self._connection.close()

    async def close(self) -> None:
        """Let `run` end once everything is written."""
        self._closing = True
        self._wake.set()
        self._urgent.set()

    async def _gather(self) -> None:
        """Let more rows come: decisions alone for `linger`, those of many senders for `pace` or until it is quiet."""
        if self._closing:
            return
        if not self._queue.senders:
            self._urgent.clear()
            try:
                async with asyncio.timeout(self._linger):
                    await self._urgent.wait()
            except TimeoutError:
                return
        if self._rate * self._pace < _WORTH_A_PAUSE:
            return
        end = self._began + self._pace
        while (left := end - time.monotonic()) > 0 and self._queue.rows < self._batch_rows:
            senders = self._queue.senders
            await asyncio.sleep(min(left, _QUIET_SECONDS))
            if self._queue.senders == senders:
                return

    def _take(self) -> tuple[list[Decision], list[Waiting]]:
        """Take a batch; decisions leave half of it to senders who wait."""
        most = self._batch_rows // 2 if self._queue.senders else self._batch_rows
        decisions, self._decisions = self._decisions[:most], self._decisions[most:]
        waiting = self._queue.take(rows=self._batch_rows - len(decisions), size=self._batch_bytes)
        if not self._queue.senders and not self._decisions and not self._closing:
            self._wake.clear()
        now = time.monotonic()
        self._rate = self._rate * math.exp((self._began - now) / _RATE_SECONDS) + len(waiting) / _RATE_SECONDS
        self._began = now
        return decisions, waiting

    async def _write(self, decisions: list[Decision], waiting: list[Waiting]) -> None:
        try:
            await self._commit(decisions, waiting)
        except psycopg.DataError as error:
            await self._split(decisions, waiting, error)
            return
        except (psycopg.Error, OSError) as error:
            await self._failed(decisions, waiting, error)
            return
        self._release(decisions, waiting)

    def _release(self, decisions: list[Decision], waiting: list[Waiting]) -> None:
        self._give_back(decisions)
        for item in waiting:
            self._queue.release(item)

    def _give_back(self, decisions: list[Decision]) -> None:
        """Give the room of decisions back that were written, refused or dropped."""
        self._unwritten -= len(decisions)
        self._unwritten_of.subtract(decision.tenant for decision in decisions)
        if not self._unwritten:
            self._unwritten_of.clear()

    async def _commit(self, decisions: list[Decision], waiting: list[Waiting]) -> None:
        began = time.perf_counter()
        batch = Batch()
        for decision in decisions:
            batch.add_decision(decision.tenant, decision_row(decision))
        for item in waiting:
            for decision in item.decisions:
                batch.add_decision(item.tenant, decision_row(decision))
            for row in item.rows:
                batch.add(item.tenant, row)
        async with asyncio.timeout(self._patience):
            if self._connection is None or self._connection.closed:
                self._connection = await self._connect()
            cursor = await self._connection.execute(_CALL, (batch.json(),))
            record = await cursor.fetchone()
        answer = record[0] if record else {}
        batch.settle(answer)
        self._committed(len(decisions) + sum(len(item.rows) for item in waiting), time.perf_counter() - began)
        for item in waiting:
            if item.answer.done():
                continue
            if item.tenant in answer:
                item.answer.set_result([row.status for row in item.rows])
            else:
                item.answer.set_exception(TenantDenied())
        for decision_id in batch.decision_ids:
            self._written[decision_id] = None
        while len(self._written) > _KNOWN_DECISIONS:
            self._written.popitem(last=False)

    async def _split(self, decisions: list[Decision], waiting: list[Waiting], error: psycopg.DataError) -> None:
        """Halve a refused batch; a row that stands alone is refused by itself."""
        units: list[Decision | Waiting] = [*decisions, *single_rows(waiting)]
        if len(units) == 1:
            unit = units[0]
            log.warning("row.refused", sqlstate=error.sqlstate)
            self._release(*_parted(units))
            if isinstance(unit, Waiting) and not unit.answer.done():
                unit.answer.set_exception(
                    InvalidValue(
                        "a value", "not storable", "text without zero characters and times within year 1 to 9999"
                    )
                )
            return
        middle = len(units) // 2
        for half in (units[:middle], units[middle:]):
            await self._write(*_parted(half))

    async def _failed(self, decisions: list[Decision], waiting: list[Waiting], error: Exception) -> None:
        """Tell those who wait; keep the decisions, and try again on a new connection."""
        log.warning("write.failed", error=type(error).__name__)
        for item in waiting:
            self._queue.release(item)
            if not item.answer.done():
                item.answer.set_exception(StoreUnavailable("the database did not commit: send the same request again"))
        if self._connection is not None:
            await self._connection.close()
            self._connection = None
        if self._closing:
            self._give_back(decisions)
            self._dropped(len(decisions))
            return
        self._decisions[:0] = decisions
        if self._decisions:
            self._wake.set()
        await asyncio.sleep(_RETRY_SECONDS)


def _parted(units: Sequence[Decision | Waiting]) -> tuple[list[Decision], list[Waiting]]:
    return [u for u in units if not isinstance(u, Waiting)], [u for u in units if isinstance(u, Waiting)]
