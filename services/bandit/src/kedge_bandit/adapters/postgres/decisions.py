"""Read decisions, allocations and episodes of one tenant."""

from collections.abc import AsyncIterator, Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row, and_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from kedge_bandit.adapters.postgres import learning_tables, tables
from kedge_bandit.application.ports import EpisodeRecord, LoggedDecision
from kedge_bandit.domain.context import Context
from kedge_bandit.domain.decision import Decision, Reason, SetAside
from kedge_bandit.domain.errors import DecisionNotFound, EpisodeNotFound
from kedge_bandit.domain.identifiers import DecisionId, EpisodeId, PolicyName, TenantId
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.published import COLD, Allocation

_PAGE = 2_000

EPISODE = (
    select(learning_tables.episode, learning_tables.evidence)
    .select_from(
        learning_tables.episode.outerjoin(
            learning_tables.evidence,
            and_(
                learning_tables.evidence.c.policy == learning_tables.episode.c.policy,
                learning_tables.evidence.c.episode_id == learning_tables.episode.c.episode_id,
                learning_tables.evidence.c.evidence_sequence == learning_tables.episode.c.evidence_sequence,
            ),
        )
    )
    .with_only_columns(
        learning_tables.episode.c.policy,
        learning_tables.episode.c.episode_id,
        learning_tables.episode.c.open_time,
        learning_tables.episode.c.decision_id,
        learning_tables.episode.c.facts["chosen"]["action"].astext.label("action"),
        learning_tables.episode.c.state,
        learning_tables.episode.c.quarantined,
        learning_tables.episode.c.reward_version,
        learning_tables.episode.c.evidence_sequence,
        learning_tables.evidence.c.reward,
        learning_tables.evidence.c.weight,
        learning_tables.evidence.c.weight_reason,
        learning_tables.evidence.c.vetoed,
        learning_tables.evidence.c.verdict,
        learning_tables.evidence.c.settle_time,
        learning_tables.evidence.c.policy_time,
        learning_tables.evidence.c.bucket,
    )
)
"""The newest evidence of an episode tells its verdict; the episode row alone tells its state."""


