"""Hold an audit chain against heads of it that were signed and kept elsewhere, and say what was done to it.

The hashes of a chain prove that nobody changed one event alone. They prove nothing against somebody who writes the
whole chain anew, or cuts its tail: that takes a head that he could not change, an anchor.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain

from kedge_bandit.domain.audit import GENESIS, ChainedEvent, row_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """The head of a tenant's chain as it was at a time; sequence 0 is a chain without events."""

    tenant: str
    sequence: int
    row_hash: str
    time: datetime

    @property
    def statement(self) -> bytes:
        """Say what is signed.

        >>> from datetime import datetime, UTC
        >>> Anchor(tenant="acme", sequence=2, row_hash="ab", time=datetime(2026, 1, 2, tzinfo=UTC)).statement.split()
        [b'kedge.anchor.v1', b'acme', b'2', b'ab', b'2026-01-02T00:00:00.000000+00:00']
        """
        time = self.time.astimezone(UTC).isoformat(timespec="microseconds")
        return "\n".join(("kedge.anchor.v1", self.tenant, str(self.sequence), self.row_hash, time)).encode()


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a chain.

    Attributes:
        sequence: of the first event that is not what it was.
        problem: what was done, in words.
    """

    sequence: int
    problem: str


def inspect(events: Sequence[ChainedEvent], tenant: str, anchors: Iterable[Anchor] = ()) -> Finding | None:
    """Find what was done to a chain, looked at from its first event on; None where nothing was.

    Args:
        events: all of the chain, in order.
        tenant: whose chain it should be.
        anchors: of the same tenant.

    >>> inspect([], "acme").problem
    'there are no events: even tenant.onboarded of tenants/acme is missing'
    """
    by_age = sorted(anchors, key=lambda anchor: anchor.sequence)
    return next(chain(_breaks(events), _strangers(events, tenant), _contradictions(events, by_age)), None)


def _strangers(events: Sequence[ChainedEvent], tenant: str) -> Iterator[Finding]:
    """Find that a chain is nobody's or somebody else's: a tenant's begins with how it was brought in."""
    wanted = ("tenant.onboarded", f"tenants/{tenant}")
    if not events:
        yield Finding(1, f"there are no events: even {' of '.join(wanted)} is missing")
    elif (events[0].verb, events[0].subject) != wanted:
        found = f"{events[0].verb} of {events[0].subject}"
        yield Finding(1, f"it begins with {found} and not with {' of '.join(wanted)}: it is another chain")


def _breaks(events: Sequence[ChainedEvent]) -> Iterator[Finding]:
    """Find links that do not hold, the first one first."""
    previous = GENESIS
    for sequence, event in enumerate(events, start=1):
        if event.row_hash != row_hash(event):
            yield Finding(event.sequence, f"event {event.sequence} was altered: its hash is not that of what it says")
        elif event.payload and hashlib.sha256(event.payload.encode()).hexdigest() != event.payload_hash:
            yield Finding(event.sequence, f"the facts of event {event.sequence} were altered")
        elif event.sequence != sequence:
            yield Finding(sequence, f"event {event.sequence} stands where {sequence} should: one was removed or put in")
        elif event.previous_hash != previous:
            yield Finding(
                sequence, f"event {sequence} does not follow from the one before: that one was changed or put in"
            )
        previous = event.row_hash


def _contradictions(events: Sequence[ChainedEvent], anchors: Sequence[Anchor]) -> Iterator[Finding]:
    """Find anchors that the chain does not lead through, the oldest first."""
    agreed = 0
    for anchor in anchors:
        seen = f"the anchor of {anchor.time.astimezone(UTC).isoformat(timespec='seconds')}"
        if anchor.sequence > len(events):
            missing = f"events {len(events) + 1} to {anchor.sequence} are missing: {seen} saw them; the tail was cut"
            yield Finding(len(events) + 1, missing)
        elif (events[anchor.sequence - 1].row_hash if anchor.sequence else GENESIS) != anchor.row_hash:
            rewritten = (
                f"the chain was rewritten from an event of {agreed + 1} to {anchor.sequence} on: "
                f"event {anchor.sequence} is not the one that {seen} saw"
            )
            yield Finding(agreed + 1, rewritten)
        agreed = anchor.sequence
