"""Read proposals: one with its way and what was said of it, lists, and each step as it is taken; and the windows."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kedge_bandit.application.govern import Order
from kedge_bandit.application.ports import Clock
from kedge_bandit.application.proposal_ports import Comment, ProposingLedgers, StepTaken, Wanted, Window
from kedge_bandit.domain.audit import KEDGE
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.errors import (
    BatchTooLarge,
    ExplorationRefused,
    IllegalTransition,
    InvalidPolicy,
    InvalidValue,
)
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.policy import Policy, PolicySpec
from kedge_bandit.domain.preview import Preview, preview
from kedge_bandit.domain.promotion import promote
from kedge_bandit.domain.proposal import Proposal, ProposalId
from kedge_bandit.domain.proposal_state import OPEN
from kedge_bandit.domain.rescore import Rescored, rescore

MAX_WINDOWS: Final = 100
MAX_PREVIEWS: Final = 50
_PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class Told:
    """A proposal with its policy as it is now, its way, and what was said of it."""

    proposal: Proposal
    policy: Policy
    steps: Sequence[StepTaken]
    comments: Sequence[Comment]
    previews: Sequence[Preview]
    rescored: Sequence[Rescored]


@dataclass(frozen=True, slots=True)
class ReadProposals:
    """Read proposals of a tenant."""

    ledgers: ProposingLedgers
    pause_seconds: float = 0.5

    async def one(self, tenant: TenantId, proposal: ProposalId) -> Told:
        """Read one. Raises ProposalNotFound."""
        async with self.ledgers.open(tenant) as ledger:
            found = await ledger.proposals.get(proposal)
            policy = await ledger.policies.get(found.policy)
            allocations = await ledger.proposals.allocations(found.policy, limit=MAX_PREVIEWS)
            after = _after(found, policy)
            is_judged_anew = after is not None and after.reward != policy.spec.reward
            judged = await ledger.proposals.judged(found.policy) if is_judged_anew else ()
            return Told(
                found,
                policy,
                await ledger.proposals.steps(proposal),
                await ledger.notes.comments(proposal),
                [] if after is None else [preview(allocation, after) for allocation in allocations],
                () if after is None else rescore(judged, after.reward),
            )

    async def page(
        self, tenant: TenantId, wanted: Wanted, *, before: int | None, limit: int
    ) -> Sequence[tuple[int, Proposal]]:
        """Read those with the newest steps first, each with the place of that step in the audit chain."""
        async with self.ledgers.open(tenant) as ledger:
            return await ledger.proposals.list(wanted, before=before, limit=limit)

    async def follow(self, tenant: TenantId, proposal: ProposalId | None) -> AsyncIterator[Proposal]:
        """Give every proposal, or one, as it is, and again after each step, for ever. Raises ProposalNotFound."""
        if proposal is not None:
            async with self.ledgers.open(tenant) as ledger:
                await ledger.proposals.get(proposal)
        after = 0
        while True:
            async with self.ledgers.open(tenant) as ledger:
                stepped = await ledger.proposals.stepped(after=after, limit=_PAGE)
            for after, found in stepped:  # noqa: B007 - the last one is where to go on
                if proposal is None or found.proposal_id == proposal:
                    yield found
            if len(stepped) < _PAGE:
                await asyncio.sleep(self.pause_seconds)


def _after(found: Proposal, policy: Policy) -> PolicySpec | None:
    """Give what a proposal that is not decided would make of the policy; None where it could not be served."""
    if found.state not in OPEN:
        return None
    would = Change(tenant=TenantId(""), actor=KEDGE, because="a preview", at=found.update_time)
    try:
        return promote(policy, found.candidate, would)[0].spec
    except (IllegalTransition, InvalidPolicy, ExplorationRefused):
        return None


@dataclass(frozen=True, slots=True)
class NotNow:
    """State and read the windows in which nothing starts to serve."""

    ledgers: ProposingLedgers
    clock: Clock

    async def put(self, tenant: TenantId, windows: Sequence[Window], order: Order) -> Sequence[Window]:
        """Replace all windows. Raises InvalidValue, BatchTooLarge, ReasonRequired, PolicyNotFound."""
        if len(windows) > MAX_WINDOWS:
            raise BatchTooLarge(f"{len(windows)} windows: state at most {MAX_WINDOWS}")
        if len({(window.policy, window.start) for window in windows}) != len(windows):
            raise InvalidValue("windows", "two of one policy with one start_time", "one of them")
        change = order.change(tenant, self.clock)
        facts = {f"{window.policy or '*'} {window.start.isoformat()}": window.end.isoformat() for window in windows}
        event = change.event("not_now.put", f"tenants/{tenant}", facts)
        async with self.ledgers.open(tenant) as ledger:
            if await ledger.policies.is_first(order.write):
                for window in windows:
                    if window.policy is not None:
                        await ledger.policies.get(window.policy)
                await ledger.notes.put_windows(windows, event)
            return await ledger.notes.windows()

    async def read(self, tenant: TenantId) -> Sequence[Window]:
        """Read all windows."""
        async with self.ledgers.open(tenant) as ledger:
            return await ledger.notes.windows()


@dataclass(frozen=True, slots=True)
class RecordPreference:
    """Record which of two episodes' answers a person prefers."""

    ledgers: ProposingLedgers
    clock: Clock

    async def __call__(
        self, tenant: TenantId, policy: PolicyName, key: str, facts: Mapping[str, str], *, actor: str
    ) -> bool:
        """Record it; False when it was recorded before. Raises PolicyNotFound, IdempotencyConflict."""
        async with self.ledgers.open(tenant) as ledger:
            await ledger.policies.get(policy)
            told = {"policy": policy, **facts, "actor": actor, "record_time": self.clock.now()}
            return await ledger.notes.prefer(key, told)
