"""Claim one query of a proposal: is it its turn, can it be asked at all, and the ledger's row before all else."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from kedge_bandit.application.holdout_ports import (
    AnswererKind,
    AnswererPart,
    AnswererSettings,
    HoldoutRecord,
    Holdouts,
    LedgerRow,
    Version,
)
from kedge_bandit.application.ports import Clock
from kedge_bandit.application.proposal_ports import Reported
from kedge_bandit.domain.audit import KEDGE
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.conditions import unmet
from kedge_bandit.domain.gate import GateResult, Inconclusive
from kedge_bandit.domain.holdout import Part, version_of
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.peek import MAX_QUERIES, alpha_of
from kedge_bandit.domain.proposal import Proposal, ProposalId, conclude_gate
from kedge_bandit.domain.proposal_state import ProposalState
from kedge_bandit.domain.verdict import Query, inconclusive, too_few


@dataclass(slots=True, kw_only=True)
class Claimed:
    """A query that is this process's to run.

    Attributes:
        row: as it stands in the ledger; its lease is renewed while it runs.
        model_seen: what was known of the answerer's models, as JSON.
        reported: scores that a platform's own harness measured; then nobody is asked.
    """

    tenant: TenantId
    proposal: Proposal
    row: LedgerRow
    query: Query
    answerer: AnswererSettings | None
    judge: AnswererSettings | None
    model_seen: str
    reported: Sequence[Reported]

    @property
    def policy(self) -> PolicyName:
        """Whose holdout is asked."""
        return self.proposal.policy


@dataclass(frozen=True, slots=True)
class Claim:
    """Claim queries.

    Attributes:
        lease: how long a query may keep silent before it is taken for crashed.
    """

    holdouts: Holdouts
    clock: Clock
    lease: timedelta

    async def __call__(self, tenant: TenantId, proposal_id: str) -> Claimed | GateResult | None:
        """Write the query down and claim it; a verdict where it needs no query, None where it is not its turn."""
        async with self.holdouts.open(tenant) as record:
            async with record.tenant() as ledger:
                policy = (await ledger.proposals.get(ProposalId(proposal_id))).policy
            await record.cases.lock(policy)
            async with record.tenant() as ledger:
                proposal = await ledger.proposals.get(ProposalId(proposal_id))
                reported = await ledger.notes.evaluation(proposal.proposal_id, proposal.evaluation_hash)
            if proposal.state is not ProposalState.GATE_RUNNING or not await self._is_free(record, tenant, proposal):
                return None
            return await self._opened(record, tenant, proposal, reported)

    async def _is_free(self, record: HoldoutRecord, tenant: TenantId, proposal: Proposal) -> bool:
        """Say whether no query of the policy runs; one whose process has fallen silent is ended, and used."""
        newest = await record.cases.newest(proposal.policy)
        rows = [] if newest is None else await record.ledger.rows(proposal.policy, newest.since)
        now = self.clock.now()
        for row in rows:
            if row.close_time is not None:
                continue
            if row.lease_until > now:
                return False
            await record.ledger.close(proposal.policy, replace(row, close_time=now, verdict="INCONCLUSIVE"))
            query = Query(
                query=row.query,
                alpha=row.alpha,
                holdout_version="" if newest is None else newest.digest,
                answerer_kind="",
                gate_time=now,
            )
            told = f"the process fell silent after {row.done} of {row.total} cases; the query is used"
            crashed = inconclusive(query, Inconclusive.CRASHED, told)
            await conclude_with(record, tenant, row.proposal, crashed)
            if row.proposal == proposal.proposal_id:
                return False
        return True

    async def _opened(
        self, record: HoldoutRecord, tenant: TenantId, proposal: Proposal, reported: Sequence[Reported]
    ) -> Claimed | GateResult:
        policy, now = proposal.policy, self.clock.now()
        newest = await self._version(record, policy, is_reported=bool(reported))
        rows = await record.ledger.rows(policy, newest.since)
        found = await record.answerers.get(policy, AnswererPart.ANSWERER)
        judge = await record.answerers.get(policy, AnswererPart.JUDGE)
        counted, hard = await gate_counts(record, policy)
        number = len(rows) + 1
        query = Query(
            query=number if number <= MAX_QUERIES else 0,
            alpha=alpha_of(number),
            holdout_version=newest.digest,
            answerer_kind=AnswererKind.REPORTED if reported else found[0].kind if found else "",
            gate_time=now,
            unmet=unmet(proposal),
        )
        refusal = _refusal(query, number, (counted, hard), is_reported=bool(reported), is_answered=found is not None)
        if refusal is not None:
            await conclude_with(record, tenant, proposal.proposal_id, refusal)
            return refusal
        row = self._row(query, newest, proposal, len(reported) or counted + hard)
        await record.ledger.open(policy, row)
        return Claimed(
            tenant=tenant,
            proposal=proposal,
            row=row,
            query=query,
            answerer=found[0] if found else None,
            judge=judge[0] if judge else None,
            model_seen=found[1] if found else "",
            reported=reported,
        )

    def _row(self, query: Query, version: Version, proposal: Proposal, total: int) -> LedgerRow:
        return LedgerRow(
            version_number=version.number,
            query=query.query,
            proposal=proposal.proposal_id,
            alpha=query.alpha,
            open_time=query.gate_time,
            lease_until=query.gate_time + self.lease,
            done=0,
            total=total,
        )

    async def _version(self, record: HoldoutRecord, policy: PolicyName, *, is_reported: bool) -> Version:
        """Read the version in force; one without cases carries the ledger of a platform that keeps its own."""
        newest = await record.cases.newest(policy)
        if newest is not None:
            return newest
        empty = Version(number=1, digest=version_of([]), since=1, create_time=self.clock.now())
        if is_reported:
            await record.cases.add(policy, empty, (), ())
        return empty


def _refusal(
    query: Query, number: int, sizes: tuple[int, int], *, is_reported: bool, is_answered: bool
) -> GateResult | None:
    """Say why a query is not opened at all, and so not used; None where it is."""
    if number > MAX_QUERIES:
        told = f"all {MAX_QUERIES} queries since the last rotation are used: rotate the holdout"
        return inconclusive(query, Inconclusive.LEDGER_EXHAUSTED, told)
    if is_reported:
        return None
    unused = replace(query, query=0)
    few = too_few(*sizes)
    if few:
        return inconclusive(unused, Inconclusive.TOO_FEW_CASES, *few, cases=sizes[0])
    if not is_answered:
        told = "nobody answers this policy's cases: name who does with `kedge holdout answerer`"
        return inconclusive(unused, Inconclusive.CASE_ERROR, told)
    return None


async def gate_counts(record: HoldoutRecord, policy: PolicyName) -> tuple[int, int]:
    """Count the gate part: cases that count for quality, and adversarial ones."""
    kinds = await record.cases.kinds(policy)
    hard = sum(count for (_, _, adversarial), count in kinds.items() if adversarial)
    counted = sum(count for (_, part, adversarial), count in kinds.items() if part is Part.GATE and not adversarial)
    return counted, hard


async def conclude_with(record: HoldoutRecord, tenant: TenantId, proposal_id: str, result: GateResult) -> None:
    """Give a proposal its verdict, with its event; one that has left GATE_RUNNING keeps what it has."""
    because = "; ".join(result.reasons)[:1000] or result.verdict.value
    change = Change(tenant=tenant, actor=KEDGE, because=because, at=result.gate_time)
    async with record.tenant() as ledger:
        proposal = await ledger.proposals.get(ProposalId(proposal_id))
        if proposal.state is ProposalState.GATE_RUNNING:
            await ledger.proposals.put(*conclude_gate(proposal, result, change))
