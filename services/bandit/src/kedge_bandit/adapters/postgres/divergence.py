"""Keep the divergence checks of one tenant, and when its policies are checked, in the open transaction."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic import TypeAdapter
from sqlalchemy import Row, Select, and_, func, insert, or_, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from kedge_bandit.adapters.postgres import watch_tables as tables
from kedge_bandit.adapters.postgres.divergence_reads import COMPARED, LOG_END, QUANTITIES
from kedge_bandit.adapters.postgres.ramp_reads import SUMS
from kedge_bandit.domain.divergence import Lift, Reading
from kedge_bandit.domain.divergence_check import DivergenceCheck, HoldoutSide, OnlineSide, Outcome, Watch
from kedge_bandit.domain.identifiers import PolicyName
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.ramp_metrics import Moments

_READINGS: Final = TypeAdapter(dict[str, Reading])
_C, _W = tables.divergence_check.c, tables.divergence_watch.c


class PostgresDivergences:
    """The checks of the open ledger; all but adding one is the tenant's own role's."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def watch(self, policy: PolicyName) -> Watch | None:
        """Read how a policy is checked."""
        asked = select(tables.divergence_watch).where(_W.policy == policy)
        found = (await self._connection.execute(asked)).one_or_none()
        return None if found is None else _watch(found)

    async def watched(self) -> Sequence[Watch]:
        """Read how all policies are."""
        rows = await self._connection.execute(select(tables.divergence_watch).order_by(_W.policy))
        return [_watch(row) for row in rows]

    async def begin(self, policy: PolicyName, at: datetime) -> None:
        """Check a policy from now on."""
        begun = upsert(tables.divergence_watch).values(policy=policy, watch_time=at, due_time=at)
        await self._connection.execute(begun.on_conflict_do_nothing())

    async def ask(self, policy: PolicyName, actor: str, at: datetime) -> bool:
        """Want a check at once."""
        return await self._changed(policy, due_time=at, asked_by=actor)

    async def put_off(self, policy: PolicyName, due: datetime) -> None:
        """Look again later, unless somebody asked meanwhile."""
        moved = update(tables.divergence_watch).where(_W.policy == policy, _W.asked_by == "").values(due_time=due)
        await self._connection.execute(moved)

    async def claim(self, policy: PolicyName, at: datetime, lease: timedelta) -> bool:
        """Make the check that is due; the row is this process's until the transaction ends, the check's until then."""
        free = and_(_W.policy == policy, or_(_W.lease_until.is_(None), _W.lease_until <= at))
        until = at + lease
        taken = update(tables.divergence_watch).where(free).values(lease_until=until, due_time=until, asked_by="")
        return (await self._connection.execute(taken.returning(_W.policy))).one_or_none() is not None

    async def release(self, policy: PolicyName, due: datetime, *, sees: bool) -> None:
        """End one's claim."""
        values = {"lease_until": None, "due_time": func.least(_W.due_time, due)} | ({"blind": 0} if sees else {})
        await self._changed(policy, **values)

    async def be_blind(self, policy: PolicyName, blind: int) -> bool:
        """Say how far blindness went; False where that is known already."""
        fresh = and_(_W.policy == policy, _W.blind < blind)
        said = update(tables.divergence_watch).where(fresh).values(blind=blind).returning(_W.policy)
        return (await self._connection.execute(said)).one_or_none() is not None

    async def newest(self, policy: PolicyName, *, succeeded: bool = False) -> DivergenceCheck | None:
        """Read the newest check, or the newest that succeeded."""
        asked = _ALL.where(_C.policy == policy).order_by(_C.check_id.desc()).limit(1)
        if succeeded:
            asked = asked.where(_C.outcome != Outcome.FAILED.value)
        found = (await self._connection.execute(asked)).one_or_none()
        return None if found is None else _check(found)

    async def list(self, policy: PolicyName, *, before: int | None, limit: int) -> Sequence[DivergenceCheck]:
        """Read checks newest first."""
        asked = _ALL.where(_C.policy == policy).order_by(_C.check_id.desc()).limit(limit)
        if before is not None:
            asked = asked.where(_C.check_id < before)
        return [_check(row) for row in await self._connection.execute(asked)]

    async def spent(self, policy: PolicyName, since: datetime) -> float:
        """Add up what checks cost since a time."""
        asked = select(func.coalesce(func.sum(_C.cost_usd), 0.0)).where(_C.policy == policy, _C.check_time >= since)
        return float((await self._connection.execute(asked)).scalar_one())

    async def online(self, policy: Policy, after: int) -> OnlineSide:
        """Measure what was learned from since a place in the evidence log."""
        through = int((await self._connection.execute(LOG_END)).scalar_one())
        values = {"policy": policy.name, "baseline": policy.spec.baseline_key, "after": after}
        rows = {row.is_learned: row for row in await self._connection.execute(COMPARED, values)}
        learned, baseline = rows.get(True), rows.get(False)
        return OnlineSide(
            learned_episodes=0 if learned is None else learned.episodes,
            baseline_episodes=0 if baseline is None else baseline.episodes,
            through=through,
            measured={name: (_moments(learned, name), _moments(baseline, name)) for name in QUANTITIES},
        )

    async def add(self, check: DivergenceCheck) -> None:
        """Add a check, which the gate's login may and no other."""
        await self._connection.execute(insert(tables.divergence_check).values(_values(check)))

    async def _changed(self, policy: PolicyName, **values: object) -> bool:
        changed = update(tables.divergence_watch).where(_W.policy == policy).values(**values).returning(_W.policy)
        return (await self._connection.execute(changed)).one_or_none() is not None