class PostgresDecisions:
    """Reads of the open ledger."""

    def __init__(self, tenant: TenantId, connection: AsyncConnection) -> None:
        self._tenant = tenant
        self._connection = connection

    async def get(self, decision_id: DecisionId) -> Decision:
        """Read a decision."""
        found = (
            await self._connection.execute(select(tables.decision).where(tables.decision.c.decision_id == decision_id))
        ).one_or_none()
        if found is None:
            raise DecisionNotFound(f"decision {decision_id} is not recorded in this tenant: check its name")
        return self._decision(found)

    async def find(self, decision_ids: Collection[DecisionId]) -> dict[DecisionId, Decision]:
        """Read those of these decisions that are recorded."""
        wanted = select(tables.decision).where(tables.decision.c.decision_id.in_(decision_ids))
        found = [self._decision(row) for row in await self._connection.execute(wanted)]
        return {decision.decision_id: decision for decision in found}

    async def first_of_episode(self, policy: PolicyName, episode_id: EpisodeId) -> Decision | None:
        """Read the decision that stands for an episode."""
        key, row = tables.decision_key.c, tables.decision.c
        statement = (
            select(tables.decision)
            .join(
                tables.decision_key,
                and_(row.decision_id == key.decision_id, row.decision_time == key.decision_time),
            )
            .where(key.policy == policy, key.episode_id == episode_id)
        )
        found = (await self._connection.execute(statement)).one_or_none()
        return None if found is None else self._decision(found)

    async def allocation(self, policy: PolicyName, version: int) -> Allocation:
        """Read one published allocation."""
        row = learning_tables.allocation.c
        statement = select(learning_tables.allocation).where(row.policy == policy, row.allocation_version == version)
        return allocation_of((await self._connection.execute(statement)).one())

    async def published(self, policy: PolicyName, versions: Collection[int]) -> Sequence[Allocation]:
        """Read those of these allocations that exist."""
        row = learning_tables.allocation.c
        wanted = select(learning_tables.allocation).where(row.policy == policy, row.allocation_version.in_(versions))
        return [allocation_of(found) for found in await self._connection.execute(wanted)]

    async def replaced_time(self, allocation: Allocation, bucket: str) -> datetime | None:
        """Read when another allocation took its place in a bucket; None while none has."""
        row = learning_tables.allocation.c
        is_cold = allocation.bucket == COLD != bucket
        times = []
        places = {bucket: 0 if is_cold else allocation.version, allocation.bucket: allocation.version}
        for name, after in places.items():
            wanted = (
                select(row.publish_time)
                .where(row.policy == allocation.policy, row.bucket == name, row.allocation_version > after)
                .order_by(row.allocation_version)
                .limit(1)
            )
            times.append((await self._connection.execute(wanted)).scalar_one_or_none())
        return min((time for time in times if time is not None), default=None)

    async def episode(self, policy: PolicyName, episode_id: EpisodeId) -> EpisodeRecord:
        """Read an episode."""
        row = learning_tables.episode.c
        found = (
            await self._connection.execute(EPISODE.where(row.policy == policy, row.episode_id == episode_id))
        ).one_or_none()
        if found is None:
            raise EpisodeNotFound(f"episode {episode_id[:80]!r} was not logged for this policy, or is not folded yet")
        return episode_of(found)

    async def export(
        self, policy: PolicyName, *, start: datetime | None, end: datetime | None
    ) -> AsyncIterator[LoggedDecision]:
        """Read the decision log in the order of time, page by page."""
        row = tables.decision.c
        where = [row.policy == policy]
        if start is not None:
            where.append(row.decision_time >= start)
        if end is not None:
            where.append(row.decision_time < end)
        last: DecisionId | None = None
        while True:
            # Decision ids are UUIDv7, so their order is that of time, and it is the primary key's.
            after = [] if last is None else [row.decision_id > last]
            statement = select(tables.decision).where(*where, *after).order_by(row.decision_id).limit(_PAGE)
            page = [self._decision(found) for found in await self._connection.execute(statement)]
            episodes = await self._episodes(policy, [decision.episode_id for decision in page])
            for decision in page:
                episode = episodes.get(decision.episode_id)
                stands = episode is not None and episode.decision_id in (None, decision.decision_id)
                yield LoggedDecision(decision, None, episode if stands else None)
            if len(page) < _PAGE:
                return
            last = page[-1].decision_id

    async def _episodes(self, policy: PolicyName, ids: Sequence[EpisodeId]) -> dict[EpisodeId, EpisodeRecord]:
        row = learning_tables.episode.c
        statement = EPISODE.where(row.policy == policy, row.episode_id.in_(ids))
        return {EpisodeId(found.episode_id): episode_of(found) for found in await self._connection.execute(statement)}

    async def allocations(self, policy: PolicyName) -> AsyncIterator[Allocation]:
        """Read every published allocation of a policy in order of version."""
        row = learning_tables.allocation.c
        last = 0
        while True:
            statement = (
                select(learning_tables.allocation)
                .where(row.policy == policy, row.allocation_version > last)
                .order_by(row.allocation_version)
                .limit(_PAGE)
            )
            page = [allocation_of(found) for found in await self._connection.execute(statement)]
            for allocation in page:
                yield allocation
            if len(page) < _PAGE:
                return
            last = page[-1].version

    def _decision(self, row: Row[Any]) -> Decision:
        context = row.context
        return Decision(
            decision_id=DecisionId(str(row.decision_id)),
            tenant=self._tenant,
            policy=PolicyName(row.policy),
            episode_id=EpisodeId(row.episode_id),
            request_id=row.request_id,
            time=row.decision_time,
            context=None if context is None else Context(context["categories"], context["numbers"]),
            bucket=row.bucket,
            available=None if row.available is None else tuple(row.available),
            action=row.action,
            propensity=row.propensity,
            policy_version=row.policy_version,
            allocation_version=row.allocation_version,
            seed_epoch=row.seed_epoch,
            mode=Mode(row.mode),
            reason=Reason(row.reason),
            is_randomised=row.is_randomised,
            judge_requested=row.judge_requested,
            judge_rate=row.judge_rate,
            shadow_action=row.shadow_action,
            superseded=row.superseded,
            is_local=row.is_local,
            set_aside=None if row.set_aside is None else SetAside(row.set_aside),
        )


def allocation_of(row: Any) -> Allocation:
    """Read an allocation's row, or whatever else has its columns as attributes."""
    return Allocation(
        policy=PolicyName(row.policy),
        bucket=row.bucket,
        version=row.allocation_version,
        policy_version=row.policy_version,
        configuration_version=row.configuration_version,
        seed_epoch=row.seed_epoch,
        as_of=row.as_of,
        evidence_sequence=row.evidence_sequence,
        evidence_hash=row.evidence_hash,
        actions=tuple(row.actions),
        baseline=row.baseline,
        floor=row.floor,
        uniform_slice=row.uniform_slice,
        caps=None if row.caps is None else tuple(row.caps),
        q=tuple(row.q),
        p=tuple(row.p),
        mean=tuple(row.mean),
        eligible=tuple(row.eligible),
        closed=None if row.closed is None else Reason(row.closed),
        non_baseline_decisions=row.non_baseline_decisions,
        non_baseline_cost_usd=row.non_baseline_cost_usd,
        publish_time=row.publish_time,
    )


def episode_of(row: Any) -> EpisodeRecord:
    """Read a row of `EPISODE`."""
    verdict = row.verdict or {}
    return EpisodeRecord(
        policy=PolicyName(row.policy),
        episode_id=EpisodeId(row.episode_id),
        open_time=row.open_time,
        decision_id=None if row.decision_id is None else DecisionId(str(row.decision_id)),
        action=row.action or "",
        state=row.state,
        quarantined=row.quarantined,
        reward=row.reward,
        weight=row.weight or 0.0,
        weight_reason=row.weight_reason or "",
        veto_reasons=tuple(verdict.get("veto_reasons", ())),
        reward_version=row.reward_version,
        components=dict(verdict.get("components", {})),
        signals=dict(verdict.get("signals", {})),
        settle_time=row.settle_time,
        policy_time=row.policy_time,
        evidence_sequence=row.evidence_sequence,
        evidence_bucket=row.bucket or "",
    )
