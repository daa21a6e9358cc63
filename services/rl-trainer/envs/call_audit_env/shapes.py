"""Shapes of calls, one file each under `shapes/`, and the calls made from them: as written, varied, or clean."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

from call_audit_env.book import Book
from call_audit_env.calls import Breach, Call, Shift, Speaker, Tier, Turn, silence
from call_audit_env.names import MISLEADING, SMALL_TALK, private

FOLDER = Path(__file__).parent / "shapes"
SPLIT = " // "
"""Where a line may fall into two turns of the same side."""

WORDS_PER_SECOND = 2.7
PAUSE = 0.6
"""Seconds between turns where nothing else is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One turn as written.

    Attributes:
        texts: wordings, the first for the base call.
        of: the fault that it belongs to, empty if none.
        clean: what is said, and `clean_gap` how long is waited before it, where that fault is absent; None: the same.
        in_span: it takes part in the fault, and does not only react to it.
        gap: seconds of silence before it; None for an ordinary pause.
        pad: small talk may follow. optional: may be left out.
    """

    speaker: Speaker
    texts: tuple[str, ...]
    of: str = ""
    clean: str | None = None
    in_span: bool = True
    gap: float | None = None
    clean_gap: float | None = None
    mood: str = ""
    pad: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A violation that a shape may have: policy, evidence line, and facts as numbers, flags or names of slots."""

    policy: str
    at: int
    detail: str
    facts: Mapping[str, float | bool | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A call to make calls from."""

    name: str
    tier: Tier
    department: str
    reason: str
    summaries: tuple[str, ...]
    slots: Mapping[str, tuple[str, ...]]
    faults: Mapping[str, Fault]
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class _Said:
    """A turn to be: its text, the line it comes from (None for small talk), and the silence before it."""

    speaker: Speaker
    text: str
    line: int | None
    gap: float
    mood: str = ""
    continues: bool = False


@cache
def shapes() -> Mapping[str, Shape]:
    """Read all shapes, by name."""
    return MappingProxyType({file.stem: _read(file) for file in sorted(FOLDER.glob("*.toml"))})


def _read(file: Path) -> Shape:
    found = tomllib.loads(file.read_text(encoding="utf-8"))
    return Shape(
        name=file.stem,
        tier=Tier(found["tier"]),
        department=found["department"],
        reason=found["reason"],
        summaries=tuple(found["summary"]),
        slots={name: tuple(values) for name, values in found["slots"].items()},
        faults={
            key: Fault(policy=one["type"], at=one["at"], detail=one["detail"], facts=one.get("facts", {}))
            for key, one in found.get("breach", {}).items()
        },
        lines=tuple(_line(one) for one in found["turn"]),
    )


def _line(one: dict[str, Any]) -> Line:
    speaker = Speaker.AGENT if "agent" in one else Speaker.CUSTOMER
    return Line(
        speaker=speaker,
        texts=(one[speaker], *one.get("alt", ())),
        of=one.get("of", ""),
        clean=one.get("clean"),
        in_span=one.get("span", True),
        gap=one.get("gap"),
        clean_gap=one.get("clean_gap"),
        mood=one.get("mood", ""),
        pad=one.get("pad", False),
        optional=one.get("optional", False),
    )


def make(shape: Shape, active: frozenset[str], book: Book, *, call_id: str, draw: Random | None = None) -> Call:
    """Make a call.

    Args:
        shape: what it is made from.
        active: the faults that it has; none for a clean twin. Those that the rubric does not know are no breaches.
        book: the rubric that says how severe they are.
        call_id: what is shown as its name.
        draw: varies names, numbers, wording, offsets, pauses and moods; without it the call is as written.
    """
    slots = _filled(shape, draw)
    said = _said(shape, active, draw)
    turns = _timed(said, slots, draw)
    at = {key: [place for place, one in enumerate(said) if one.line == key] for key in range(len(shape.lines))}
    return Call(
        call_id=call_id,
        shape=shape.name,
        tier=shape.tier,
        department=shape.department,
        reason=shape.reason,
        summary=shape.summaries[draw is not None and draw.random() < 0.2],
        turns=turns,
        shifts=_shifts(said, draw),
        breaches=tuple(
            breach
            for key, fault in shape.faults.items()
            if key in active and (breach := _breach(shape, key, fault, book, turns, at, slots))
        ),
    )


def _filled(shape: Shape, draw: Random | None) -> dict[str, str]:
    """Choose a value for each slot, and derive first names and capitals."""
    if draw is None:
        slots = {name: values[0] for name, values in shape.slots.items()}
    else:
        slots = {name: draw.choice(values) for name, values in shape.slots.items()} | private(draw)
    derived = {f"{name}_title": value[0].upper() + value[1:] for name, value in slots.items()}
    for name in ("customer", "agent"):
        first, _, last = slots[name].partition(" ")
        derived |= {f"{name}_first": first, f"{name}_last": last}
    return slots | derived


def _said(shape: Shape, active: frozenset[str], draw: Random | None) -> list[_Said]:
    """Lay out the turns: leave optional lines out, add small talk, split lines, pick wordings."""
    shorter = draw is not None and draw.random() < 0.3
    padded = {place for place, line in enumerate(shape.lines) if line.pad and draw is not None and draw.random() < 0.25}
    split = draw is not None and draw.random() < 0.4
    found: list[_Said] = []
    for place, line in enumerate(shape.lines):
        if line.optional and shorter:
            continue
        faulty = not line.of or line.of in active
        text = (draw.choice(line.texts) if draw else line.texts[0]) if faulty or line.clean is None else line.clean
        parts = text.split(SPLIT) if split else [text.replace(SPLIT, " ")]
        kept_mood = line.mood if faulty or (draw is not None and draw.random() < 0.5) else ""
        for number, part in enumerate(parts):
            gap = PAUSE if number else _gap(line, draw, faulty=faulty)
            found.append(_Said(line.speaker, part, place, gap, "" if number else kept_mood, continues=number > 0))
        if place in padded and draw is not None:
            talk = draw.choice(SMALL_TALK)
            found += [_Said(side, one, None, PAUSE) for side, one in zip(Speaker, talk, strict=True)]
    return found


def _gap(line: Line, draw: Random | None, *, faulty: bool) -> float:
    gap = line.gap if faulty else line.clean_gap
    if gap is None:
        return PAUSE + (draw.randint(-3, 9) / 10 if draw else 0)
    return gap + (draw.randint(-3, 3) if draw else 0)


def _timed(said: list[_Said], slots: Mapping[str, str], draw: Random | None) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    now = 0.0
    for one in said:
        text = one.text.format_map(slots)
        start = round(now + (one.gap if turns else 0.0), 1)
        pace = WORDS_PER_SECOND * (draw.uniform(0.9, 1.1) if draw else 1.0)
        now = round(start + max(0.8, len(text.split()) / pace), 1)
        turns.append(Turn(speaker=one.speaker, text=text, start=start, end=now, continues=one.continues))
    return tuple(turns)


def _shifts(said: list[_Said], draw: Random | None) -> tuple[Shift, ...]:
    """List the moods that were written; a variant may have one more that misleads."""
    moods = {place: one.mood for place, one in enumerate(said) if one.mood}
    if draw is not None and draw.random() < 0.3:
        customers = [place for place, one in enumerate(said) if one.speaker is Speaker.CUSTOMER and place not in moods]
        moods[draw.choice(customers)] = draw.choice(MISLEADING)
    found, before = [], "neutral"
    for place in sorted(moods):
        if moods[place] != before:
            found.append(Shift(place, before, moods[place]))
        before = moods[place]
    return tuple(found)


def _breach(
    shape: Shape,
    key: str,
    fault: Fault,
    book: Book,
    turns: tuple[Turn, ...],
    at: dict[int, list[int]],
    slots: Mapping[str, str],
) -> Breach | None:
    """Locate a fault in the call and weigh it by the rubric; None where the rubric has nothing against it."""
    policy = book.policies.get(fault.policy)
    if policy is None:
        return None
    lines = [place for place, line in enumerate(shape.lines) if line.of == key and line.in_span]
    span = frozenset(place for line in lines for place in at[line])
    facts = {name: _number(value, slots) for name, value in fault.facts.items()}
    facts["silence_s"] = max(silence(turns, place) for place in span)
    return Breach(
        policy=fault.policy, severity=policy.severity_of(facts), at=at[fault.at][0], span=span, detail=fault.detail
    )


def _number(value: float | bool | str, slots: Mapping[str, str]) -> float | bool:  # noqa: FBT001 - a value, not a switch
    """Read a fact; a text names the slot that holds the number."""
    return float(slots[value].replace(",", "")) if isinstance(value, str) else value
