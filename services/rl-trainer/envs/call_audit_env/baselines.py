"""Players to compare with: from blind ones to the one that knows where the evidence lies."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Final, cast

from call_audit_env import moves
from call_audit_env.calls import Breach, Call, Severity, Speaker
from call_audit_env.cues import overheard, suspects
from call_audit_env.moves import CHUNK, Tool
from call_audit_env.scenarios import call_of
from call_audit_env.view import View

Action = Mapping[str, object]
Player = Callable[[Mapping[str, object]], Action]

POLICIES: Mapping[str, str] = MappingProxyType(
    {
        "random": "any tool with any arguments that it takes",
        "auditor": "reads the whole call and flags what the wording suggests; sees observations alone",
        "oracle": "knows the breaches: triage, the opening, two turns around each evidence turn; clean calls whole",
        "triage_read_all": "knows the breaches: triage, then every turn",
        "read_all": "knows the breaches: every turn, no triage",
        "brute_force": "knows a breach when it sees it: reads turn by turn and analyzes every turn of the agent",
        "lower_only": "knows the breaches: looks for all but the high ones",
        "clairvoyant": "knows the breaches and reads nothing",
        "all_but_highs": "knows the breaches, reads nothing and leaves out the high ones",
        "opening_check": "reads the first turn, and flags it if it has no recording notice",
        "read_then_six": "reads everything, then flags every policy as low",
        "six_low": "reads nothing and flags every policy as low",
        "constant": "reads nothing and flags the same four policies as low",
        "always_fail": "fails every call without a finding",
        "always_pass": "passes every call",
        "empty": "sends an empty object for ever",
        "repeat": "asks for the length of the transcript for ever",
    }
)
ORACLE: Final = "oracle"
PRIVILEGED: Final = frozenset(
    {"oracle", "triage_read_all", "read_all", "brute_force", "lower_only", "clairvoyant", "all_but_highs"}
)
FOUR: Final = (
    "regulatory_disclosure_failure", "failed_escalation", "unauthorized_commitment", "pii_exposure_risk",
)  # fmt: skip
"""The constant set that scored best on the twelve base calls by the original's grader."""

TRIAGE: Final = (moves.metadata(), moves.sentiment(), moves.length())


def policy(name: str, task: str, seed: int) -> Player:
    """Make a fresh player of one episode.

    Raises:
        KeyError: there is no such policy.
    """
    if name in PRIVILEGED:
        return privileged(name, call_of(task, seed))
    if name == "random":
        draw = Random(f"call audit player:{task}:{seed}")  # noqa: S311 - a game, not a secret
        return lambda seen: any_move(cast("View", seen), draw)
    return BY_SIGHT[name]()


def privileged(name: str, call: Call) -> Player:
    """Make a player that knows a call.

    Raises:
        KeyError: there is no such policy.
    """
    return script(KNOWING[name](call))


def script(actions: Iterable[Action], *, passed: bool = False) -> Player:
    """Play a list, then submit for ever."""
    left = iter(actions)
    return lambda _: next(left, moves.submit(passed=passed))


def whole(turns: int) -> list[Action]:
    """Read every turn, chunk by chunk."""
    return readings(range(turns))


def readings(wanted: Iterable[int]) -> list[Action]:
    """Read certain turns in as few chunks as possible.

    >>> [(one["start_turn"], one["end_turn"]) for one in readings([2, 3, 7])]
    [(2, 3), (7, 7)]
    """
    found: list[tuple[int, int]] = []
    for index in sorted(set(wanted)):
        if found and index == found[-1][1] + 1 and index - found[-1][0] < CHUNK:
            found[-1] = (found[-1][0], index)
        else:
            found.append((index, index))
    return [moves.chunk(first, last) for first, last in found]


def flags(breaches: Iterable[Breach]) -> list[Action]:
    """Report breaches as they are."""
    return [moves.flag(one.policy, one.severity, one.at) for one in breaches]


def verdict(call: Call) -> list[Action]:
    """Hand in the true verdict."""
    return [moves.submit(passed=call.compliant)]


def windows(call: Call, breaches: Sequence[Breach]) -> list[Action]:
    """Read the opening, and two turns from each evidence turn on; what is open already is not read again."""
    wanted = {index for one in breaches if one.at for index in (one.at, one.at + 1) if index < len(call.turns)}
    return [moves.chunk(0, 0), *readings(wanted - {0})]


