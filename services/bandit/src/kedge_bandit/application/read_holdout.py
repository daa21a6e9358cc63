"""Read what may be known of a holdout: its sizes, its power, its ledger; a few cases only, to who may see them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from kedge_bandit.application.answer_cases import CANDIDATE, INCUMBENT
from kedge_bandit.application.claim_query import asked_through
from kedge_bandit.application.holdout_ports import (
    Answer,
    AnswererPart,
    AnswererSettings,
    HoldoutRecord,
    Holdouts,
    KeptAnswer,
    LedgerRow,
    Version,
)
from kedge_bandit.application.keep_holdout import YEAR
from kedge_bandit.application.ports import Clock
from kedge_bandit.domain.audit import Actor
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.errors import IllegalTransition
from kedge_bandit.domain.holdout import HoldoutCase, Part, Reserved
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.involvement import is_author
from kedge_bandit.domain.peek import USUAL_VARIANCE, Power, power
from kedge_bandit.domain.principal import Person
from kedge_bandit.domain.proposal import ProposalId, proposal_name
from kedge_bandit.domain.proposal_errors import SecondPersonRequired
from kedge_bandit.domain.rotation import STALE_AFTER
from kedge_bandit.domain.verdict import too_few

MOST_OPENED: Final = 5
"""Cases that are shown of each side: the most improved and the most harmed."""
RESERVED_SHOWN: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldoutStatus:
    """A holdout without its cases.

    Attributes:
        version: None: there is none yet.
        sensor, gate, adversarial: cases; `gate` without the adversarial ones.
        kinds: cases by kind of check.
        reserved: reserved episodes that could become cases; at most 200 are counted.
        advice: what to do next, in sentences.
    """

    version: Version | None
    sensor: int
    gate: int
    adversarial: int
    kinds: Mapping[str, int]
    power: Power
    ledger: Sequence[LedgerRow]
    rotations: int
    opened: int
    reserved: int
    advice: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GetHoldout:
    """Say how a holdout stands."""

    holdouts: Holdouts
    clock: Clock

    async def __call__(self, tenant: TenantId, policy: PolicyName) -> HoldoutStatus:
        """Read it. Raises PolicyNotFound, TenantDenied."""
        now = self.clock.now()
        async with self.holdouts.open(tenant) as record:
            async with record.tenant() as ledger:
                await ledger.policies.get(policy)
            return await status_of(record, policy, now)


async def status_of(record: HoldoutRecord, policy: PolicyName, now: datetime) -> HoldoutStatus:
    """Read a holdout's status in an open transaction."""
    version = await record.cases.newest(policy)
    rows = [] if version is None else await record.ledger.rows(policy, version.since)
    counts = await record.cases.kinds(policy)
    gate, adversarial = (0, 0) if version is None else await record.cases.sizes(policy, asked_through(version, rows))
    sensor = sum(count for (_, part, _), count in counts.items() if part is Part.SENSOR)
    measured = [row.discordance for row in rows if row.discordance]
    now_possible = power(
        gate=gate,
        adversarial=adversarial,
        sensor=sensor,
        queries=len(rows),
        variance=measured[-1] if measured else USUAL_VARIANCE,
    )
    kinds: dict[str, int] = {}
    for (kind, _, _), count in counts.items():
        kinds[kind] = kinds.get(kind, 0) + count
    held = await record.cases.held(policy)
    opened = sum(case.is_opened for case in held)
    late = sum(case.part == Part.GATE and not case.is_opened for case in held) - gate - adversarial
    has_answerer = await record.answerers.get(policy, AnswererPart.ANSWERER) is not None
    return HoldoutStatus(
        version=version,
        sensor=sensor,
        gate=gate,
        adversarial=adversarial,
        kinds=dict(sorted(kinds.items())),
        power=now_possible,
        ledger=rows,
        rotations=await record.cases.rotations(policy, now - YEAR),
        opened=opened,
        reserved=len(await record.reserved(policy, after="", limit=RESERVED_SHOWN)),
        advice=(
            *too_few(gate, adversarial),
            *_advice(version, now_possible, now, opened=opened, late=late, has_answerer=has_answerer),
        ),
    )


def _advice(
    version: Version | None, now_possible: Power, now: datetime, *, opened: int, late: int, has_answerer: bool
) -> list[str]:
    """Say what to do about a holdout beside importing more."""
    found = []
    if late:
        found.append(f"{late} cases came after the first query: they are asked from the next rotation on")
    if not has_answerer:
        found.append("nobody answers the cases: name who does with `kedge holdout answerer`")
    if version is not None and version.stale_because:
        found.append(f"the version is stale: {version.stale_because}; the next query scores the incumbent anew")
    if version is not None and now - version.create_time > STALE_AFTER:
        found.append(f"the version is {(now - version.create_time).days} days old: see `kedge holdout rotate --plan`")
    if not now_possible.next_alpha:
        found.append("all queries since the last rotation are used: rotate the holdout")
    if opened:
        found.append(f"{opened} cases were opened, or resemble what may be trained on: they leave at the next rotation")
    return found


