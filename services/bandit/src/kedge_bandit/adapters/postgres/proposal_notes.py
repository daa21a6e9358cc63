"""Keep what is said and reported about one tenant's proposals, people's preferences, and the not-now windows."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Final

import orjson
from pydantic import TypeAdapter
from sqlalchemy import delete, insert, select
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from kedge_bandit.adapters.postgres import proposal_tables as tables
from kedge_bandit.adapters.postgres.audit import PostgresAuditLog
from kedge_bandit.application.proposal_ports import Comment, Reported, Window
from kedge_bandit.domain.audit import AuditEvent
from kedge_bandit.domain.errors import IdempotencyConflict
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.proposal import ProposalId

_COMMENT: Final = tables.proposal_comment.c
_EVALUATION: Final = tables.proposal_evaluation.c
_WINDOW: Final = tables.not_now.c
_PREFERENCE: Final = tables.preference.c
_REPORTED: Final = TypeAdapter(list[Reported])


class PostgresProposalNotes:
    """Comments, reports, windows and preferences of the open ledger."""

    def __init__(self, tenant: TenantId, connection: AsyncConnection) -> None:
        self._connection = connection
        self._audit = PostgresAuditLog(tenant, connection)

    async def comment(self, proposal: ProposalId, comment: Comment) -> None:
        """Add a comment."""
        row = {
            "proposal_id": proposal,
            "author": comment.author,
            "comment": comment.text,
            "create_time": comment.time,
        }
        await self._connection.execute(insert(tables.proposal_comment).values(row))

    async def comments(self, proposal: ProposalId) -> Sequence[Comment]:
        """Read comments, oldest first."""
        asked = select(tables.proposal_comment).where(_COMMENT.proposal_id == proposal).order_by(_COMMENT.comment_id)
        return [Comment(row.author, row.comment, row.create_time) for row in await self._connection.execute(asked)]

    async def put_evaluation(
        self, proposal: ProposalId, scores: Sequence[Reported], *, actor: str, at: datetime
    ) -> str:
        """Store a report whole; gives its hash."""
        row = {
            "proposal_id": proposal,
            "scores_hash": _hash_of(scores),
            "scores": [asdict(one) for one in scores],
            "actor": actor,
            "report_time": at,
        }
        await self._connection.execute(upsert(tables.proposal_evaluation).values(row).on_conflict_do_nothing())
        return _hash_of(scores)

    async def evaluation(self, proposal: ProposalId, scores_hash: str) -> Sequence[Reported]:
        """Read the report of a hash; none where what is stored has another one."""
        asked = select(_EVALUATION.scores).where(
            _EVALUATION.proposal_id == proposal, _EVALUATION.scores_hash == scores_hash
        )
        stored = (await self._connection.execute(asked)).scalar_one_or_none()
        found = [] if stored is None else _REPORTED.validate_json(orjson.dumps(stored))
        return found if _hash_of(found) == scores_hash else []

    async def reporter(self, proposal: ProposalId, scores_hash: str) -> str:
        """Say who sent the report of a hash first; empty where there is none."""
        asked = select(_EVALUATION.actor).where(
            _EVALUATION.proposal_id == proposal, _EVALUATION.scores_hash == scores_hash
        )
        return (await self._connection.execute(asked)).scalar_one_or_none() or ""

    async def put_windows(self, windows: Sequence[Window], event: AuditEvent) -> None:
        """Replace all windows."""
        await self._audit.append(event)
        await self._connection.execute(delete(tables.not_now))
        rows = [
            {
                "policy": window.policy or "",
                "start_time": window.start,
                "end_time": window.end,
                "because": window.because,
            }
            for window in windows
        ]
        if rows:
            await self._connection.execute(insert(tables.not_now), rows)

    async def windows(self) -> Sequence[Window]:
        """Read all windows, earliest first."""
        asked = select(tables.not_now).order_by(_WINDOW.start_time, _WINDOW.policy)
        return [
            Window(PolicyName(row.policy) if row.policy else None, row.start_time, row.end_time, row.because)
            for row in await self._connection.execute(asked)
        ]

    async def prefer(self, key: str, facts: Mapping[str, object]) -> bool:
        """Record a preference once."""
        row = {"preference_key": key, **facts}
        added = upsert(tables.preference).values(row).on_conflict_do_nothing().returning(_PREFERENCE.preference_key)
        if (await self._connection.execute(added)).one_or_none() is not None:
            return True
        asked = select(tables.preference).where(_PREFERENCE.preference_key == key)
        known = (await self._connection.execute(asked)).one()._mapping
        if any(known[name] != value for name, value in facts.items() if name not in ("actor", "record_time")):
            raise IdempotencyConflict(key)
        return False


def _hash_of(scores: Sequence[Reported]) -> str:
    written = orjson.dumps([asdict(one) for one in scores], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(written).hexdigest()
