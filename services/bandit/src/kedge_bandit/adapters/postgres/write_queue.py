"""Hold the rows whose senders wait for the commit: bounded in rows and in bytes, with a turn for every tenant."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from kedge_bandit.adapters.postgres.rows import REJECTED, Row
from kedge_bandit.domain.decision import Decision
from kedge_bandit.domain.errors import StoreUnavailable, TenantDenied
from kedge_bandit.domain.identifiers import TenantId


@dataclass(slots=True)
class Waiting:
    """Rows of one sender.

    Attributes:
        decisions: rebuilt from tokens, written before the rows.
        answer: gets the statuses in the order of the rows.
        size: bytes of the rows.
    """

    tenant: TenantId
    rows: Sequence[Row]
    decisions: Sequence[Decision]
    answer: "asyncio.Future[list[str]]" = field(repr=False)
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = sum(row.size for row in self.rows)


class WriteQueue:
    """Keep what waits, first in, first out within a tenant; tenants take turns.

    Args:
        rows, size: rows and bytes that may be held, those on their way to the database included. One tenant may hold
            half of each, so that a flood of one leaves room for the others.
    """

    def __init__(self, *, rows: int, size: int) -> None:
        self._limits = (rows, size)
        self._lines: OrderedDict[TenantId, deque[Waiting]] = OrderedDict()
        self._held: dict[TenantId, tuple[int, int]] = {}
        self.rows = 0
        self.size = 0
        self.senders = 0

    def put(self, waiting: Waiting) -> bool:
        """Take rows in; False, and nothing taken, where they would exceed a limit."""
        rows, size = len(waiting.rows), waiting.size
        own_rows, own_size = self._held.get(waiting.tenant, (0, 0))
        most_rows, most_size = self._limits
        if self.rows + rows > most_rows or self.size + size > most_size:
            return False
        if own_rows and (own_rows + rows > most_rows // 2 or own_size + size > most_size // 2):
            return False
        self._held[waiting.tenant] = (own_rows + rows, own_size + size)
        self.rows += rows
        self.size += size
        self.senders += 1
        self._lines.setdefault(waiting.tenant, deque()).append(waiting)
        return True

    def take(self, *, rows: int, size: int) -> list[Waiting]:
        """Hand out a batch of about so many rows and bytes, one sender of each tenant in turn, at least one sender.

        What no longer fits keeps its place at the front and does not hold up the others.
        """
        taken: list[Waiting] = []
        turns = deque(self._lines)
        while turns and (not taken or (rows > 0 and size > 0)):
            tenant = turns.popleft()
            line = self._lines[tenant]
            count = len(line[0].rows) + len(line[0].decisions)
            if taken and (count > rows or line[0].size > size):
                continue
            waiting = line.popleft()
            taken.append(waiting)
            rows -= count
            size -= waiting.size
            if line:
                self._lines.move_to_end(tenant)
                turns.append(tenant)
            else:
                del self._lines[tenant]
        self.senders -= len(taken)
        return taken

    def release(self, waiting: Waiting) -> None:
        """Give the room of rows back that were written or refused."""
        rows, size = self._held[waiting.tenant]
        rows, size = rows - len(waiting.rows), size - waiting.size
        if rows:
            self._held[waiting.tenant] = (rows, size)
        else:
            del self._held[waiting.tenant]
        self.rows -= len(waiting.rows)
        self.size -= waiting.size


def single_rows(waiting: list[Waiting]) -> list[Waiting]:
    """Give every row a future of its own; the sender's is answered when all of its rows are."""
    singles: list[Waiting] = []
    for item in waiting:
        if len(item.rows) == 1:
            singles.append(item)
            continue
        parts = [
            Waiting(item.tenant, [row], item.decisions if i == 0 else [], asyncio.get_running_loop().create_future())
            for i, row in enumerate(item.rows)
        ]
        gathered = asyncio.gather(*(part.answer for part in parts), return_exceptions=True)
        gathered.add_done_callback(partial(_answer_all, item))
        singles.extend(parts)
    return singles


def _answer_all(item: Waiting, gathered: "asyncio.Future[list[list[str] | BaseException]]") -> None:
    if item.answer.done():
        return
    results = gathered.result()
    lost = next((result for result in results if isinstance(result, StoreUnavailable | TenantDenied)), None)
    if lost is not None:
        item.answer.set_exception(lost)
        return
    item.answer.set_result([REJECTED if isinstance(result, BaseException) else result[0] for result in results])