@dataclass(frozen=True, slots=True)
class ProposeCases:
    """List reserved episodes, which no trainer sees, for a person who makes cases of them."""

    holdouts: Holdouts

    async def __call__(self, tenant: TenantId, policy: PolicyName, *, after: str, limit: int) -> Sequence[Reserved]:
        """List them by id. Raises PolicyNotFound, TenantDenied."""
        async with self.holdouts.open(tenant) as record:
            async with record.tenant() as ledger:
                await ledger.policies.get(policy)
            return await record.reserved(policy, after=after, limit=limit)


@dataclass(frozen=True, slots=True)
class GetAnswerer:
    """Read who answers, and who judges; None: nobody."""

    holdouts: Holdouts

    async def __call__(
        self, tenant: TenantId, policy: PolicyName
    ) -> tuple[AnswererSettings | None, AnswererSettings | None]:
        """Read both. Raises PolicyNotFound, TenantDenied."""
        async with self.holdouts.open(tenant) as record:
            async with record.tenant() as ledger:
                await ledger.policies.get(policy)
            answerer = await record.answerers.get(policy, AnswererPart.ANSWERER)
            judge = await record.answerers.get(policy, AnswererPart.JUDGE)
        return answerer and answerer[0], judge and judge[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedCase:
    """One case with what both sides answered, and their scores in [0, 1]."""

    case: HoldoutCase
    candidate: Answer
    incumbent: Answer
    candidate_score: float
    incumbent_score: float

    @property
    def lift(self) -> float:
        """What the candidate gained."""
        return self.candidate_score - self.incumbent_score


@dataclass(frozen=True, slots=True)
class OpenCases:
    """Show the cases that a proposal most improved and most harmed, to a second person; audited, and they leave."""

    holdouts: Holdouts
    clock: Clock

    async def __call__(
        self, tenant: TenantId, proposal_id: str, actor: Actor, person: Person | None, because: str
    ) -> tuple[Sequence[OpenedCase], Sequence[OpenedCase]]:
        """Open them; the first are improved, the second harmed, at most five each, the largest first.

        Raises:
            SecondPersonRequired: who asks has proposed it.
            IllegalTransition: its newest query has not ended, or kept no answers.
            ProposalNotFound, ReasonRequired, TenantDenied.
        """
        change = Change(tenant=tenant, actor=actor, because=because, at=self.clock.now())
        async with self.holdouts.open(tenant) as record:
            async with record.tenant() as ledger:
                proposal = await ledger.proposals.get(ProposalId(proposal_id))
            if is_author(proposal, actor, person):
                raise SecondPersonRequired("who proposed it does not see the cases that it was measured on")
            found = await record.ledger.of_proposal(proposal_id)
            if found is None or found[1].close_time is None:
                raise IllegalTransition("no query of this proposal has ended: wait for its verdict")
            policy, row = found
            cases = await self._paired(record, policy, await record.ledger.answers(policy, row))
            if not cases:
                raise IllegalTransition(
                    "its scores were reported: their cases are with the platform that reported them"
                )
            improved = sorted((one for one in cases if one.lift > 0), key=lambda one: -one.lift)[:MOST_OPENED]
            harmed = sorted((one for one in cases if one.lift < 0), key=lambda one: one.lift)[:MOST_OPENED]
            hashes = [one.case.case_hash for one in (*improved, *harmed)]
            await record.cases.mark_opened(policy, hashes, change.at, actor.name)
            facts = {"improved": len(improved), "harmed": len(harmed), "query": row.query}
            event = change.event("holdout.cases_opened", proposal_name(tenant, proposal_id), facts)
            async with record.tenant() as ledger:
                await ledger.audit.append(event)
        return improved, harmed

    async def _paired(
        self, record: HoldoutRecord, policy: PolicyName, kept: Sequence[KeptAnswer]
    ) -> Sequence[OpenedCase]:
        sides = {(one.case_hash, one.side): one for one in kept}
        cases = await record.cases.of(policy, {one.case_hash for one in kept})
        return [
            OpenedCase(
                case=case,
                candidate=sides[case.case_hash, CANDIDATE].answer,
                incumbent=sides[case.case_hash, INCUMBENT].answer,
                candidate_score=sides[case.case_hash, CANDIDATE].score,
                incumbent_score=sides[case.case_hash, INCUMBENT].score,
            )
            for case in sorted(cases, key=lambda case: case.case_hash)
        ]
