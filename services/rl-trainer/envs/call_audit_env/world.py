"""The audit as it stands, and what a move makes of it: no rewards, no wire types, no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from call_audit_env.book import Book
from call_audit_env.calls import Call, Severity
from call_audit_env.moves import CHUNK, Move, Tool
from call_audit_env.redact import Redactor, redact
from call_audit_env.scenarios import Profile

STEPS: Mapping[Profile, int] = {Profile.V2: 60, Profile.COMPAT: 400}
"""After this many the audit is cut off; the original had no limit, and its longest call pays for 140 cheap steps."""

BESIDE_READING = 40
"""Steps that a call of more than a hundred turns, as a tenant may have, leaves beside its chunks."""

LOW = 5
"""Units below which a warning is shown."""

OPENING, CLOSING = 2, 3


class State(StrEnum):
    """How an audit stands."""

    OPEN = "open"
    SUBMITTED = "submitted"
    EXHAUSTED = "exhausted"
    CUT_OFF = "cut_off"


class Event(StrEnum):
    """What a move was, for its reward."""

    TRIAGE = "triage"
    COUNTED = "counted"
    OPENED = "opened"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    EXPOSED = "exposed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """A finding as claimed."""

    policy: str
    severity: Severity
    turn: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """An audit in progress.

    Attributes:
        shown: redacted text of each turn that was opened, by index.
        used: tools whose bonus is spent.
        chunks, analyzed: readings, and turns looked at closely.
        passed: the verdict that was handed in; None where none was.
    """

    call: Call
    book: Book
    profile: Profile
    redactor: Redactor
    total: int
    left: int
    steps: int = 0
    shown: Mapping[int, str] = field(default_factory=dict)
    used: frozenset[Tool] = frozenset()
    chunks: int = 0
    analyzed: int = 0
    flags: tuple[Flag, ...] = ()
    passed: bool | None = None
    state: State = State.OPEN

    @property
    def over(self) -> bool:
        """Whatever is played now changes nothing."""
        return self.state is not State.OPEN


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool gives back: its result, why it did nothing, and what the move was."""

    body: Mapping[str, object] = field(default_factory=dict)
    error: str = ""
    events: tuple[Event, ...] = ()


def begin(call: Call, book: Book, profile: Profile, *, total: int | None = None) -> World:
    """Open an audit with the rubric's budget, or another."""
    units = book.budget(len(call.turns)) if total is None else total
    return World(call=call, book=book, profile=profile, redactor=Redactor.of(call.turns), total=units, left=units)


def play(world: World, move: Move) -> tuple[World, Answer]:
    """Make one move; an audit that is over stays as it is."""
    if world.over:
        return world, Answer(error="the report is submitted")
    world = replace(world, steps=world.steps + 1)
    if move.tool is Tool.READ and (problem := _unreadable(world, move)):
        return limited(world), Answer(error=problem, events=(Event.REFUSED,))
    if move.price > world.left:
        return replace(world, passed=False, state=State.EXHAUSTED), Answer(
            error=f"{move.price} units asked, {world.left} left: the budget is exhausted, and the report was submitted"
        )
    if move.tool is not Tool.SUBMIT:
        world = replace(world, left=world.left - move.price)
    after, answer = _run(world, move)
    return limited(after), answer