def _oracle(call: Call) -> list[Action]:
    reading = whole(len(call.turns)) if call.compliant else windows(call, call.breaches)
    return [*TRIAGE, *reading, *flags(call.breaches), *verdict(call)]


def _brute_force(call: Call) -> list[Action]:
    """Read in order, look closely at each turn of the agent, and flag what lies there or beside it."""
    actions: list[Action] = list(TRIAGE)
    found: set[int] = set()
    for index, turn in enumerate(call.turns):
        actions.append(moves.chunk(index, index))
        if turn.speaker is Speaker.AGENT:
            actions.append(moves.analyze(index))
            near = [one for one in call.breaches if abs(one.at - index) <= 1 and one.at not in found]
            found |= {one.at for one in near}
            actions += flags(near)
    return [*actions, *verdict(call)]


def _lower(call: Call) -> list[Breach]:
    return [one for one in call.breaches if one.severity is not Severity.HIGH]


KNOWING: Final[Mapping[str, Callable[[Call], list[Action]]]] = MappingProxyType(
    {
        "oracle": _oracle,
        "triage_read_all": lambda call: [*TRIAGE, *whole(len(call.turns)), *flags(call.breaches), *verdict(call)],
        "read_all": lambda call: [*whole(len(call.turns)), *flags(call.breaches), *verdict(call)],
        "brute_force": _brute_force,
        "lower_only": lambda call: [*TRIAGE, *windows(call, _lower(call)), *flags(_lower(call)), *verdict(call)],
        "clairvoyant": lambda call: [*flags(call.breaches), *verdict(call)],
        "all_but_highs": lambda call: [*flags(_lower(call)), *verdict(call)],
    }
)


def reader(after: Callable[[View], list[Action]], *, turns: int | None = None) -> Player:
    """Read the call, or its first turns, then play what follows from what was read."""
    reading: list[Action] | None = None
    rest: list[Action] | None = None

    def play(observation: Mapping[str, object]) -> Action:
        nonlocal reading, rest
        seen = cast("View", observation)
        if reading is None:
            reading = whole(min(seen["turns"], turns or seen["turns"]))
        if reading:
            return reading.pop(0)
        if rest is None:
            rest = after(seen)
        return rest.pop(0) if rest else moves.submit(passed=not seen["findings"])

    return play


def _suspected(seen: View) -> list[Action]:
    found = suspects(overheard(seen["opened"]), seen["department"])
    return [moves.flag(one.policy, one.severity, one.turn) for one in found if one.policy in seen["policies"]]


def _all_low(seen: View) -> list[Action]:
    return [moves.flag(name, Severity.LOW) for name in seen["policies"]]


def _blind(names: Sequence[str] | None) -> Player:
    """Flag without reading: certain policies, or all of them."""
    left: list[Action] | None = None

    def play(observation: Mapping[str, object]) -> Action:
        nonlocal left
        if left is None:
            known = cast("View", observation)["policies"]
            left = [moves.flag(name, Severity.LOW) for name in (known if names is None else names)]
        return left.pop(0) if left else moves.submit(passed=False)

    return play


BY_SIGHT: Final[Mapping[str, Callable[[], Player]]] = MappingProxyType(
    {
        "auditor": lambda: reader(_suspected),
        "opening_check": lambda: reader(_suspected, turns=1),
        "read_then_six": lambda: reader(_all_low),
        "six_low": lambda: _blind(None),
        "constant": lambda: _blind(FOUR),
        "always_fail": lambda: script([]),
        "always_pass": lambda: script([], passed=True),
        "empty": lambda: lambda _: {},
        "repeat": lambda: lambda _: moves.length(),
    }
)


def any_move(seen: View, draw: Random) -> Action:
    """Draw a tool, and arguments that it takes."""
    last = seen["turns"] - 1
    match draw.choice(list(Tool)):
        case Tool.READ:
            first = draw.randint(0, last)
            return moves.chunk(first, min(last, first + draw.randint(0, CHUNK - 1)))
        case Tool.ANALYZE:
            return moves.analyze(draw.randint(0, last), draw.choice(seen["policies"]))
        case Tool.FLAG:
            return moves.flag(draw.choice(seen["policies"]), draw.choice(list(Severity)), draw.randint(0, last))
        case Tool.SUBMIT:
            return moves.submit(passed=draw.random() < 0.5)
        case tool:
            return {"action_type": str(tool)}
