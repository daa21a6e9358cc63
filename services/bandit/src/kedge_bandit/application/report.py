"""Report: decisions that clients made in their own processes are recomputed one by one, and written where true."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kedge_bandit.application.ports import Clock, Ledger, Ledgers, RowWriter, Serving, Snapshot
from kedge_bandit.domain.decision import Decision, SetAside
from kedge_bandit.domain.errors import BatchTooLarge, IdempotencyConflict, InvalidValue, KedgeError
from kedge_bandit.domain.identifiers import DecisionId, PolicyName, TenantId
from kedge_bandit.domain.local_decision import (
    LEASE,
    SKEW,
    Grounds,
    ModeHistory,
    is_taken,
    mode_history,
    refusal_of,
    set_aside,
)
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.published import COLD, Allocation

MAX_DECISIONS = 500
AT_A_STRETCH = 25
"""Decisions that are recomputed before others have their turn."""
CONFLICT = "CONFLICT"
_WRITTEN = {"RECORDED": "", "SUPERSEDED": CONFLICT, "REJECTED": InvalidValue.reason}


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one reported decision.

    Attributes:
        refusal: why it was not accepted, in one word; empty where it was.
        set_aside: why an accepted one is not learned from.
    """

    refusal: str = ""
    set_aside: SetAside | None = None


@dataclass(frozen=True, slots=True)
class ReportDecisions:
    """Verify a batch of decisions and write those that are what the server would have decided."""

    snapshot: Snapshot
    ledgers: Ledgers
    rows: RowWriter
    clock: Clock

    async def __call__(
        self, tenant: TenantId, policy: PolicyName, reported: Sequence[Decision | KedgeError]
    ) -> list[Answer]:
        """Judge each by itself; what is accepted is committed when this returns.

        Args:
            tenant: whose decisions.
            policy: of all of them.
            reported: in order; one that could not even be read comes as its error.

        Raises:
            BatchTooLarge: none or more than 500.
            TenantDenied, PolicyNotFound: there is no such policy.
            QueueFull, StoreUnavailable: nothing of the batch was recorded; send it again.
        """
        if not 1 <= len(reported) <= MAX_DECISIONS:
            raise BatchTooLarge(f"{len(reported)} decisions: send 1 to {MAX_DECISIONS} in a batch")
        serving = self.snapshot.serving(tenant, policy)
        first: dict[DecisionId, Decision] = {}
        for said in reported:
            if isinstance(said, Decision):
                first.setdefault(said.decision_id, said)
        answers, fresh = await self._judged(tenant, serving, first)
        if fresh:
            statuses = await self.rows.decisions(tenant, fresh)
            for made, status in zip(fresh, statuses, strict=True):
                answers[made.decision_id] = Answer(_WRITTEN[status], made.set_aside)
        return [_answer(said, first, answers) for said in reported]

    async def _judged(
        self, tenant: TenantId, serving: Serving, first: Mapping[DecisionId, Decision]
    ) -> tuple[dict[DecisionId, Answer], list[Decision]]:
        """Answer what is known or refused, and give out what is to be written."""
        answers: dict[DecisionId, Answer] = {}
        fresh: list[Decision] = []
        if not first:
            return answers, fresh
        current = {} if self.snapshot.stale else serving.allocations
        async with self.ledgers.open(tenant) as ledger:
            known = await ledger.decisions.find(first.keys())
            source = await _Source.read(ledger, current, list(first.values()), self.clock.now())
            for place, (decision_id, said) in enumerate(first.items()):
                if place % AT_A_STRETCH == 0:
                    await asyncio.sleep(0)  # others decide on this loop
                if decision_id in known:
                    answers[decision_id] = _again(said, known[decision_id])
                    continue
                grounds = await source.grounds(said)
                refusal = refusal_of(said, grounds)
                if refusal is None:
                    fresh.append(replace(said, is_local=True, set_aside=set_aside(said, grounds)))
                else:
                    answers[decision_id] = Answer(refusal)
        return answers, fresh


@dataclass(slots=True)
class _Source:
    """Read what decisions are judged by, each thing once for a batch."""

    ledger: Ledger
    current: Mapping[str, Allocation]
    policies: Sequence[Policy]
    modes: ModeHistory
    allocations: dict[int, Allocation]
    now: datetime
    replaced: dict[tuple[str, int], datetime | None]

    @classmethod
    async def read(
        cls, ledger: Ledger, current: Mapping[str, Allocation], said: Sequence[Decision], now: datetime
    ) -> "_Source":
        policy = said[0].policy
        times = [one.time for one in said if is_taken(one.time, now=now)] or [now]
        allocations = {allocation.version: allocation for allocation in current.values()}
        missing = {one.allocation_version for one in said} - {0, *allocations}
        if missing:
            allocations |= {found.version: found for found in await ledger.decisions.published(policy, missing)}
        return cls(
            ledger,
            current,
            await ledger.policies.in_force(policy, min(times) - LEASE, max(times) + SKEW),
            mode_history(await ledger.policies.mode_changes(policy)),
            allocations,
            now,
            {},
        )

    async def grounds(self, said: Decision) -> Grounds:
        """Choose what one decision is judged by."""
        known: list[Policy] = []
        for policy in self.policies if is_taken(said.time, now=self.now) else ():
            if policy.update_time <= said.time + SKEW:
                known.append(policy)
            if policy.update_time <= said.time - LEASE:
                break
        allocation = self.allocations.get(said.allocation_version)
        return Grounds(
            policies=known,
            allocation=allocation,
            replaced_time=None if allocation is None else await self._replaced(said.bucket, allocation),
            modes=self.modes,
            now=self.now,
        )

    async def _replaced(self, bucket: str, allocation: Allocation) -> datetime | None:
        if (self.current.get(bucket) or self.current.get(COLD)) is allocation:
            return None
        key = bucket, allocation.version
        if key not in self.replaced:
            self.replaced[key] = await self.ledger.decisions.replaced_time(allocation, bucket)
        return self.replaced[key]


def _again(said: Decision, known: Decision) -> Answer:
    """Repeat the first answer to a decision that is recorded already; the same id for another is refused."""
    if replace(known, superseded=False, is_local=False, set_aside=None) != said:
        return Answer(IdempotencyConflict.reason)
    return Answer(CONFLICT if known.superseded else "", known.set_aside)


def _answer(
    said: Decision | KedgeError, first: Mapping[DecisionId, Decision], answers: Mapping[DecisionId, Answer]
) -> Answer:
    if isinstance(said, KedgeError):
        return Answer(said.reason)
    if first[said.decision_id] != said:
        return Answer(IdempotencyConflict.reason)
    return answers[said.decision_id]
