"""Count what readiness asks of the open tenant; it changes nothing."""

from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Text, and_, bindparam, case, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from kedge_bandit.adapters.postgres import learning_tables, proposal_tables, tables
from kedge_bandit.adapters.postgres.learning import PostgresLearning
from kedge_bandit.domain.audit import KEDGE
from kedge_bandit.domain.change import subject_of
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.readiness import Settled, Stopped

NEWEST: Final = 20_000
"""Rows of evidence that are summed up."""
_STATED: Final = ("policy.created", "policy.configured")
_SIGNALS: Final = ("human", "judge", "task_success")

_ROW, _EPISODE = learning_tables.evidence.c, learning_tables.episode.c
_OUTCOME, _EVENT, _DECISION = tables.outcome.c, tables.audit_event.c, tables.decision.c
_policy = bindparam("policy", type_=Text)


def _settled() -> Any:
    newest = (
        select(_ROW.episode_id, _ROW.evidence_sequence, _ROW.reward, _ROW.vetoed, _ROW.settle_time, _ROW.verdict)
        .where(_ROW.policy == _policy)
        .order_by(_ROW.evidence_sequence.desc())
        .limit(NEWEST)
        .subquery()
    )
    row = newest.c
    has = {name: row.verdict["signals"].has_key(name) for name in _SIGNALS}
    scored = or_(row.reward.is_not(None), row.vetoed)
    return (
        select(
            func.count().label("episodes"),
            *(func.count(case((condition, 1))).label(name) for name, condition in has.items()),
            func.count(case((row.verdict["safety_verdict"].astext != "ABSENT", 1))).label("guarded"),
            func.max(case((has["human"], row.settle_time))).label("newest_human"),
            func.count(case((row.vetoed, 1))).label("vetoed"),
            func.count(case((_EPISODE.reward_version > 1, 1))).label("corrected"),
            func.min(row.reward).label("least"),
            func.max(row.reward).label("most"),
            func.max(case((row.vetoed, row.reward))).label("most_vetoed"),
        )
        .select_from(newest)
        .join(
            learning_tables.episode,
            and_(
                _EPISODE.policy == _policy,
                _EPISODE.episode_id == row.episode_id,
                _EPISODE.evidence_sequence == row.evidence_sequence,
            ),
        )
        .where(scored)
    )


_SETTLED: Final = _settled()


class PostgresReadiness:
    """Counts of the open ledger."""

    def __init__(self, tenant: TenantId, connection: AsyncConnection, learning: PostgresLearning) -> None:
        self._tenant = tenant
        self._connection = connection
        self._learning = learning

    async def settled(self, policy: PolicyName) -> Settled:
        """Sum up the newest evidence of a policy."""
        row = (await self._connection.execute(_SETTLED, {"policy": policy})).one()
        return Settled(
            episodes=row.episodes,
            signals={name: getattr(row, name) for name in (*_SIGNALS, "guarded")},
            newest_human=row.newest_human,
            vetoed=row.vetoed,
            corrected=row.corrected,
            least=row.least,
            most=row.most,
            most_vetoed=row.most_vetoed,
        )

    async def unaccounted(self, policy: PolicyName) -> int:
        """Count logged episodes that are not in exactly one state."""
        return await self._learning.unaccounted(policy)

    async def feedback(self, policy: PolicyName) -> int:
        """Count outcomes of people."""
        of_policy = or_(
            _OUTCOME.policy == policy,
            _OUTCOME.decision_id.in_(select(_DECISION.decision_id).where(_DECISION.policy == policy)),
        )
        wanted = select(func.count()).select_from(tables.outcome).where(_OUTCOME.signal == "HUMAN", of_policy)
        return int((await self._connection.execute(wanted)).scalar_one())

    async def preferences(self, policy: PolicyName) -> int:
        """Count pairs that people compared."""
        pair = proposal_tables.preference
        wanted = select(func.count()).select_from(pair).where(pair.c.policy == policy)
        return int((await self._connection.execute(wanted)).scalar_one())

    async def configured(self, policy: PolicyName) -> str:
        """Say who stated a policy's configuration last, when and why; empty where it was the service itself."""
        wanted = (
            select(_EVENT.actor, _EVENT.event_time, _EVENT.because)
            .where(_EVENT.subject == subject_of(self._tenant, policy), _EVENT.verb.in_(_STATED))
            .order_by(_EVENT.audit_sequence.desc())
            .limit(1)
        )
        found = (await self._connection.execute(wanted)).one_or_none()
        if found is None or found.actor == KEDGE.name:
            return ""
        return f"stated by {found.actor} on {found.event_time:%Y-%m-%d}: {found.because}"

    async def stopped(self, policy: PolicyName, start: datetime, end: datetime | None) -> Stopped:
        """Count what was served from a freeze until it ended."""
        where = [_DECISION.policy == policy, _DECISION.decision_time >= start, ~_DECISION.superseded]
        if end is not None:
            where.append(_DECISION.decision_time < end)
        is_drawn = _DECISION.reason == "DRAWN"
        wanted = select(
            func.count(case((is_drawn, 1))).label("drawn"),
            func.max(case((is_drawn, _DECISION.decision_time))).label("latest"),
            func.count(case((_DECISION.reason.in_(("FROZEN", "BYPASS")), 1))).label("frozen"),
        ).where(*where)
        row = (await self._connection.execute(wanted)).one()
        after = timedelta(0) if row.latest is None else row.latest - start
        return Stopped(time=start, drawn=row.drawn, latest_drawn=after, frozen=row.frozen)
