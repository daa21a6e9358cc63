"""Keep one tenant's proposals: their steps, who objects, and the version of the holdout that they are measured on."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Row, Select, and_, insert, or_, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from kedge_bandit.adapters.postgres import learning_tables, proposal_tables, tables
from kedge_bandit.adapters.postgres.audit import PostgresAuditLog
from kedge_bandit.adapters.postgres.decisions import allocation_of
from kedge_bandit.adapters.postgres.judged import read_judged
from kedge_bandit.adapters.postgres.proposal_rows import FIXED, proposal_of, row_of
from kedge_bandit.application.proposal_ports import StepTaken, Wanted
from kedge_bandit.domain.audit import AuditEvent
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.proposal import Proposal, ProposalId
from kedge_bandit.domain.proposal_errors import ProposalChanged, ProposalNotFound, SecondPersonRequired
from kedge_bandit.domain.proposal_state import ProposalState
from kedge_bandit.domain.published import Allocation
from kedge_bandit.domain.rescore import Judged

_P: Final = proposal_tables.proposal.c
_STEP: Final = proposal_tables.proposal_step.c
_OBJECTION: Final = proposal_tables.proposal_objection.c
_HOLDOUT: Final = proposal_tables.holdout_in_force.c


class PostgresProposals:
    """Proposals of the open ledger."""

    def __init__(self, tenant: TenantId, connection: AsyncConnection) -> None:
        self._connection = connection
        self._audit = PostgresAuditLog(tenant, connection)

    async def hold(self, policy: PolicyName) -> None:
        """Let no other change of a policy come between: whoever changes it takes its row first, then the audit head."""
        wanted = select(tables.policy.c.policy).where(tables.policy.c.policy == policy).with_for_update()
        await self._connection.execute(wanted)

    async def get(self, proposal: ProposalId) -> Proposal:
        """Read a proposal."""
        found = (await self._connection.execute(_ALL.where(_P.proposal_id == proposal))).one_or_none()
        if found is None:
            raise ProposalNotFound(proposal)
        return proposal_of(found)

    async def list(self, wanted: Wanted, *, before: int | None, limit: int) -> Sequence[tuple[int, Proposal]]:
        """Read proposals, those with the newest step first."""
        asked = _ALL.order_by(_P.audit_sequence.desc()).limit(limit)
        if before is not None:
            asked = asked.where(_P.audit_sequence < before)
        if wanted.policy is not None:
            asked = asked.where(_P.policy == wanted.policy)
        if wanted.states:
            asked = asked.where(_P.state.in_(sorted(wanted.states)))
        if wanted.kinds:
            asked = asked.where(_P.kind.in_(sorted(wanted.kinds)))
        if wanted.approvable_by is not None:
            person = wanted.approvable_by
            others = or_(
                _P.author_issuer.is_(None), _P.author_issuer != person.issuer, _P.author_subject != person.subject
            )
            asked = asked.where(_P.state == ProposalState.AWAITING_APPROVAL.value, others)
        return [_placed(row) for row in await self._connection.execute(asked)]

    async def stepped(self, *, after: int, limit: int) -> Sequence[tuple[int, Proposal]]:
        """Read proposals whose newest step came after a place in the audit chain, which is written one by one."""
        asked = _ALL.where(_P.audit_sequence > after).order_by(_P.audit_sequence).limit(limit)
        return [_placed(row) for row in await self._connection.execute(asked)]

    async def put(self, proposal: Proposal, event: AuditEvent) -> None:
        """Store a proposal's next version with its event.

        Raises:
            ProposalChanged: the stored version is not the one before.
            SecondPersonRequired: the database itself refuses the approver.
        """
        await self._audit.append(event)
        row = row_of(proposal) | {"audit_sequence": (await self._audit.head()).sequence}
        try:
            async with self._connection.begin_nested():
                taken = await self._write(proposal, row)
        except IntegrityError as error:
            if "four_eyes" in str(error.orig):
                raise SecondPersonRequired("the person who proposed it cannot approve it") from error
            raise
        if not taken:
            raise ProposalChanged(proposal.proposal_id)
        step = {
            "proposal_id": proposal.proposal_id,
            "version": proposal.version,
            "state": proposal.state.value,
            "actor": event.actor.name,
            "because": event.because,
            "step_time": event.time,
        }
        await self._connection.execute(insert(proposal_tables.proposal_step).values(step))

    async def same_content(self, proposal: Proposal) -> Sequence[Proposal]:
        """Read the proposals to the same policy that have the same content."""
        content = proposal.candidate.content_hash(proposal.base)
        asked = _ALL.where(_P.policy == proposal.policy, _P.content_hash == content).order_by(_P.audit_sequence.desc())
        return [proposal_of(row) for row in await self._connection.execute(asked)]

    async def in_state(self, policy: PolicyName, states: frozenset[ProposalState]) -> Sequence[Proposal]:
        """Read a policy's proposals in some states, oldest step first."""
        asked = _ALL.where(_P.policy == policy, _P.state.in_(sorted(states))).order_by(_P.audit_sequence)
        return [proposal_of(row) for row in await self._connection.execute(asked)]

    async def allocations(self, policy: PolicyName, *, limit: int) -> Sequence[Allocation]:
        """Read the newest allocations of buckets, that of buckets without one of their own first."""
        row, bucket = learning_tables.allocation.c, learning_tables.bucket_state.c
        versions = select(bucket.allocation_version).where(bucket.policy == policy, bucket.allocation_version > 0)
        newest = versions.order_by(bucket.bucket).limit(limit)
        asked = select(learning_tables.allocation).where(row.policy == policy, row.allocation_version.in_(newest))
        return [allocation_of(found) for found in await self._connection.execute(asked.order_by(row.bucket))]

    async def judged(self, policy: PolicyName) -> Sequence[Judged]:
        """Read how the episodes decided in the last days were judged, the newest first where they are too many."""
        return await read_judged(self._connection, policy)

    async def steps(self, proposal: ProposalId) -> Sequence[StepTaken]:
        """Read a proposal's way, oldest first."""
        asked = select(proposal_tables.proposal_step).where(_STEP.proposal_id == proposal).order_by(_STEP.version)
        rows = await self._connection.execute(asked)
        return [StepTaken(ProposalState(row.state), row.actor, row.because, row.step_time) for row in rows]

    async def raise_objection(self, proposal: ProposalId, event: AuditEvent) -> None:
        """Say that a rejection is on its way. Waits for nobody: it takes no lock that an approval holds."""
        row = {
            "proposal_id": proposal,
            "actor": event.actor.name,
            "because": event.because,
            "object_time": event.time,
        }
        await self._connection.execute(upsert(proposal_tables.proposal_objection).values(row).on_conflict_do_nothing())

    async def objection(self, proposal: ProposalId) -> str:
        """Name who said so; a statement of its own sees what another transaction committed a moment ago."""
        asked = select(_OBJECTION.actor).where(_OBJECTION.proposal_id == proposal)
        return (await self._connection.execute(asked)).scalar_one_or_none() or ""

    async def holdout_version(self, policy: PolicyName) -> str:
        """Read the version of the holdout in force."""
        asked = select(_HOLDOUT.holdout_version).where(_HOLDOUT.policy == policy)
        return (await self._connection.execute(asked)).scalar_one_or_none() or ""

    async def put_holdout_version(self, policy: PolicyName, version: str, at: datetime) -> None:
        """State the version of the holdout in force."""
        row = {"policy": policy, "holdout_version": version, "change_time": at}
        stated = upsert(proposal_tables.holdout_in_force).values(row)
        fresh = {"holdout_version": version, "change_time": at}
        await self._connection.execute(stated.on_conflict_do_update(index_elements=["policy"], set_=fresh))

    async def _write(self, proposal: Proposal, row: dict[str, object]) -> bool:
        """Write the row; False where another step came first."""
        if proposal.version == 1:
            added = upsert(proposal_tables.proposal).values(row).on_conflict_do_nothing().returning(_P.version)
            return (await self._connection.execute(added)).one_or_none() is not None
        moved = {name: value for name, value in row.items() if name not in FIXED}
        before = and_(_P.proposal_id == proposal.proposal_id, _P.version == proposal.version - 1)
        changed = update(proposal_tables.proposal).where(before).values(moved).returning(_P.version)
        return (await self._connection.execute(changed)).one_or_none() is not None


_ALL: Final[Select[Any]] = select(proposal_tables.proposal)


def _placed(row: Row[Any]) -> tuple[int, Proposal]:
    return row.audit_sequence, proposal_of(row)
