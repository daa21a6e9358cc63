"""Read and write the worker's record of one tenant, all in the open ledger's transaction.

Rows of whole transactions only: x numbers the one that wrote a row, and all below the oldest that runs is final.
"""

import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import update
from sqlalchemy.sql.elements import ClauseElement

from kedge_bandit.adapters.postgres import learning_reads as reads
from kedge_bandit.adapters.postgres import learning_rows as rows
from kedge_bandit.adapters.postgres import learning_save as saves
from kedge_bandit.adapters.postgres import learning_tables as tables
from kedge_bandit.adapters.postgres.learned_memory import LearnedMemory
from kedge_bandit.adapters.postgres.learning_pass import LOCK, LOCK_WAITING, READ, TOUCH, Read, fresh_rows_of
from kedge_bandit.adapters.postgres.log_rows import read_log, read_snapshot
from kedge_bandit.adapters.postgres.tenant_sql import TenantConnection, Text, text_of
from kedge_bandit.adapters.postgres.usage_reads import COST_BESIDE, DECISIONS_BESIDE
from kedge_bandit.application.learned import Changes, EpisodeFile, EpisodeKey, LearnedRecord, OutcomeRow, Release
from kedge_bandit.application.learning_port import FoldPoint, FreshRows, PolicyHead
from kedge_bandit.domain.cells import Cells
from kedge_bandit.domain.context import Context
from kedge_bandit.domain.dossier import Chosen
from kedge_bandit.domain.episode import EpisodeState
from kedge_bandit.domain.evidence_log import EvidenceEntry, EvidenceLog
from kedge_bandit.domain.evidence_snapshot import Sealed
from kedge_bandit.domain.identifiers import DecisionId, EpisodeId, PolicyName, TenantId
from kedge_bandit.domain.usage import Usage

_LAST = 2**62
_LEARNED = (reads.CELLS, reads.ACTIONS, reads.BUCKETS, reads.POLICIES, reads.RELEASES, reads.CHANGES, reads.MODELS)


