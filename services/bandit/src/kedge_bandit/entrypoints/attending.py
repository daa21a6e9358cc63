"""Look after the proposals of all tenants: serve what waited, expire and void; one failure does not stop the others."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import structlog
from sqlalchemy import Row, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from kedge_bandit.adapters.postgres import control_tables as tables
from kedge_bandit.application.attend_proposals import AttendProposals
from kedge_bandit.domain.errors import KedgeError, TenantDenied
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.proposal import ProposalId
from kedge_bandit.domain.proposal_errors import ProposalNotFound
from kedge_bandit.domain.proposal_state import ProposalState
from kedge_bandit.entrypoints.worker_metrics import WorkerMetrics

LOOK_SECONDS = 5.0
EXPIRES_SOON = timedelta(days=2)
LOOKS_AT_ALL = 12
"""Looks from one at everything that waits, whose ground may have changed, to the next."""
_WAITING = (ProposalState.AWAITING_APPROVAL, ProposalState.APPROVED, ProposalState.GATE_RUNNING)

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Attending:
    """Do what time brings to proposals.

    Attributes:
        seconds: between two looks at what is due.
    """

    engine: AsyncEngine
    attend: AttendProposals
    metrics: WorkerMetrics
    seconds: float = LOOK_SECONDS

    async def run(self) -> None:
        """Go on for ever."""
        looks = 0
        while True:
            try:
                await self.look(at_all=looks % LOOKS_AT_ALL == 0)
            except (KedgeError, DBAPIError, OSError) as error:
                log.warning("proposals.not_read", error=type(error).__name__)
            looks += 1
            await asyncio.sleep(self.seconds)

    async def look(self, *, at_all: bool) -> None:
        """Count what is open, and attend to what is due, or to all that waits."""
        async with self.engine.connect() as connection:
            rows = (await connection.execute(select(tables.proposal_open))).all()
        now = datetime.now(UTC)
        expiring = Counter(row.tenant for row in rows if _expires_soon(row, now))
        self.metrics.proposals(Counter((row.tenant, row.state) for row in rows), expiring)
        for row in rows:
            if row.state in _WAITING and (at_all or _is_due(row, now)):
                await self._attend(TenantId(row.tenant), ProposalId(row.proposal_id))

    async def _attend(self, tenant: TenantId, proposal: ProposalId) -> None:
        try:
            stepped = await self.attend(tenant, proposal)
        except (TenantDenied, ProposalNotFound):
            return  # it was erased meanwhile
        except Exception as error:
            expected = isinstance(error, KedgeError | DBAPIError | psycopg.Error | OSError)
            facts = {"tenant": tenant, "proposal": proposal, "error": type(error).__name__}
            log.warning("proposal.not_attended", **facts, exc_info=None if expected else error)
            return
        if stepped is not None:
            log.info("proposal.stepped", tenant=tenant, proposal=proposal, state=stepped.state)


def _expires_soon(row: Row[Any], now: datetime) -> bool:
    waits = row.state == ProposalState.AWAITING_APPROVAL and row.expire_time is not None
    return bool(waits and row.expire_time - now <= EXPIRES_SOON)


def _is_due(row: Row[Any], now: datetime) -> bool:
    return row.state == ProposalState.APPROVED or (row.expire_time is not None and row.expire_time <= now)
