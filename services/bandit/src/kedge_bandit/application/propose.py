"""Propose: submit a candidate, hand it to the gate, take it back, say and report something about it."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from kedge_bandit.application.govern import Order
from kedge_bandit.application.ports import Clock
from kedge_bandit.application.proposal_ports import Comment, ProposingLedger, ProposingLedgers, Reported
from kedge_bandit.domain.candidate import Candidate, ProposalKind
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.consent import new_content
from kedge_bandit.domain.errors import BatchTooLarge, IllegalTransition, InvalidValue, PermissionDenied
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.involvement import is_author
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.principal import Person, Role
from kedge_bandit.domain.promotion import promote
from kedge_bandit.domain.proposal import (
    BLOCK,
    Proposal,
    ProposalId,
    Step,
    proposal_name,
    report_evaluation,
    start_gate,
    submit,
    waive_gate,
    withdraw,
)
from kedge_bandit.domain.proposal_errors import ProposalNotFound, RecentlyReverted, SecondPersonRequired
from kedge_bandit.domain.proposal_state import OPEN, ProposalState

MAX_LINEAGE: Final = 16 * 1024
MAX_COMMENT: Final = 4_000
MAX_COMMENTS: Final = 100
"""On one proposal, so that it can be read in one message."""
MAX_SCORES: Final = 10_000
MAX_SLICE: Final = 64
_ID_DIGITS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What somebody proposes.

    Attributes:
        person: who; None for a program.
        hold: leave it SUBMITTED.
    """

    policy: PolicyName
    candidate: Candidate
    person: Person | None
    lineage: str = ""
    supersedes: str = ""
    hold: bool = False


@dataclass(frozen=True, slots=True)
class SubmitProposal:
    """Propose a candidate; the gate process takes it from there."""

    ledgers: ProposingLedgers
    clock: Clock

    async def __call__(self, tenant: TenantId, wish: Wish, order: Order) -> Proposal:
        """Submit it.

        Raises:
            PolicyNotFound, ProposalNotFound, InvalidValue.
            IllegalTransition: it is served, or proposed, already, or could not be served.
            RecentlyReverted: the same content was reverted within 7 days.
        """
        change = order.change(tenant, self.clock)
        _check_lineage(wish.lineage)
        async with self.ledgers.open(tenant) as ledger:
            return await submitted(ledger, wish, order, change)


async def submitted(ledger: ProposingLedger, wish: Wish, order: Order, change: Change) -> Proposal:
    """Submit a wish within an open ledger; the same request again gives the first proposal."""
    proposal_id = _id_of(change.tenant, order)
    if not await ledger.policies.is_first(order.write):
        return await ledger.proposals.get(proposal_id)
    policy = await ledger.policies.get(wish.policy)
    proposal, event = submit(
        proposal_id,
        wish.policy,
        policy.spec,
        wish.candidate,
        change,
        person=wish.person,
        lineage=wish.lineage,
        supersedes=wish.supersedes,
    )
    _check_candidate(policy, wish.candidate, change)
    await _check_content(ledger, proposal, change)
    await ledger.proposals.put(proposal, event)
    if wish.supersedes:
        await _take_back(ledger, proposal, change)
    if not wish.hold:
        proposal = await _to_the_gate(ledger, proposal, change)
    return proposal


@dataclass(frozen=True, slots=True)
class RunGate:
    """Hand a proposal to the gate; the gate process runs it."""

    ledgers: ProposingLedgers
    clock: Clock

    async def __call__(self, tenant: TenantId, proposal: ProposalId, order: Order) -> Proposal:
        """Start it. Raises ProposalNotFound, IllegalTransition."""
        change = order.change(tenant, self.clock)
        async with self.ledgers.open(tenant) as ledger:
            found = await ledger.proposals.get(proposal)
            if not await ledger.policies.is_first(order.write):
                return found
            return await _to_the_gate(ledger, found, change)


@dataclass(frozen=True, slots=True)
class WithdrawProposal:
    """Take a proposal back; its author may, and an admin."""

    ledgers: ProposingLedgers
    clock: Clock

    async def __call__(
        self, tenant: TenantId, proposal: ProposalId, order: Order, *, person: Person | None, role: Role
    ) -> Proposal:
        """Withdraw it. Raises ProposalNotFound, IllegalTransition, PermissionDenied for another's."""
        change = order.change(tenant, self.clock)
        async with self.ledgers.open(tenant) as ledger:
            found = await ledger.proposals.get(proposal)
            if not await ledger.policies.is_first(order.write):
                return found
            if not is_author(found, order.actor, person) and role not in (Role.ADMIN, Role.OPERATOR):
                raise PermissionDenied(
                    "a proposal is withdrawn by who proposed it, or by an admin: comment, or reject it"
                )
            return await _stored(ledger, withdraw(found, change))


@dataclass(frozen=True, slots=True)
class CommentProposal:
    """Say something about a proposal."""

    ledgers: ProposingLedgers
    clock: Clock

    async def __call__(self, tenant: TenantId, proposal: ProposalId, text: str, order: Order) -> Comment:
        """Add it. Raises ProposalNotFound, InvalidValue."""
        if not text.strip() or len(text) > MAX_COMMENT or "\0" in text:
            raise InvalidValue("text", f"{len(text)} characters", f"1 to {MAX_COMMENT:,} without a zero character")
        comment = Comment(order.actor.name, text, self.clock.now())
        async with self.ledgers.open(tenant) as ledger:
            await ledger.proposals.get(proposal)
            if await ledger.policies.is_first(order.write):
                if len(await ledger.notes.comments(proposal)) >= MAX_COMMENTS:
                    raise InvalidValue("comments", str(MAX_COMMENTS), f"at most {MAX_COMMENTS}: this proposal has them")
                await ledger.notes.comment(proposal, comment)
        return comment


