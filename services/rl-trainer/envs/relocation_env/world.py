"""The case as it stands, and what a move makes of it: no rewards, no wire types, no I/O."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from relocation_env.rules import (
    APPROVES,
    COUNTRIES,
    MAX_STEPS,
    SETS,
    Department,
    Item,
    Move,
    Result,
    Status,
    Verb,
)
from relocation_env.scenarios import Case

_OVER = "the case is closed"


class State(StrEnum):
    """How a case stands."""

    IN_PROGRESS = "in_progress"
    SUCCESS = "success"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Charges:
    """What the grade deducts: actions beside the point, uses of a struck document, a number at a taxless register."""

    junk: int = 0
    struck_uses: int = 0
    tax_breach: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A case in progress.

    Attributes:
        papers: status of each document of `names`, in that order.
        succeeded: actions that took effect; only these count as repeated.
        history: every action as it was understood.
    """

    case: Case = field(compare=False)
    papers: tuple[Status, ...]
    approved: frozenset[Department] = frozenset()
    done_items: frozenset[Item] = frozenset()
    resolved: bool = False
    fired: bool = False
    acknowledged: bool = False
    steps: int = 0
    state: State = State.IN_PROGRESS
    truncated: bool = False
    charges: Charges = Charges()
    succeeded: frozenset[Move] = field(default=frozenset(), compare=False)
    history: tuple[str, ...] = field(default=(), compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Documents that exist so far."""
        event = self.case.event
        return (*self.case.documents, event.replacement) if self.fired and event else self.case.documents

    def status_of(self, document: str) -> Status | None:
        """None for a document that the case does not have."""
        names = self.names
        return self.papers[names.index(document)] if document in names else None

    @property
    def deadline(self) -> int:
        """Days left."""
        return self.case.deadline - self.steps

    @property
    def open_documents(self) -> list[str]:
        """Needed, not verified yet."""
        closed = (Status.VERIFIED, Status.INVALIDATED)
        return [name for name, status in zip(self.names, self.papers, strict=True) if status not in closed]

    @property
    def open_conflict(self) -> bool:
        """Something to resolve."""
        return bool(self.case.conflict) and not self.resolved

    @property
    def unacknowledged(self) -> bool:
        """A change that nobody has taken note of."""
        return self.fired and not self.acknowledged


def begin(case: Case) -> World:
    """Open a case: no document is there, nobody has approved anything."""
    return World(case=case, papers=(Status.MISSING,) * len(case.documents))


def blockers(world: World) -> list[tuple[str, str]]:
    """List what stands between the case and its finalization, as (category, name)."""
    case = world.case
    found = [("document", name) for name in world.open_documents]
    found += [("department", name) for name in Department if name in case.departments - world.approved]
    found += [("compliance", item) for item in Item if item in case.items - world.done_items]
    found += [("conflict", "tax")] if world.open_conflict else []
    found += [("event", "acknowledgement")] if world.unacknowledged else []
    return found


def judge(world: World, move: Move | None) -> tuple[Result, str]:
    """Decide what a move would do, and say why if it does nothing.

    The order matters: what breaks a rule is told as such before anything else, every time.
    """
    if move is None:
        return Result.INVALID, "there is no such action, document or country"
    if move.verb in SETS and (breach := _breach(world, move)):
        return Result.RULE_VIOLATION, breach
    if move.verb in (Verb.REQUEST, Verb.VERIFY):
        status = world.status_of(move.target)
        if status is None:
            return Result.INVALID, f"{move.target} is no document of this case"
        if status is Status.INVALIDATED:
            return Result.RULE_VIOLATION, f"{move.target} is no longer accepted"
    if move in world.succeeded:
        return Result.REPEATED, "this was done already"
    return _precondition(world, move)


def _breach(world: World, move: Move) -> str:
    if move.target not in world.case.countries:
        return f"{move.target} is no country of this case"
    if SETS[move.verb] not in COUNTRIES[move.target].items:
        return f"{move.target} has no {SETS[move.verb]}"
    return ""


def _precondition(world: World, move: Move) -> tuple[Result, str]:
    match move.verb:
        case Verb.REQUEST:
            asked = world.status_of(move.target) is not Status.MISSING
            return _unless(asked, Result.WRONG, "it was requested already")
        case Verb.VERIFY:
            missing = world.status_of(move.target) is Status.MISSING
            return _unless(missing, Result.PREREQUISITE, "request it first")
        case Verb.APPROVE_LEGAL:
            lacking = bool(world.open_documents)
            return _unless(lacking, Result.PREREQUISITE, "Legal wants every needed document verified")
        case Verb.APPROVE_FINANCE:
            early = Department.LEGAL not in world.approved or world.open_conflict
            return _unless(early, Result.PREREQUISITE, "Finance wants Legal's approval and no open conflict")
        case Verb.RESOLVE:
            return _unless(not world.open_conflict, Result.WRONG, "there is no open conflict")
        case Verb.ACKNOWLEDGE:
            return _unless(not world.unacknowledged, Result.WRONG, "there is nothing to acknowledge")
        case Verb.FINALIZE:
            return _unless(bool(blockers(world)), Result.RULE_VIOLATION, "something still blocks the case")
        case Verb.APPROVE_HR:
            return Result.SUCCESS, ""
        case _:
            return _unless(SETS[move.verb] in world.done_items, Result.WRONG, "it is set already")


def _unless(hindered: bool, result: Result, why: str) -> tuple[Result, str]:  # noqa: FBT001 - a table of conditions
    return (result, why) if hindered else (Result.SUCCESS, "")


def play(world: World, move: Move | None, spelled: str = "") -> tuple[World, Result, str]:
    """Make one move; a closed case stays as it is.

    Args:
        world: the case before.
        move: what was understood, None for something that is no action.
        spelled: how it was written, for the history of what was not understood.

    Returns:
        The case after, what became of the move, and why it did nothing if it did not.
    """
    if world.state is not State.IN_PROGRESS:
        return world, Result.INVALID, _OVER
    result, why = judge(world, move)
    charges = _charge(world, move, result)
    after = _effect(world, move) if move is not None and result is Result.SUCCESS else world
    after = replace(
        after, steps=world.steps + 1, charges=charges, history=(*world.history, str(move) if move else spelled)
    )
    return _close(_fire(after), finalized=after.state is State.SUCCESS), result, why


def _charge(world: World, move: Move | None, result: Result) -> Charges:
    """Book one kind of charge at most for one action."""
    booked = world.charges
    if move is not None and result is Result.RULE_VIOLATION:
        if move.verb in (Verb.REQUEST, Verb.VERIFY):
            return replace(booked, struck_uses=booked.struck_uses + 1)
        taxless = move.target in world.case.countries and COUNTRIES[move.target].no_income_tax
        if move.verb is Verb.SET_TAX_ID and taxless:
            return replace(booked, tax_breach=True)
    return booked if move in world.case.task_set else replace(booked, junk=booked.junk + 1)


def _effect(world: World, move: Move) -> World:
    after = replace(world, succeeded=world.succeeded | {move})
    match move.verb:
        case Verb.REQUEST | Verb.VERIFY:
            new = Status.SUBMITTED if move.verb is Verb.REQUEST else Status.VERIFIED
            position = world.names.index(move.target)
            return replace(after, papers=(*world.papers[:position], new, *world.papers[position + 1 :]))
        case Verb.RESOLVE:
            return replace(after, resolved=True)
        case Verb.ACKNOWLEDGE:
            return replace(after, acknowledged=True)
        case Verb.FINALIZE:
            return replace(after, state=State.SUCCESS)
        case verb if verb in APPROVES:
            return replace(after, approved=world.approved | {APPROVES[verb]})
        case verb:
            return replace(after, done_items=world.done_items | {SETS[verb]})


def _fire(world: World) -> World:
    """Let the rule change once the action before its step is done, so that its step is chosen knowing of it."""
    event = world.case.event
    if event is None or world.fired or world.steps < event.step - 1:
        return world
    position = world.case.documents.index(event.struck)
    papers = (*world.papers[:position], Status.INVALIDATED, *world.papers[position + 1 :], Status.MISSING)
    return replace(world, papers=papers, fired=True)


def _close(world: World, *, finalized: bool) -> World:
    if finalized:
        return world
    if world.deadline <= 0:
        return replace(world, state=State.FAILED)
    if world.steps >= MAX_STEPS:
        return replace(world, state=State.FAILED, truncated=True)
    return world


def available(world: World) -> Iterator[Move]:
    """List what is procedurally possible now. It keeps the traps: every item of every country that is not yet set."""
    if world.state is not State.IN_PROGRESS:
        return
    if world.unacknowledged:
        yield Move(Verb.ACKNOWLEDGE)
    for name, status in zip(world.names, world.papers, strict=True):
        if status is Status.MISSING:
            yield Move(Verb.REQUEST, name)
        if status is Status.SUBMITTED:
            yield Move(Verb.VERIFY, name)
    for verb, department in APPROVES.items():
        if department not in world.approved and judge(world, Move(verb))[0] is Result.SUCCESS:
            yield Move(verb)
    for verb, item in SETS.items():
        if item not in world.done_items:
            yield from (Move(verb, country) for country in world.case.countries)
    if world.open_conflict:
        yield Move(Verb.RESOLVE)
    if not blockers(world):
        yield Move(Verb.FINALIZE)