def limited(world: World) -> World:
    """Cut an audit off that takes too many steps."""
    most = max(STEPS[world.profile], BESIDE_READING + len(world.call.turns) // CHUNK)
    if not world.over and world.steps >= most:
        return replace(world, state=State.CUT_OFF)
    return world


def _unreadable(world: World, move: Move) -> str:
    """Say why a range of turns cannot be read; a refused reading costs nothing."""
    first, last, count = move.first, move.last, len(world.call.turns)
    if first is None or last is None:
        return "read_transcript_chunk needs start_turn and end_turn"
    if not 0 <= first <= last < count:
        return f"turns go from 0 to {count - 1}, the start not after the end"
    return f"a chunk has at most {CHUNK} turns" if last - first >= CHUNK else ""


def _run(world: World, move: Move) -> tuple[World, Answer]:
    match move.tool:
        case Tool.METADATA:
            return _triage(world, move.tool, Event.TRIAGE, _metadata(world))
        case Tool.SENTIMENT:
            shifts = [{"turn_index": one.turn, "from": one.before, "to": one.after} for one in world.call.shifts]
            return _triage(world, move.tool, Event.TRIAGE, {"shifts": shifts})
        case Tool.LENGTH:
            count = len(world.call.turns)
            body = {"turns": count, "first_turn": 0, "last_turn": count - 1, "chunk_limit": CHUNK}
            return _triage(world, move.tool, Event.COUNTED, body)
        case Tool.READ:
            wanted = range(move.first or 0, (move.last or 0) + 1)
            after, events = _open(replace(world, chunks=world.chunks + 1), wanted)
            return after, Answer({"turns": [turn_json(after, index) for index in wanted]}, "", events)
        case Tool.ANALYZE:
            return _analyze(world, move)
        case Tool.FLAG:
            return _flag(world, move)
        case Tool.SUBMIT:
            if move.passed is None and world.profile is Profile.V2:
                return world, Answer(error="submit_report needs compliance_pass", events=(Event.REFUSED,))
            return replace(world, passed=move.passed is not False, state=State.SUBMITTED), Answer()
        case None:
            return world, Answer(error=f"no such tool; there are {', '.join(Tool)}", events=(Event.UNKNOWN,))


def _triage(world: World, tool: Tool, event: Event, body: Mapping[str, object]) -> tuple[World, Answer]:
    """Give what a cheap tool knows; by our rules its bonus comes once."""
    due = tool not in world.used or world.profile is Profile.COMPAT
    return replace(world, used=world.used | {tool}), Answer(body, "", (event,) if due else ())


def _metadata(world: World) -> dict[str, object]:
    call = world.call
    return {
        "call_id": call.call_id,
        "department": call.department,
        "call_reason": redact(call.reason, world.redactor.names),
        "call_duration_seconds": call.seconds,
        "call_summary": redact(call.summary, world.redactor.names),
        "turns": len(call.turns),
    }


def _open(world: World, wanted: range) -> tuple[World, tuple[Event, ...]]:
    """Open turns; by our rules only turns that were closed earn something."""
    new = [index for index in wanted if index not in world.shown]
    texts = {index: world.redactor.turn(world.call.turns, index) for index in new}
    due = bool(new) or world.profile is Profile.COMPAT
    return replace(world, shown={**world.shown, **texts}), (Event.OPENED,) if due else ()


def turn_json(world: World, index: int) -> dict[str, object]:
    """Show an opened turn."""
    turn = world.call.turns[index]
    return {
        "turn_index": index,
        "speaker": str(turn.speaker),
        "text": world.shown[index],
        "timestamp_start": turn.start,
        "timestamp_end": turn.end,
    }


def _analyze(world: World, move: Move) -> tuple[World, Answer]:
    """Show a turn between its neighbors, the silence before it, where it stands, and the rubric that was asked for."""
    count, index = len(world.call.turns), move.turn
    if index is None or not 0 <= index < count:
        return world, Answer(error=f"analyze_turn needs a turn_index from 0 to {count - 1}", events=(Event.REFUSED,))
    window = range(max(0, index - 1), min(count, index + 2))
    after, events = _open(replace(world, analyzed=world.analyzed + 1), window)
    position = "opening" if index <= OPENING else "closing" if index >= count - CLOSING else "mid-call"
    body: dict[str, object] = {
        "turn_index": index,
        "window": [turn_json(after, near) for near in window],
        "silence_before_seconds": world.call.silence_before(index),
        "position": position,
    }
    policy = world.book.policies.get(move.hypothesis or "")
    if policy:
        body["policy"] = {"name": policy.name, "breach": policy.breach, "allowed": policy.allowed}
    elif move.hypothesis:
        body["remark"] = f"the rubric has no such policy; it has {', '.join(world.book.policies)}"
    return after, Answer(body, "", events)


def _flag(world: World, move: Move) -> tuple[World, Answer]:
    problem = _unusable(world, move)
    if problem:
        return world, Answer(error=problem, events=(Event.REFUSED,))
    note = redact(move.note, world.redactor.names)
    found = Flag(policy=move.policy or "", severity=Severity(move.severity or Severity.LOW), turn=move.turn, note=note)
    kept = world.flags
    if world.profile is Profile.V2:
        kept = tuple(one for one in kept if one.policy != found.policy)
    after = replace(world, flags=(*kept, found))
    exposed = (Event.EXPOSED,) if note != move.note else ()
    return after, Answer({"recorded": found.policy, "findings": len(after.flags)}, "", exposed)


def _unusable(world: World, move: Move) -> str:
    """Say why a finding cannot be recorded; a severity may be left out by the original's rules alone."""
    if move.policy not in world.book.policies:
        return f"violation_type is one of {', '.join(world.book.policies)}"
    if move.severity not in set(Severity) and (move.severity is not None or world.profile is Profile.V2):
        return f"violation_severity is one of {', '.join(Severity)}"
    if move.turn is not None and not 0 <= move.turn < len(world.call.turns) and world.profile is Profile.V2:
        return f"turn_index goes from 0 to {len(world.call.turns) - 1}"
    return ""