@dataclass(frozen=True, slots=True)
class ReportEvaluation:
    """Take what a platform's own harness measured, case by case."""

    ledgers: ProposingLedgers
    clock: Clock

    async def __call__(
        self,
        tenant: TenantId,
        proposal: ProposalId,
        scores: Sequence[Reported],
        order: Order,
        *,
        person: Person | None = None,
    ) -> Proposal:
        """Store it.

        Raises:
            SecondPersonRequired: who reports has proposed it.
            IllegalTransition: the gate has concluded, or there is a holdout, which no report replaces.
            ProposalNotFound, InvalidValue, BatchTooLarge.
        """
        _check_scores(scores)
        change = order.change(tenant, self.clock)
        async with self.ledgers.open(tenant) as ledger:
            found = await ledger.proposals.get(proposal)
            if not await ledger.policies.is_first(order.write):
                return found
            if is_author(found, order.actor, person):
                raise SecondPersonRequired("who proposed it does not report its scores: let another harness do it")
            if await ledger.proposals.holdout_version(found.policy):
                raise IllegalTransition("this policy has a holdout: the gate asks it, and no report replaces it")
            name = order.actor.name
            scores_hash = await ledger.notes.put_evaluation(proposal, scores, actor=name, at=change.at)
            return await _stored(ledger, report_evaluation(found, scores_hash, change, cases=len(scores)))


async def _stored(ledger: ProposingLedger, step: Step) -> Proposal:
    await ledger.proposals.put(*step)
    return step[0]


async def _to_the_gate(ledger: ProposingLedger, proposal: Proposal, change: Change) -> Proposal:
    running = await _stored(ledger, start_gate(proposal, change))
    return running if running.kind.needs_query else await _stored(ledger, waive_gate(running, change))


async def _take_back(ledger: ProposingLedger, new: Proposal, change: Change) -> None:
    """Withdraw the proposal that a new one improves on, where its author did that and it can still be withdrawn."""
    old = await ledger.proposals.get(ProposalId(new.supersedes))
    if old.policy != new.policy:
        raise ProposalNotFound(new.supersedes)
    if is_author(old, change.actor, new.author_person) and old.state in OPEN - {
        ProposalState.GATE_RUNNING,
        ProposalState.APPROVED,
    }:
        await _stored(ledger, withdraw(old, change))


def _check_candidate(policy: Policy, candidate: Candidate, change: Change) -> None:
    """Refuse now what could not be served once it is approved."""
    if candidate.arm is not None and not new_content(policy.spec, candidate.arm):
        raise IllegalTransition(f"arm {candidate.arm.arm_id} is live already: nothing to propose")
    promote(policy, candidate, change)


async def _check_content(ledger: ProposingLedger, new: Proposal, change: Change) -> None:
    for old in await ledger.proposals.same_content(new):
        if old.state in OPEN and old.proposal_id != new.supersedes:
            name = proposal_name(change.tenant, old.proposal_id)
            raise IllegalTransition(f"{name} proposes the same content and is {old.state}: comment on that one")
        if old.state is ProposalState.REVERTED and change.at < old.update_time + BLOCK and _blocks(old.kind):
            raise RecentlyReverted(proposal_name(change.tenant, old.proposal_id), old.update_time + BLOCK)


def _blocks(kind: ProposalKind) -> bool:
    """Say whether going back forbids to come again: not for a floor, which goes up and down."""
    return kind is not ProposalKind.FLOOR_STAGE


def _check_lineage(lineage: str) -> None:
    if not lineage:
        return
    try:
        stated = json.loads(lineage) if len(lineage) <= MAX_LINEAGE else None
    except (ValueError, RecursionError):
        stated = None
    if not isinstance(stated, dict) or "\0" in lineage or "\\u0000" in lineage:
        raise InvalidValue(
            "lineage_json", f"{len(lineage)} characters", f"a JSON object of at most {MAX_LINEAGE} characters"
        )


def _check_scores(scores: Sequence[Reported]) -> None:
    if not 1 <= len(scores) <= MAX_SCORES:
        raise BatchTooLarge(f"{len(scores)} scores: send 1 to {MAX_SCORES:,} at once")
    if len({one.case_id for one in scores}) != len(scores):
        raise InvalidValue("case_id", "used twice", "each case once")
    for one in scores:
        known = [score for score in (one.candidate_score, one.incumbent_score) if score is not None]
        if not all(0 <= score <= 1 for score in known):
            raise InvalidValue("score", " and ".join(map(str, known)), "numbers in [0, 1]")
        if len(one.slice) > MAX_SLICE or not one.slice.isprintable():
            raise InvalidValue("slice", repr(one.slice[:40]), f"at most {MAX_SLICE} printable characters")


def _id_of(tenant: TenantId, order: Order) -> ProposalId:
    """Make an id; the same request has the same one."""
    seed = f"{tenant}/{order.write.request_id}" if order.write.request_id else uuid4().hex
    return ProposalId(f"p-{hashlib.sha256(seed.encode()).hexdigest()[:_ID_DIGITS]}")
