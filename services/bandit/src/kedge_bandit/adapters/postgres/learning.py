"""Read and write the worker's record of one tenant, all in the open ledger's transaction.

Rows of whole transactions only: x is the number of the transaction that wrote a row, and everything below the oldest
running transaction is final. A plain sequence would skip rows that commit late.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, TypeVar

import structlog
from sqlalchemy import Row, Select, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from kedge_bandit.adapters.postgres import learning_reads as reads
from kedge_bandit.adapters.postgres import learning_rows as rows
from kedge_bandit.adapters.postgres import learning_save as saves
from kedge_bandit.adapters.postgres import tables
from kedge_bandit.adapters.postgres.usage_reads import COST_BESIDE, DECISIONS_BESIDE
from kedge_bandit.application.learned import Changes, EpisodeFile, EpisodeKey, LearnedRecord, OutcomeRow, Release
from kedge_bandit.application.learning_port import FoldPoint, FreshRows, PolicyHead
from kedge_bandit.domain.context import Context
from kedge_bandit.domain.dossier import Chosen
from kedge_bandit.domain.episode import EpisodeState
from kedge_bandit.domain.evidence_log import EvidenceEntry, EvidenceLog
from kedge_bandit.domain.identifiers import DecisionId, EpisodeId, PolicyName, TenantId
from kedge_bandit.domain.posterior import Evidence
from kedge_bandit.domain.usage import Usage

_IMPORT = "IMPORT"
_LAST = 2**62

T = TypeVar("T")
log = structlog.get_logger(__name__)


class PostgresLearning:
    """The worker's record of the open ledger."""

    def __init__(self, tenant: TenantId, connection: AsyncConnection) -> None:
        self._tenant = tenant
        self._connection = connection

    async def lock(self, *, wait: bool = False) -> FoldPoint | None:
        """Become the one writer until the transaction ends."""
        row = (await self._connection.execute(reads.LOCK_WAITING if wait else reads.LOCK)).one_or_none()
        if row is None:
            return None
        return FoldPoint(
            low=row.x,
            high=max(row.x, row.high),
            evidence_sequence=row.evidence_sequence,
            now=row.now,
            has_unmatched=row.has_unmatched,
            audit_sequence=row.audit_sequence,
            has_work=row.has_work or row.system_identifier != row.cluster,
            counted_before=row.counted_before,
            is_restored=row.system_identifier != row.cluster,
        )

    async def fresh_rows(self, point: FoldPoint, *, limit: int) -> FreshRows:
        """Read new raw rows of whole transactions.

        After a restore the rows that the new numbering would not reach for long are read first, however many; then
        everything is read again from the start, batch by batch. Dossiers know what they have seen, so nothing counts
        twice.
        """
        low, high, most = point.low, point.high, limit
        if point.is_restored:
            low, high, most = max(low, high), _LAST, _LAST
        outcomes, high = await self._fresh(reads.FRESH_OUTCOMES, low, high, most)
        events, high = await self._fresh(reads.FRESH_EVENTS, low, high, most)
        decisions, high = await self._fresh(reads.FRESH_DECISIONS, low, high, most)
        outcomes = [row for row in outcomes if row.x < high]
        events = [row for row in events if row.x < high]
        imported: dict[PolicyName, int] = {}
        for row in events:
            if row.kind == _IMPORT:
                imported[PolicyName(row.policy)] = imported.get(PolicyName(row.policy), 0) + 1
        read_events, bad_events = _readable([row for row in events if row.kind != _IMPORT], rows.event_row)
        read_outcomes, bad_outcomes = _readable(outcomes, rows.outcome_row)
        return FreshRows(
            decisions=[rows.decision_row(row) for row in decisions],
            events=read_events,
            outcomes=read_outcomes,
            high=0 if point.is_restored else high,
            is_truncated=point.is_restored or high < point.high,
            imported=imported,
            unreadable=bad_events + bad_outcomes,
            oldest_time=min((row.receive_time for row in [*events, *outcomes]), default=None),
        )

    async def _fresh(self, statement: Select[Any], low: int, high: int, limit: int) -> tuple[list[Row[Any]], int]:
        """Read rows in order of x, cut so that no transaction is taken in part; answers the new high."""
        found = list(await self._execute(statement, low=low, high=high, limit=limit + 1))
        if len(found) <= limit:
            return found, high
        cut = found[-1].x
        if found[0].x == cut:  # one transaction wrote more than a batch
            return list(await self._execute(statement, low=cut, high=cut + 1, limit=None)), cut + 1
        return [row for row in found if row.x < cut], cut

    async def heads(self) -> Sequence[PolicyHead]:
        """Read every policy's newest version."""
        found = await self._execute(reads.HEADS)
        return [PolicyHead(PolicyName(row.policy), row.policy_version, row.wants_attention) for row in found]

    async def learned(self, policies: Collection[PolicyName]) -> dict[PolicyName, LearnedRecord]:
        """Read what is kept of these policies."""
        records = {name: LearnedRecord() for name in policies}
        wanted = list(policies)
        for row in await self._execute(reads.CELLS, policies=wanted):
            records[PolicyName(row.policy)].cells[row.bucket, row.action] = Evidence(row.n, row.s, row.s2, row.as_of)
        for row in await self._execute(reads.ACTIONS, policies=wanted):
            records[PolicyName(row.policy)].actions[row.action] = rows.action_of(row)
        for row in await self._execute(reads.BUCKETS, policies=wanted):
            records[PolicyName(row.policy)].buckets[row.bucket] = rows.bucket_of(row)
        for row in await self._execute(reads.POLICIES, policies=wanted):
            records[PolicyName(row.policy)].policy = rows.policy_of(row)
        for row in await self._execute(reads.RELEASES, policies=wanted):
            release = Release(row.release_id, row.choice, row.release_time, row.done)
            records[PolicyName(row.policy)].releases += (release,)
        for row in await self._execute(reads.CHANGES, policies=wanted):
            records[PolicyName(row.policy)].changes += (rows.change_of(row),)
        for row in await self._execute(reads.MODELS, policies=wanted):
            models = records[PolicyName(row.policy)].models
            models[row.arm_id] = models.get(row.arm_id, frozenset()) | {row.model_id}
        return records

    async def files(self, keys: Collection[EpisodeKey]) -> dict[EpisodeKey, EpisodeFile]:
        """Read the episodes that exist."""
        found = [rows.file_of(row) for row in await self._execute(reads.FILES, **_arrays(keys))]
        return {file.key: file for file in found}

    async def due_files(self, now: datetime, *, limit: int) -> Sequence[EpisodeFile]:
        """Read episodes that are due."""
        return [rows.file_of(row) for row in await self._execute(reads.DUE_FILES, now=now, limit=limit)]

    async def quarantined_files(self, policy: PolicyName, *, limit: int) -> Sequence[EpisodeFile]:
        """Read quarantined episodes of a policy."""
        return [rows.file_of(row) for row in await self._execute(reads.QUARANTINED_FILES, policy=policy, limit=limit)]

    async def settled_files(
        self, policy: PolicyName, *, after: tuple[datetime, str], limit: int
    ) -> Sequence[EpisodeFile]:
        """Read settled episodes of a policy in order of open time and id, those after a place."""
        time, episode = after
        found = await self._execute(reads.SETTLED_FILES, policy=policy, time=time, episode=episode, limit=limit)
        return [rows.file_of(row) for row in found]

    async def contexts(self, decisions: Collection[DecisionId]) -> dict[DecisionId, Context]:
        """Read the contexts that decisions were made in, where they were stored."""
        found = await self._execute(reads.CONTEXTS, ids=list(decisions))
        return {
            DecisionId(row.decision_id): Context(row.context["categories"], row.context["numbers"]) for row in found
        }

    async def chosen(self, keys: Collection[EpisodeKey]) -> dict[EpisodeKey, Chosen]:
        """Read the decisions that stand for these episodes."""
        found = await self._execute(reads.CHOSEN, **_arrays(keys))
        return {EpisodeKey(PolicyName(r.policy), EpisodeId(r.episode_id)): rows.chosen_of(r) for r in found}

    async def episodes_of(self, decisions: Collection[DecisionId]) -> dict[DecisionId, EpisodeKey]:
        """Read which episodes decisions belong to."""
        found = await self._execute(reads.EPISODES_OF, ids=list(decisions))
        return {DecisionId(r.decision_id): EpisodeKey(PolicyName(r.policy), EpisodeId(r.episode_id)) for r in found}

    async def take_unmatched(self, decisions: Collection[DecisionId]) -> Sequence[OutcomeRow]:
        """Take the outcomes that waited for these decisions."""
        found = await self._connection.execute(reads.TAKE_UNMATCHED, {"ids": list(decisions)})
        return [rows.waiting_row(row) for row in found]

    async def entries(self, sequences: Collection[int]) -> dict[int, EvidenceEntry]:
        """Read rows of the evidence log."""
        found = [rows.entry_of(row) for row in await self._execute(reads.ENTRIES, sequences=list(sequences))]
        return {entry.sequence: entry for entry in found}

    async def evidence_log(self, policy: PolicyName, *, upto: int | None = None) -> EvidenceLog:
        """Read the evidence log of a policy, up to a sequence."""
        last = _LAST if upto is None else upto
        found = await self._execute(reads.CHANGES, policies=[policy])
        changes = [rows.change_of(row) for row in found if row.evidence_sequence <= last]
        return rows.evidence_log(await self._execute(reads.LOG, policy=policy, upto=last), changes)

    async def sample(self, policy: PolicyName, *, size: int) -> Sequence[DecisionId]:
        """Pick decisions of a policy at random."""
        return [DecisionId(row.decision_id) for row in await self._execute(reads.SAMPLE, policy=policy, limit=size)]

    async def unaccounted(self, policy: PolicyName) -> int:
        """Count logged episodes that are not in exactly one state."""
        actual: dict[str, int] = {row.state: row.number for row in await self._execute(reads.STATES, policy=policy)}
        counts: dict[str, int] = {row.name: row.number for row in await self._execute(reads.COUNTS, policy=policy)}
        (logged,) = await self._execute(reads.LOGGED, policy=policy)
        wrong = sum(abs(actual.get(state, 0) - counts.get(state, 0)) for state in EpisodeState)
        return wrong + abs(int(logged.number) - sum(actual.values()))

    async def usage(self, policy: PolicyName, baseline: str, *, before: int, now: datetime) -> Usage:
        """Count what was served beside the baseline, from the raw rows."""
        asked = {"policy": policy, "baseline": baseline, "before": before, "now": now}
        decisions = await self._execute(DECISIONS_BESIDE, **asked)
        cost = await self._execute(COST_BESIDE, **asked)
        return Usage(
            baseline=baseline,
            decisions=tuple((row.slot, row.number) for row in decisions),
            cost=tuple((row.slot, row.usd) for row in cost),
        )

    async def clear_hold(self, policy: PolicyName) -> None:
        """Let learning go on after an alarm of the self-check, which starts anew.

        As the one writer: a pass that runs meanwhile would write back what it read before.
        """
        await self._connection.execute(select(tables.fold_state.c.x).with_for_update())
        state = tables.policy_state
        cleared = update(state).where(state.c.policy == policy).values(learning_held=None, self_check=None)
        await self._connection.execute(cleared)

    async def save(self, changes: Changes) -> dict[tuple[PolicyName, str], int]:
        """Write what a pass changed and move the watermark."""
        for statement, values in saves.statements(changes):
            await self._connection.execute(statement, {saves.ROWS: values})
        counted = saves.counts(changes)
        now: dict[tuple[PolicyName, str], int] = {}
        if counted is not None:
            answered = await self._connection.execute(saves.ADD_COUNTS, {saves.ROWS: counted})
            now = {(PolicyName(row.policy), row.name): row.total for row in answered}
        if changes.released:
            release = tables.quarantine_release
            await self._connection.execute(
                update(release).where(release.c.release_id.in_(changes.released)).values(done=True)
            )
        moved: dict[str, object] = {"x": changes.high, "evidence_sequence": changes.evidence_sequence}
        if changes.restored_time is not None:
            moved |= {"system_identifier": reads.CLUSTER, "counted_before": changes.restored_time}
        await self._connection.execute(update(tables.fold_state).values(moved))
        return now

    async def _execute(self, statement: Select[Any], **parameters: object) -> Sequence[Row[Any]]:
        found: Sequence[Row[Any]] = (await self._connection.execute(statement, parameters)).all()
        return found


def _arrays(keys: Collection[EpisodeKey]) -> dict[str, object]:
    return {"policies": [key.policy for key in keys], "episodes": [key.episode_id for key in keys]}


def _readable(found: Sequence[Row[Any]], read: Callable[[Row[Any]], T]) -> tuple[list[T], int]:
    """Read what can be read; a row that nobody could have written through the API holds nothing up."""
    good: list[T] = []
    bad = 0
    for row in found:
        try:
            good.append(read(row))
        except rows.UNREADABLE as error:
            bad += 1
            log.error("row.unreadable", error=type(error).__name__)
    return good, bad
