"""Players to compare with: from random to the one that knows what is to come."""

from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import cast

from relocation_env.features import read, spell
from relocation_env.rules import APPROVING, COUNTRIES, MOVES, SETS, SETTING, Department, Item, Move, Status, Verb
from relocation_env.scenarios import NAMED, Case, case_of
from relocation_env.view import View
from relocation_env.world import World, begin, blockers, play

Player = Callable[[Mapping[str, object]], Mapping[str, object]]

POLICIES: Mapping[str, str] = MappingProxyType(
    {
        "random": "any of the 36 actions that can be spelled",
        "listed": "any of the available actions; of all 36 where none are listed",
        "memoriser": "the solution of the easy case, whatever the case",
        "reader": "works off the blockers that open mode names; in blind mode what the countries' rules say",
        "oracle": "knows the change of rules before it comes: a shortest perfect solution",
        "empty": "sends an empty object for ever",
        "repeat": "asks for the passport for ever",
        "finalizer": "finalizes for ever",
        "approver": "lets every department approve, then finalizes for ever",
        "collector": "requests every document there is, then verifies every one",
        "setter": "sets everything for every country",
    }
)
ORACLE = "oracle"
PRIVILEGED = frozenset({ORACLE})


def policy(name: str, task: str, seed: int) -> Player:
    """Make a fresh player of one episode.

    Raises:
        KeyError: there is no such policy.
    """
    draw = Random(f"relocation player:{name}:{task}:{seed}")  # noqa: S311 - a game, not a secret
    makers: Mapping[str, Callable[[], Player]] = {
        "random": lambda: lambda _: spell(draw.choice(MOVES)),
        "listed": lambda: lambda seen: _listed(cast("View", seen), draw),
        "memoriser": lambda: _script([_without_country(move) for move in solution(NAMED["easy"])]),
        "reader": lambda: lambda seen: spell(_read_blockers(cast("View", seen))),
        "oracle": lambda: _script(solution(case_of(task, seed))),
        "empty": lambda: lambda _: {},
        "repeat": lambda: lambda _: spell(Move(Verb.REQUEST, "passport")),
        "finalizer": lambda: lambda _: spell(Move(Verb.FINALIZE)),
        "approver": lambda: _script([Move(verb) for verb in APPROVING.values()]),
        "collector": lambda: _script([m for verb in (Verb.REQUEST, Verb.VERIFY) for m in MOVES if m.verb is verb]),
        "setter": lambda: _script([move for move in MOVES if move.verb in set(SETTING.values())]),
    }
    return makers[name]()


def _script(moves: list[Move]) -> Player:
    """Play a list, then finalize for ever."""
    left = iter(moves)
    return lambda _: spell(next(left, Move(Verb.FINALIZE)))


def _without_country(move: Move) -> Move:
    return Move(move.verb) if move.verb in SETS else move


def _listed(seen: View, draw: Random) -> dict[str, object]:
    listed = seen.get("available_actions")
    return read(draw.choice(listed)) if listed else spell(draw.choice(MOVES))


def solution(case: Case) -> list[Move]:
    """Play a case without detour: of what it needs, whatever is possible now and no coming event undoes.

    `tests/envs/relocation` holds its length to the shortest that a breadth-first search finds.

    >>> len(solution(NAMED["crisis"]))
    14
    """
    world, moves = begin(case), []
    while need := _next_need(world):
        world, _, _ = play(world, need)
        moves.append(need)
    return [*moves, Move(Verb.FINALIZE)]


def _next_need(world: World) -> Move | None:
    case = world.case
    doomed = case.event.struck if case.event else ""
    if world.unacknowledged:
        return Move(Verb.ACKNOWLEDGE)
    for name in world.open_documents:
        if name != doomed:
            asked = world.status_of(name) is Status.MISSING
            return Move(Verb.REQUEST if asked else Verb.VERIFY, name)
    for category, name in blockers(world):
        if category == "compliance":
            item = Item(name)
            country = next(one for one in case.countries if item in COUNTRIES[one].items)
            return Move(SETTING[item], country)
        if category == "conflict":
            return Move(Verb.RESOLVE)
    waiting = bool(world.open_documents)
    for department in Department:
        if department in case.departments - world.approved and (department is Department.HR or not waiting):
            return Move(APPROVING[department])
    return Move(Verb.FINALIZE) if waiting else None


def _read_blockers(seen: View) -> Move:
    """Do the next thing that is still open, in the order in which a clerk would."""
    for notice in seen["announcements"]:
        if notice["needs_acknowledgement"]:
            return Move(Verb.ACKNOWLEDGE)
    for name, status in seen["documents"].items():
        if status in (Status.MISSING, Status.SUBMITTED):
            return Move(Verb.REQUEST if status == Status.MISSING else Verb.VERIFY, name)
    countries = seen["countries"]
    for item in Item:
        needing = [name for name in countries if item in COUNTRIES[name].items]
        if needing and not seen["compliance"][item]:
            return Move(SETTING[item], needing[0])
    if any(not conflict["resolved"] for conflict in seen["conflicts"]):
        return Move(Verb.RESOLVE)
    return _next_approval(seen)


def _next_approval(seen: View) -> Move:
    """Where no list says who has to approve, go on while some approval is open; Finance where a country wants it."""
    count = seen["open_parts"].get("department", 0)
    finance = any(COUNTRIES[name].finance for name in seen["countries"])
    usual = [Department.HR, Department.LEGAL, *([Department.FINANCE] if finance else [])]
    needed = seen.get("required_departments", usual) if count else []
    for department in Department:
        if department in needed and not seen["departments"][department]:
            return Move(APPROVING[department])
    return Move(Verb.FINALIZE)