_ALL: Final[Select[Any]] = select(tables.divergence_check)


def _watch(row: Row[Any]) -> Watch:
    return Watch(
        policy=PolicyName(row.policy),
        since=row.watch_time,
        due=row.due_time,
        asked_by=row.asked_by,
        lease_until=row.lease_until,
        blind=row.blind,
    )


def _moments(row: Row[Any] | None, name: str) -> Moments:
    return Moments() if row is None else Moments(*(getattr(row, f"{name}_{label}") for label in SUMS))


def _values(check: DivergenceCheck) -> Mapping[str, object]:
    online, holdout = check.online, check.holdout
    return {
        "policy": check.policy,
        "begin_time": check.begin_time,
        "check_time": check.check_time,
        "policy_time": check.policy_time,
        "outcome": check.outcome.value,
        "because": check.because,
        "actor": check.actor,
        "reward_lift": None if check.reward is None else check.reward.value,
        "reward_error": None if check.reward is None else check.reward.error,
        "learned_episodes": online.learned_episodes,
        "baseline_episodes": online.baseline_episodes,
        "through": online.through,
        "holdout_lift": None if holdout.lift is None else holdout.lift.value,
        "holdout_error": None if holdout.lift is None else holdout.lift.error,
        "spread": holdout.spread,
        "judged": list(holdout.judged),
        "holdout_version": holdout.version,
        "pool": holdout.pool,
        "cases": holdout.cases,
        "answers": holdout.answers,
        "cost_usd": holdout.cost_usd,
        "readings": _READINGS.dump_python(dict(check.readings), mode="json"),
        "incident_id": check.incident or None,
    }


def _check(row: Row[Any]) -> DivergenceCheck:
    return DivergenceCheck(
        number=row.check_id,
        policy=PolicyName(row.policy),
        begin_time=row.begin_time,
        check_time=row.check_time,
        policy_time=row.policy_time,
        outcome=Outcome(row.outcome),
        because=row.because,
        actor=row.actor,
        reward=_lift(row.reward_lift, row.reward_error),
        online=OnlineSide(
            learned_episodes=row.learned_episodes, baseline_episodes=row.baseline_episodes, through=row.through
        ),
        holdout=HoldoutSide(
            version=row.holdout_version,
            pool=row.pool,
            cases=row.cases,
            answers=row.answers,
            cost_usd=row.cost_usd,
            lift=_lift(row.holdout_lift, row.holdout_error),
            spread=row.spread or 0.0,
            judged=tuple(row.judged),
        ),
        readings=_READINGS.validate_python(row.readings),
        incident=row.incident_id or 0,
    )


def _lift(value: float | None, error: float | None) -> Lift | None:
    return None if value is None or error is None else Lift(value, error)
