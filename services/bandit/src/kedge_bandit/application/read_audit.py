"""Read a tenant's audit chain: page by page, as it grows, or all of it to see whether it holds."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from kedge_bandit.application.administration_ports import GovernedLedgers
from kedge_bandit.domain.audit import GENESIS, ChainedEvent, first_broken
from kedge_bandit.domain.identifiers import TenantId

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class ListAudit:
    """List events newest first."""

    ledgers: GovernedLedgers

    async def __call__(self, tenant: TenantId, *, before: int | None, limit: int) -> Sequence[ChainedEvent]:
        """Read those before a sequence. Raises TenantDenied."""
        async with self.ledgers.open(tenant) as ledger:
            return await ledger.audit.list(before=before, limit=limit)


@dataclass(frozen=True, slots=True)
class WatchAudit:
    """Follow the chain as it grows, by asking again after a pause."""

    ledgers: GovernedLedgers
    pause_seconds: float = 1.0

    async def __call__(self, tenant: TenantId, *, after: int) -> AsyncIterator[ChainedEvent]:
        """Give the events after a sequence, for ever. Raises TenantDenied."""
        while True:
            async with self.ledgers.open(tenant) as ledger:
                events = await ledger.audit.in_order(after=after, limit=_PAGE)
            for event in events:
                yield event
                after = event.sequence
            if len(events) < _PAGE:
                await asyncio.sleep(self.pause_seconds)


@dataclass(frozen=True, slots=True)
class ChainReport:
    """What a check of the chain found.

    Attributes:
        events: events that were read.
        first_broken_sequence: None when the chain holds.
        detail: what to do, or that nothing is to be done.
    """

    events: int
    first_broken_sequence: int | None
    detail: str


@dataclass(frozen=True, slots=True)
class VerifyAudit:
    """Recompute every hash of the chain, and compare its end with the recorded head."""

    ledgers: GovernedLedgers

    async def __call__(self, tenant: TenantId) -> ChainReport:
        """Check it. Raises TenantDenied."""
        count, last = 0, GENESIS
        async with self.ledgers.open(tenant) as ledger:
            head = await ledger.audit.head()
            while count < head.sequence:
                events = await ledger.audit.in_order(after=count, limit=min(_PAGE, head.sequence - count))
                broken = first_broken(list(events), previous_hash=last, sequence=count + 1)
                if broken is not None:
                    return ChainReport(count + len(events), broken, f"event {broken} was changed, removed or put in")
                if not events:
                    missing = f"events {count + 1} to {head.sequence} are missing: the chain was cut"
                    return ChainReport(count, count + 1, missing)
                count, last = count + len(events), events[-1].row_hash
            if last != head.row_hash:
                return ChainReport(count, max(count, 1), f"the recorded head is not the hash of event {count}")
        return ChainReport(count, None, f"all {count} events follow from the one before")
