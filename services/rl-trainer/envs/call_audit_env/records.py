"""Calls as JSON Lines: what a contact center exports, and what a tenant's folder keeps."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from call_audit_env.book import Book
from call_audit_env.calls import Breach, Call, Severity, Shift, Speaker, Tier, Turn, silence


class UnusableCall(ValueError):
    """A record that cannot be played; says which one and why."""


class Said(BaseModel):
    """A turn of a record."""

    model_config = ConfigDict(extra="forbid")

    speaker: Literal["agent", "customer"]
    start: float = Field(ge=0, allow_inf_nan=False)
    end: float = Field(ge=0, allow_inf_nan=False)
    text: str = Field(max_length=5_000)


class Label(BaseModel):
    """What somebody found wrong.

    A severity that is left out follows from the rubric's rules and the facts.
    """

    model_config = ConfigDict(extra="forbid")

    type: str
    severity: Severity | None = None
    span: list[int] = Field(min_length=1)
    facts: dict[str, float | bool] = Field(default_factory=dict)
    detail: str = ""


class Mood(BaseModel):
    """A change of mood at a turn."""

    model_config = ConfigDict(extra="forbid")

    turn: int = Field(ge=0)
    mood: str = Field(max_length=40)


class Record(BaseModel):
    """A call as it is exported."""

    model_config = ConfigDict(extra="forbid")

    call_id: str = Field(min_length=1, max_length=100)
    tenant: str
    department: str
    turns: list[Said] = Field(min_length=1, max_length=400)
    labels: list[Label] = Field(default_factory=list)
    source: str = ""
    reason: str = "not recorded"
    summary: str = ""
    moods: list[Mood] = Field(default_factory=list)


def read(line: str) -> Record:
    """Read one line.

    Raises:
        UnusableCall: it is no record; says which field is wrong, and repeats none of its text.
    """
    try:
        return Record.model_validate_json(line)
    except ValidationError as wrong:
        told = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in wrong.errors())
        raise UnusableCall(f"not a record: {told}") from None


def call_of_record(record: Record, book: Book) -> Call:
    """Make a call of a record, its breaches weighed by a rubric; what is shown as its id is not the exported one.

    Raises:
        UnusableCall: a label or mood names a policy that the rubric does not have or turns that the call does not have,
            or a turn ends before it starts.
    """
    turns = turns_of(record.turns)
    for place, turn in enumerate(turns):
        if turn.end < turn.start:
            raise UnusableCall(f"{record.call_id}: turn {place} ends before it starts")
    if any(mood.turn >= len(turns) for mood in record.moods):
        raise UnusableCall(f"{record.call_id}: a mood changes at a turn that the call does not have")
    try:
        return Call(
            call_id="call-" + sha256(f"{record.tenant}:{record.call_id}".encode()).hexdigest()[:8],
            shape="own",
            tier=Tier.MEDIUM,
            department=record.department,
            reason=record.reason,
            summary=record.summary,
            turns=turns,
            shifts=_shifts(record.moods),
            breaches=tuple(_breach(label, turns, book) for label in record.labels),
        )
    except ValueError as wrong:
        raise UnusableCall(f"{record.call_id}: {wrong}") from wrong


def turns_of(said: Sequence[Said]) -> tuple[Turn, ...]:
    """Give the turns; one of the same side as the one before is marked."""
    return tuple(
        Turn(
            speaker=Speaker(one.speaker),
            text=one.text,
            start=round(one.start, 1),
            end=round(one.end, 1),
            continues=place > 0 and one.speaker == said[place - 1].speaker,
        )
        for place, one in enumerate(said)
    )


def _shifts(moods: Sequence[Mood]) -> tuple[Shift, ...]:
    before = ["neutral", *(one.mood for one in moods)]
    return tuple(Shift(one.turn, previous, one.mood) for one, previous in zip(moods, before, strict=False))


def _breach(label: Label, turns: Sequence[Turn], book: Book) -> Breach:
    policy = book.policies.get(label.type)
    if policy is None:
        raise ValueError(f"the rubric {book.name} has no policy {label.type}; it has {', '.join(book.policies)}")
    if not all(0 <= index < len(turns) for index in label.span):
        raise ValueError(f"{label.type} spans turns that the call does not have")
    facts = {"silence_s": max(silence(turns, index) for index in label.span), **label.facts}
    return Breach(
        policy=label.type,
        severity=label.severity or policy.severity_of(facts),
        at=label.span[0],
        span=frozenset(label.span),
        detail=label.detail,
    )
