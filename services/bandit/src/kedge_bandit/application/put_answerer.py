"""Name who answers a policy's cases, and who judges: who does that sets the exam, so what it changes is undone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kedge_bandit.application.answer_ports import Connect
from kedge_bandit.application.claim_query import end_query, running_queries
from kedge_bandit.application.govern import Order
from kedge_bandit.application.holdout_ports import AnswererPart, AnswererSettings, HoldoutRecord, Holdouts
from kedge_bandit.application.ports import Clock
from kedge_bandit.application.serve_proposal import because_of
from kedge_bandit.application.watch_if_answered import watch_if_answered
from kedge_bandit.domain.audit import Fact
from kedge_bandit.domain.change import Change, subject_of
from kedge_bandit.domain.gate import Inconclusive
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.proposal import void
from kedge_bandit.domain.proposal_state import WAITING


@dataclass(frozen=True, slots=True)
class PutAnswerer:
    """Name who answers a policy's cases, and who judges."""

    holdouts: Holdouts
    connect: Connect
    clock: Clock

    async def __call__(
        self,
        tenant: TenantId,
        policy: PolicyName,
        answerer: AnswererSettings,
        judge: AnswererSettings | None,
        order: Order,
    ) -> None:
        """Put them; a query that runs ends, and is used, and what others had measured is voided.

        Raises:
            InvalidValue: one could not be asked from here.
            PolicyNotFound, ReasonRequired.
        """
        change = order.change(tenant, self.clock)
        given = {AnswererPart.ANSWERER: answerer} | ({} if judge is None else {AnswererPart.JUDGE: judge})
        for settings in given.values():
            self.connect.check_settings(tenant, settings)
        async with self.holdouts.open(tenant) as record:
            await record.cases.lock(policy)
            async with record.tenant() as ledger:
                await ledger.policies.get(policy)
                if not await ledger.policies.is_first(order.write):
                    return
            await _end_running(record, policy, change)
            if await _differs(record, policy, given):
                await _void_measured(record, policy, change)
            for part, settings in given.items():
                await record.answerers.put(policy, part, settings, change)
            facts = dict(fact for part, settings in given.items() for fact in _facts(part.value.lower(), settings))
            event = change.event("holdout.answerer_put", subject_of(tenant, policy), facts)
            await watch_if_answered(record, policy, change.at)
            async with record.tenant() as ledger:
                await ledger.audit.append(event)


async def _end_running(record: HoldoutRecord, policy: PolicyName, change: Change) -> None:
    """End the query that runs, as one that found nothing."""
    found = (Inconclusive.CASE_ERROR, "who answers was changed while it ran; the query is used")
    for row in await running_queries(record, policy):
        await end_query(record, change.tenant, policy, row, found, change.at)


async def _differs(record: HoldoutRecord, policy: PolicyName, given: Mapping[AnswererPart, AnswererSettings]) -> bool:
    known = {part: await record.answerers.get(policy, part) for part in given}
    return any(found is None or found[0] != given[part] for part, found in known.items())


async def _void_measured(record: HoldoutRecord, policy: PolicyName, change: Change) -> None:
    """Void what waits with a verdict that rests on who answered before."""
    told = because_of(change, "who answers the holdout was changed since it was measured: propose it again")
    async with record.tenant() as ledger:
        await ledger.proposals.hold(policy)
        for found in await ledger.proposals.in_state(policy, WAITING):
            if found.gate_result is not None and found.gate_result.answerers:
                await ledger.proposals.put(*void(found, told))


def _facts(part: str, settings: AnswererSettings) -> Iterator[tuple[str, Fact]]:
    for name in ("kind", "address", "model", "secret_name"):
        yield f"{part}_{name}", str(getattr(settings, name))
