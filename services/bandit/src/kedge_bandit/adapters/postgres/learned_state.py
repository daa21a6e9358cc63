"""Read what the worker has learned of one policy, for a status report."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
from sqlalchemy import Select, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from kedge_bandit.adapters.postgres import learning_tables, tables
from kedge_bandit.adapters.postgres.learning_rows import usage_of
from kedge_bandit.application.administration_ports import ActionTotals, CellSums, LearnedState
from kedge_bandit.domain.decision import Reason
from kedge_bandit.domain.identifiers import PolicyName
from kedge_bandit.domain.published import COLD
from kedge_bandit.domain.self_check import Finding, SelfCheck

_RATE_WINDOW: Final = timedelta(days=1)
LEAST_TRAFFIC: Final = timedelta(hours=1)
"""What is not known for longer says nothing about a half-life of days."""
_RAW: Final = (
    (tables.decision, tables.decision.c.decision_time),
    (tables.episode_event, tables.episode_event.c.receive_time),
    (tables.outcome, tables.outcome.c.receive_time),
)


async def read_learned_state(connection: AsyncConnection, name: PolicyName, *, with_cells: bool) -> LearnedState:
    """Read actions, cells, counts, holds and backlog of a policy of the open ledger."""
    reads = _Reads(connection, name)
    state = learning_tables.policy_state.c
    found = (await connection.execute(select(learning_tables.policy_state).where(state.policy == name))).one_or_none()
    usage = None if found is None else usage_of(found.usage)
    backlog, backlog_age = await reads.backlog()
    return LearnedState(
        allocation_version=0 if found is None else found.allocation_version,
        publish_time=await reads.newest_publish_time(),
        actions=await reads.actions(),
        cells=await reads.cells() if with_cells else (),
        self_check=None if found is None else finding_of(found.self_check),
        closed=None if found is None or found.closed is None else Reason(found.closed),
        usage=None if usage is None else usage.at(datetime.now(UTC).timestamp()),
        capped_until=None if found is None else found.capped_until,
        learning_held="" if found is None else found.learning_held or "",
        episode_counts=await reads.counts(),
        backlog=backlog,
        backlog_age=backlog_age,
        decisions_per_second=await reads.decisions_per_second(),
        buckets=await reads.buckets(),
    )


class _Reads:
    def __init__(self, connection: AsyncConnection, name: PolicyName) -> None:
        self._connection = connection
        self._name = name

    async def actions(self) -> tuple[ActionTotals, ...]:
        row = learning_tables.action_state.c
        rows = await self._connection.execute(
            select(learning_tables.action_state).where(row.policy == self._name).order_by(row.action)
        )
        return tuple(
            ActionTotals(
                action_key=found.action,
                episodes=found.episodes,
                reward_sum=found.reward_sum,
                veto_episodes=found.veto_episodes,
                vetoes=found.vetoes,
                over_cap=found.over_cap,
                is_ineligible=found.ineligible,
            )
            for found in rows
        )

    async def cells(self) -> tuple[CellSums, ...]:
        row = learning_tables.cell.c
        rows = await self._connection.execute(
            select(learning_tables.cell).where(row.policy == self._name).order_by(row.bucket, row.action)
        )
        return tuple(
            CellSums(bucket=found.bucket, action_key=found.action, n=found.n, s=found.s, s2=found.s2, as_of=found.as_of)
            for found in rows
        )

    async def counts(self) -> dict[str, int]:
        """Read the policy's counts, and those of the tenant as a whole, which stand under no policy."""
        row = learning_tables.episode_count.c
        rows = await self._connection.execute(select(row.name, row.count).where(row.policy.in_((self._name, ""))))
        return dict(sorted((name, count) for name, count in rows))

    async def newest_publish_time(self) -> Any:
        row = learning_tables.bucket_state.c
        return await self._one(select(func.max(row.publish_time)).where(row.policy == self._name))

    async def buckets(self) -> int:
        row = learning_tables.bucket_state.c
        named = (
            select(func.count())
            .select_from(learning_tables.bucket_state)
            .where(row.policy == self._name, row.bucket != COLD)
        )
        return int(await self._one(named))

    async def backlog(self) -> tuple[int, timedelta]:
        """Count raw rows that no fold has reached, also those of a running transaction; with the oldest's age."""
        folded = select(learning_tables.fold_state.c.x).scalar_subquery()
        total, ages = 0, [timedelta()]
        for table, time in _RAW:
            waiting = select(func.count(), func.now(), func.min(time)).where(table.c.x >= folded)
            count, now, oldest = (await self._connection.execute(waiting)).one()
            total += count
            if count:
                ages.append(now - oldest)
        return total, max(ages)

    async def decisions_per_second(self) -> float:
        """Give the rate over the last day; 0 while the first decision in it is not an hour old."""
        row = tables.decision.c
        since = func.now() - _RATE_WINDOW
        wanted = select(func.count(), func.min(row.decision_time), func.now()).where(
            row.policy == self._name, row.decision_time >= since
        )
        count, first, now = (await self._connection.execute(wanted)).one()
        if first is None or now - first < LEAST_TRAFFIC:
            return 0.0
        return float(count / (now - first).total_seconds())

    async def _one(self, wanted: Select[Any]) -> Any:
        return (await self._connection.execute(wanted)).scalar_one()


def finding_of(stored: Any) -> Finding | None:
    """Judge the sums that the worker stored, without using up a look."""
    if not stored or not stored.get("count"):
        return None
    check = SelfCheck(
        keys=tuple(stored["keys"]),
        count=stored["count"],
        expected=np.array(stored["expected"]),
        excess=np.array(stored["excess"]),
        variance=np.array(stored["variance"]),
        impossible=stored["impossible"],
        looks=stored["looks"],
    )
    return check.finding()
