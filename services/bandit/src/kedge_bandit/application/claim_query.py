"""Claim one query of a proposal: is it its turn, can it be asked at all, and the ledger's row before all else."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

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
from kedge_bandit.domain.gate import AskedOf, GateResult, Inconclusive, Verdict, told_to_all
from kedge_bandit.domain.holdout import version_of
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.peek import MAX_QUERIES, alpha_of
from kedge_bandit.domain.principal import person_in
from kedge_bandit.domain.proposal import Proposal, ProposalId, conclude_gate
from kedge_bandit.domain.proposal_state import ProposalState
from kedge_bandit.domain.verdict import Query, inconclusive, too_few


@dataclass(slots=True, kw_only=True)
class Claimed:
    """A query that is this process's to run.

    Attributes:
        row: as it stands in the ledger; its lease is renewed while it runs.
        through: newest version of the holdout whose cases it asks.
        model_seen: what was known of the answerer's models, as JSON.
        answerers: who is asked, and who set that; none where scores were reported.
        reported: scores that a platform's own harness measured; then nobody is asked.
    """

    tenant: TenantId
    proposal: Proposal
    row: LedgerRow
    query: Query
    through: int
    answerer: AnswererSettings | None
    judge: AnswererSettings | None
    model_seen: str
    answerers: tuple[AskedOf, ...]
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
                reporter = await ledger.notes.reporter(proposal.proposal_id, proposal.evaluation_hash)
            if proposal.state is not ProposalState.GATE_RUNNING or not await self._is_free(record, tenant, proposal):
                return None
            return await self._opened(record, tenant, proposal, reported, reporter)

    async def _is_free(self, record: HoldoutRecord, tenant: TenantId, proposal: Proposal) -> bool:
        """Say whether no query of the policy runs; one whose process has fallen silent is ended, and used."""
        now = self.clock.now()
        for row in await running_queries(record, proposal.policy):
            if row.lease_until > now:
                return False
            told = f"the process fell silent after {row.done} of {row.total} cases; the query is used"
            crashed = (Inconclusive.CRASHED, told)
            await end_query(record, tenant, proposal.policy, row, crashed, now)
            if row.proposal == proposal.proposal_id:
                return False
        return True

    async def _opened(
        self, record: HoldoutRecord, tenant: TenantId, proposal: Proposal, reported: Sequence[Reported], reporter: str
    ) -> Claimed | GateResult:
        policy = proposal.policy
        found = await record.answerers.get(policy, AnswererPart.ANSWERER)
        judge = await record.answerers.get(policy, AnswererPart.JUDGE)
        if found or await record.cases.held(policy):
            reported, reporter = (), ""  # no report replaces a holdout, or who answers it
        newest = await self._version(record, policy, is_reported=bool(reported))
        rows = await record.ledger.rows(policy, newest.since)
        through = asked_through(newest, rows)
        sizes = await record.cases.sizes(policy, through)
        kind = AnswererKind.REPORTED if reported else found[0].kind if found else ""
        query = await self._query(record, proposal, newest, len(rows) + 1, through)
        query = replace(query, answerer_kind=kind, reported_by=reporter)
        refusal = _refusal(query, len(rows) + 1, sizes, is_reported=bool(reported), is_answered=found is not None)
        if _has_seen(proposal, await record.cases.openers(policy, newest.since)):
            told = "its author has seen cases of this holdout: rotate it, or let somebody else propose"
            refusal = inconclusive(replace(query, query=0), Inconclusive.CASE_ERROR, told)
        if refusal is not None:
            await conclude_with(record, tenant, proposal.proposal_id, refusal)
            return refusal
        row = self._row(query, newest, proposal, len(reported) or sum(sizes))
        await record.ledger.open(policy, row)
        return Claimed(
            tenant=tenant,
            proposal=proposal,
            row=row,
            query=query,
            through=through,
            answerer=found[0] if found else None,
            judge=judge[0] if judge else None,
            model_seen=found[1] if found else "",
            answerers=() if reported else await record.answerers.asked(policy),
            reported=reported,
        )

    async def _query(
        self, record: HoldoutRecord, proposal: Proposal, version: Version, number: int, through: int
    ) -> Query:
        added = await _added(record, proposal.policy, version, through)
        return Query(
            query=number if number <= MAX_QUERIES else 0,
            alpha=alpha_of(number),
            holdout_version=version.digest,
            answerer_kind="",
            gate_time=self.clock.now(),
            added_cases=sum(added.values()),
            imported_by=tuple(added),
            unmet=unmet(proposal),
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


def asked_through(version: Version, rows: Sequence[LedgerRow]) -> int:
    """Give the newest version whose cases count: that of the first query since the rotation; what came later waits."""
    return rows[0].version_number if rows else version.number


async def _added(record: HoldoutRecord, policy: PolicyName, version: Version, through: int) -> Mapping[str, int]:
    """Count by importer what came after the first query of the ledger period before; nothing before there was one."""
    firsts = [row.version_number for row in await record.ledger.rows(policy, 1) if row.query == 1]
    before = [number for number in firsts if number < version.since]
    return await record.cases.added(policy, max(before), through) if before else {}


def _has_seen(proposal: Proposal, openers: Collection[str]) -> bool:
    """Say whether who answers for a proposal has seen cases of the holdout."""
    author = proposal.author_person
    return any(name == proposal.author or (author and person_in(name) == str(author)) for name in openers)


async def running_queries(record: HoldoutRecord, policy: PolicyName) -> list[LedgerRow]:
    """Read the queries of a holdout that are under way: one, or none."""
    newest = await record.cases.newest(policy)
    rows = [] if newest is None else await record.ledger.rows(policy, newest.since)
    return [row for row in rows if row.close_time is None]


async def end_query(
    record: HoldoutRecord,
    tenant: TenantId,
    policy: PolicyName,
    row: LedgerRow,
    found: tuple[Inconclusive, str],
    now: datetime,
) -> None:
    """End a query that is under way without a finding; it is used, and whoever runs it learns so at its next beat."""
    newest = await record.cases.newest(policy)
    await record.ledger.close(policy, replace(row, close_time=now, verdict=Verdict.INCONCLUSIVE.value))
    query = Query(
        query=row.query,
        alpha=row.alpha,
        holdout_version="" if newest is None else newest.digest,
        answerer_kind="",
        gate_time=now,
    )
    await conclude_with(record, tenant, row.proposal, inconclusive(query, *found))


async def conclude_with(record: HoldoutRecord, tenant: TenantId, proposal_id: str, result: GateResult) -> None:
    """Give a proposal its verdict, with its event; one that has left GATE_RUNNING keeps what it has."""
    change = Change(tenant=tenant, actor=KEDGE, because=told_to_all(result), at=result.gate_time)
    async with record.tenant() as ledger:
        proposal = await ledger.proposals.get(ProposalId(proposal_id))
        if proposal.state is ProposalState.GATE_RUNNING:
            await ledger.proposals.put(*conclude_gate(proposal, result, change))
