"""Record who changed what and why, each event chained to the one before by its hash."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kedge_bandit.domain.errors import ReasonRequired

GENESIS = "0" * 64
MAX_REASON = 1000

Fact = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts: a principal's name, e.g. "key:core-app", or "kedge" for the service itself.

    Attributes:
        is_operator: the operator, or a program that the operator made; kept in no record.
    """

    name: str
    is_operator: bool = field(default=False, compare=False)


KEDGE = Actor("kedge")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """One change, before it has a place in the chain.

    Attributes:
        verb: past participle after its noun, e.g. "policy.frozen".
        subject: resource name.
        because: 1 to 1,000 characters.
        payload: facts of the change; may be erased later, its hash never.
    """

    time: datetime
    actor: Actor
    verb: str
    subject: str
    because: str
    payload: Mapping[str, Fact]

    def __post_init__(self) -> None:
        """Refuse a change without a reason."""
        if not self.because.strip() or len(self.because) > MAX_REASON:
            raise ReasonRequired("say why, in 1 to 1,000 characters")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainedEvent:
    """An event at its place in the chain; hashes are SHA-256 in hex."""

    sequence: int
    time: datetime
    actor: str
    verb: str
    subject: str
    because: str
    payload: str
    payload_hash: str
    previous_hash: str
    row_hash: str


def row_hash(event: ChainedEvent) -> str:
    """Hash everything of the event but its payload, which enters by its own hash.

    H(previous_hash, sequence, time, actor, verb, subject, because, payload_hash); as JSON, so no field runs into the
    next.
    """
    fields = (
        event.previous_hash,
        event.sequence,
        event.time.astimezone(UTC).isoformat(timespec="microseconds"),
        event.actor,
        event.verb,
        event.subject,
        event.because,
        event.payload_hash,
    )
    return hashlib.sha256(json.dumps(fields, ensure_ascii=True, separators=(",", ":")).encode()).hexdigest()


def chain(event: AuditEvent, *, sequence: int, previous_hash: str) -> ChainedEvent:
    """Give an event its place after the head of the chain."""
    payload = json.dumps(dict(event.payload), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    draft = ChainedEvent(
        sequence=sequence,
        time=event.time,
        actor=event.actor.name,
        verb=event.verb,
        subject=event.subject,
        because=event.because,
        payload=payload,
        payload_hash=hashlib.sha256(payload.encode()).hexdigest(),
        previous_hash=previous_hash,
        row_hash="",
    )
    return ChainedEvent(
        **{name: getattr(draft, name) for name in ChainedEvent.__slots__ if name != "row_hash"},
        row_hash=row_hash(draft),
    )


def first_broken(events: list[ChainedEvent], *, previous_hash: str = GENESIS, sequence: int = 1) -> int | None:
    """Find the sequence of the first event that does not follow from the one before; None when the chain holds."""
    for event in events:
        intact = (
            event.sequence == sequence
            and event.previous_hash == previous_hash
            and event.row_hash == row_hash(event)
            and (not event.payload or hashlib.sha256(event.payload.encode()).hexdigest() == event.payload_hash)
        )
        if not intact:
            return sequence
        previous_hash, sequence = event.row_hash, sequence + 1
    return None