class PostgresLearning:
    """The worker's record of the open ledger.

    Args:
        memory: what a worker remembers of earlier passes; everybody else reads.
        everywhere: stamp of the modes of all tenants; empty where nothing is remembered.
    """

    def __init__(
        self,
        tenant: TenantId,
        connection: TenantConnection,
        *,
        memory: LearnedMemory | None = None,
        everywhere: str = "",
    ) -> None:
        self._tenant = tenant
        self._connection = connection
        self._memory = memory
        self._everywhere = everywhere
        self._point: Any = None
        self._read: Read | None = None
        self._known: dict[PolicyName, LearnedRecord] = {}
        self._stamp = ""

    async def lock(self, *, wait: bool = False, limit: int | None = None) -> FoldPoint | None:
        """Become the one writer until the transaction ends. What is read is read with the lock in hand."""
        asked: list[tuple[Text, Mapping[str, object]]] = [
            (LOCK_WAITING if wait else LOCK, {}),
            (text_of(reads.POINT), {}),
        ]
        if limit is not None:
            asked.append((READ, {"limit": limit + 1}))
        locked, points, *more = await self._run(*asked)
        if not locked:
            return None
        (row,) = points
        self._point, self._stamp = row, row.stamp
        if self._memory is not None:
            self._known = self._memory.take(self._tenant, row.stamp)
        is_restored = row.system_identifier != row.cluster
        wants_attention = any(head["wants_attention"] for head in row.heads or ())
        found = Read.of(more[0][0]) if more else None
        if limit is not None and found is not None and not found.is_cut(limit) and not is_restored:
            self._read = found
        return FoldPoint(
            low=row.x,
            high=max(row.x, row.high if found is None else found.high),
            evidence_sequence=row.evidence_sequence,
            now=row.now,
            has_unmatched=row.has_unmatched,
            audit_sequence=row.audit_sequence,
            has_work=found is None or not found.is_empty or is_restored or wants_attention,
            counted_before=row.counted_before,
            is_restored=is_restored,
            is_blocked=found is not None and found.is_blocked,
            modes=f"{self._everywhere}:{row.modes}" if self._everywhere else "",
        )

    def committed(self) -> None:
        """Remember, now that the transaction is committed, what it left behind."""
        if self._memory is not None and self._stamp:
            self._memory.keep(self._tenant, self._stamp, self._known)

    async def fresh_rows(self, point: FoldPoint, *, limit: int) -> FreshRows:
        """Read new raw rows of whole transactions.

        After a restore the rows that the new numbering would not reach for long are read first, however many; then
        everything is read again from the start, batch by batch. Dossiers know what they have seen, so nothing counts
        twice.
        """
        found = self._read
        if found is not None:
            return fresh_rows_of(point, found.decisions, found.events, found.outcomes, point.high)
        low, high, most = point.low, point.high, limit
        if point.is_restored:
            low, high, most = max(low, high), _LAST, _LAST
        outcomes, high = await self._fresh(reads.FRESH_OUTCOMES, low, high, most)
        events, high = await self._fresh(reads.FRESH_EVENTS, low, high, most)
        decisions, high = await self._fresh(reads.FRESH_DECISIONS, low, high, most)
        outcomes = [row for row in outcomes if row.x < high]
        events = [row for row in events if row.x < high]
        return fresh_rows_of(point, decisions, events, outcomes, high)

    async def _fresh(self, statement: ClauseElement, low: int, high: int, limit: int) -> tuple[list[Any], int]:
        """Read rows in order of x, cut so that no transaction is taken in part; answers the new high."""
        found = list(await self._execute(statement, low=low, high=high, limit=limit + 1))
        if len(found) <= limit:
            return found, high
        cut = found[-1].x
        if found[0].x == cut:  # one transaction wrote more than a batch
            return list(await self._execute(statement, low=cut, high=cut + 1, limit=None)), cut + 1
        return [row for row in found if row.x < cut], cut

    async def heads(self) -> Sequence[PolicyHead]:
        """Give every policy's newest version, as the lock found it."""
        return [
            PolicyHead(PolicyName(head["policy"]), head["policy_version"], head["wants_attention"])
            for head in self._point.heads or ()
        ]

    async def learned(self, policies: Collection[PolicyName]) -> dict[PolicyName, LearnedRecord]:
        """Read what is kept of these policies, unless it is remembered."""
        unknown = [name for name in policies if name not in self._known]
        if unknown:
            self._known |= await self._learned(unknown)
        return {name: self._known[name] for name in policies}

    async def _learned(self, policies: Sequence[PolicyName]) -> dict[PolicyName, LearnedRecord]:
        records = {name: LearnedRecord() for name in policies}
        asked = {"policies": list(policies)}
        cells, actions, buckets, kept, releases, changes, models = await self._run(
            *((text_of(statement), asked) for statement in _LEARNED)
        )
        for name, record in records.items():
            record.cells = Cells(rows.cell_of(row) for row in cells if row.policy == name)
        for row in actions:
            records[PolicyName(row.policy)].actions[sys.intern(row.action)] = rows.action_of(row)
        for row in buckets:
            records[PolicyName(row.policy)].buckets[sys.intern(row.bucket)] = rows.bucket_of(row)
        for row in kept:
            records[PolicyName(row.policy)].policy = rows.policy_of(row)
        for row in releases:
            release = Release(row.release_id, row.choice, row.release_time, row.done)
            records[PolicyName(row.policy)].releases += (release,)
        for row in changes:
            records[PolicyName(row.policy)].changes += (rows.change_of(row),)
        for row in models:
            records[PolicyName(row.policy)].versions.add((row.arm_id, row.model_id))
        return records

    async def files(self, keys: Collection[EpisodeKey]) -> dict[EpisodeKey, EpisodeFile]:
        """Read the episodes that exist."""
        known = self._read is not None and self._read.keys.issuperset(keys)
        stored = self._read.files if known and self._read else await self._execute(reads.FILES, **_arrays(keys))
        found = [rows.file_of(row) for row in stored]
        return {file.key: file for file in found if file.key in keys}

    async def due_files(self, now: datetime, *, limit: int) -> Sequence[EpisodeFile]:
        """Read episodes that are due."""
        if self._read is not None:
            return [rows.file_of(row) for row in self._read.due[:limit]]
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
            DecisionId(str(row.decision_id)): Context(row.context["categories"], row.context["numbers"])
            for row in found
        }

    async def chosen(self, keys: Collection[EpisodeKey]) -> dict[EpisodeKey, Chosen]:
        """Read the decisions that stand for these episodes."""
        found: Sequence[Any] = ()
        if self._read is not None:
            known = self._read.keys - {(row.policy, row.episode_id) for row in self._read.files}
            found = self._read.chosen
            keys = [key for key in keys if key not in known]
        if keys:
            found = [*found, *await self._execute(reads.CHOSEN, **_arrays(keys))]
        return {EpisodeKey(PolicyName(r.policy), EpisodeId(r.episode_id)): rows.chosen_of(r) for r in found}

    async def episodes_of(self, decisions: Collection[DecisionId]) -> dict[DecisionId, EpisodeKey]:
        """Read which episodes decisions belong to."""
        found = await self._execute(reads.EPISODES_OF, ids=list(decisions))
        return {
            DecisionId(str(r.decision_id)): EpisodeKey(PolicyName(r.policy), EpisodeId(r.episode_id)) for r in found
        }

    async def take_unmatched(self, decisions: Collection[DecisionId]) -> Sequence[OutcomeRow]:
        """Take the outcomes that waited for these decisions."""
        found = await self._execute(reads.TAKE_UNMATCHED, ids=list(decisions))
        return [rows.waiting_row(row) for row in found]

    async def entries(self, sequences: Collection[int]) -> dict[int, EvidenceEntry]:
        """Read rows of the evidence log."""
        known = {} if self._read is None else {row.evidence_sequence: row for row in self._read.entries}
        unknown = [sequence for sequence in sequences if sequence not in known]
        found = [known[sequence] for sequence in sequences if sequence in known]
        if unknown:
            found += await self._execute(reads.ENTRIES, sequences=unknown)
        return {row.evidence_sequence: rows.entry_of(row) for row in found}

    async def evidence_log(self, policy: PolicyName, *, upto: int | None = None) -> EvidenceLog:
        """Read the evidence log of a policy, up to a sequence."""
        return await read_log(self._execute, policy, _LAST if upto is None else upto)

    async def snapshot(self, policy: PolicyName) -> Sealed | None:
        """Read what the beginning of a policy's evidence log was folded into."""
        return await read_snapshot(self._execute, policy)

    async def sample(self, policy: PolicyName, *, size: int) -> Sequence[DecisionId]:
        """Pick decisions of a policy at random."""
        found = await self._execute(reads.SAMPLE, policy=policy, limit=size)
        return [DecisionId(str(row.decision_id)) for row in found]

    async def unaccounted(self, policy: PolicyName) -> int:
        """Count logged episodes that are not in exactly one state."""
        asked = ((text_of(one), {"policy": policy}) for one in (reads.STATES, reads.COUNTS, reads.LOGGED))
        states, counted, (logged,) = await self._run(*asked)
        actual, counts = {row.state: row.number for row in states}, {row.name: row.number for row in counted}
        wrong = sum(abs(actual.get(state, 0) - counts.get(state, 0)) for state in EpisodeState)
        return int(wrong + abs(logged.number - sum(actual.values())))

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
        await self._run((TOUCH, {}))  # a worker that remembers the record must read it anew
        state = tables.policy_state
        cleared = update(state).where(state.c.policy == policy).values(learning_held=None, self_check=None)
        await self._connection.core.execute(cleared)

    async def save(self, changes: Changes) -> dict[tuple[PolicyName, str], int]:
        """Write what a pass changed and move the watermark, in one message."""
        statements = saves.statements(changes)
        answers = await self._run(*statements)
        self._stamp = f"{answers[-1][0].stamp}:{self._stamp.partition(':')[2]}"
        if changes.released:
            self._stamp = ""  # releases are marked as done by this pass, and are remembered as they were
        return {
            (PolicyName(row.policy), row.name): row.total
            for (statement, _), answer in zip(statements, answers, strict=True)
            if statement is saves.ADD_COUNTS
            for row in answer
        }

    async def _execute(self, statement: ClauseElement, **parameters: object) -> Sequence[Any]:
        return (await self._run((text_of(statement), parameters)))[0]

    async def _run(self, *statements: tuple[Text, Mapping[str, object]]) -> list[Sequence[Any]]:
        return await self._connection.run(*statements)


def _arrays(keys: Collection[EpisodeKey]) -> dict[str, object]:
    return {"policies": [key.policy for key in keys], "episodes": [key.episode_id for key in keys]}
