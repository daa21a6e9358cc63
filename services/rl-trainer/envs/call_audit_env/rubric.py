"""What a step is worth, and the grade that an audit ends with: ours, and the original's with its holes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from call_audit_env.book import Book
from call_audit_env.calls import Breach, Call, Severity
from call_audit_env.scenarios import Profile
from call_audit_env.world import Event, Flag, State, World

LEAST, MOST = 0.001, 0.999
"""Grades have three decimals and stay strictly inside (0, 1)."""

VERDICT, VIOLATIONS, EFFICIENCY, CALIBRATION = 0.20, 0.60, 0.20, 0.02
EXHAUSTION = 0.10
SHAPING: Final[Mapping[Profile, float]] = MappingProxyType({Profile.V2: 0.25, Profile.COMPAT: 1.0})
"""Share of a step's worth that is paid; the grade is what matters."""

STEP: Final[Mapping[Event, float]] = MappingProxyType(
    {
        Event.TRIAGE: 0.05,
        Event.COUNTED: 0.02,
        Event.OPENED: 0.02,
        Event.REFUSED: -0.02,
        Event.UNKNOWN: -0.05,
        Event.EXPOSED: 0.0,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A grade and what it is made of.

    Attributes:
        f1: severity-weighted F1 of the findings, 0..1.
        verdict, efficiency, calibration, penalty, exhaustion: signed parts of the total.
        capped: none of the high breaches was found.
        found, missed: breaches. false: flags that count for none.
    """

    total: float
    f1: float
    verdict: float
    efficiency: float
    calibration: float
    penalty: float
    exhaustion: float
    capped: bool
    found: tuple[Breach, ...]
    missed: tuple[Breach, ...]
    false: tuple[Flag, ...]


def step_reward(events: Sequence[Event], profile: Profile) -> float:
    """Price a move, the final grade apart."""
    return SHAPING[profile] * sum(STEP[event] for event in events)


def f1(found: float, false: float, total: float) -> float:
    """Combine precision and recall of weighted findings.

    >>> round(f1(3, 1, 5), 4)
    0.6667
    """
    if not found:
        return 0.0
    precision, recall = found / (found + false), found / total
    return 2 * precision * recall / (precision + recall)


def score(world: World) -> Score:
    """Grade an audit as it stands; the same world gives the same number anywhere."""
    compat = world.profile is Profile.COMPAT
    found, false = _matched(world.call, world.flags, None if compat else frozenset(world.shown))
    weights = world.book.weights
    missed = tuple(one for one in world.call.breaches if one not in found)
    right = sum(weights[one.severity] for one in found)
    wrong = sum(1.0 if compat else weights[one.severity] for one in false)
    quality = f1(right, wrong, sum(weights[one.severity] for one in world.call.breaches))
    if world.call.compliant and not world.flags and (compat or _looked_at(world)):
        quality = 1.0
    agrees = world.passed is not None and world.passed == world.call.compliant
    left = world.left / world.total if world.total else 0.0
    if compat:
        parts = {"verdict": VERDICT * agrees, "efficiency": EFFICIENCY * left, "exhaustion": 0.0}
    else:
        handed_in = world.state is State.SUBMITTED
        earned = handed_in and agrees and world.passed == (not world.flags) and quality > 0
        exhausted = world.state is State.EXHAUSTED
        parts = {
            "verdict": VERDICT * earned,
            "efficiency": EFFICIENCY * left * quality if handed_in else 0.0,
            "exhaustion": -EXHAUSTION * exhausted,
        }
    parts["calibration"] = CALIBRATION * _calibrated(found, world.flags)
    parts["penalty"] = -_penalty(world.call, world.flags, world.book)
    high = [one for one in world.call.breaches if one.severity is Severity.HIGH]
    capped = bool(high) and not any(one in found for one in high)
    total = VIOLATIONS * quality + sum(parts.values())
    return Score(
        total=bounded(min(total, world.book.cap) if capped else total),
        f1=quality,
        capped=capped,
        found=found,
        missed=missed,
        false=false,
        **parts,
    )


def bounded(total: float) -> float:
    """Round to three decimals, strictly inside (0, 1).

    >>> bounded(1.2), bounded(-0.3), bounded(0.97251)
    (0.999, 0.001, 0.973)
    """
    return min(MOST, max(LEAST, round(total, 3)))


def _matched(
    call: Call, flags: Sequence[Flag], opened: frozenset[int] | None
) -> tuple[tuple[Breach, ...], tuple[Flag, ...]]:
    """Match flags to breaches by type, one for one, the gravest first.

    Args:
        call: the truth.
        flags: what was claimed.
        opened: turns that were read; a breach of which none was opened is no finding. None leaves that out.
    """
    order = list(Severity)
    open_to: list[Breach] = sorted(call.breaches, key=lambda one: order.index(one.severity))
    if opened is not None:
        open_to = [one for one in open_to if one.span & opened]
    found, false = [], []
    for claimed in flags:
        match = next((one for one in open_to if one.policy == claimed.policy), None)
        if match is None:
            false.append(claimed)
        else:
            open_to.remove(match)
            found.append(match)
    return tuple(found), tuple(false)


def _calibrated(found: Sequence[Breach], flags: Sequence[Flag]) -> int:
    """Count the types that were found and whose last claimed severity is exact."""
    last = {one.policy: one.severity for one in flags}
    return len({one.policy for one in found if last[one.policy] is one.severity})


def _penalty(call: Call, flags: Sequence[Flag], book: Book) -> float:
    """Charge every flag of a type that the call does not have, by what it claims."""
    present = Counter(one.policy for one in call.breaches)
    return sum(book.penalties[one.severity] for one in flags if one.policy not in present)


def _looked_at(world: World) -> bool:
    """Tell whether a clean call was looked at: its opening, and half of its turns."""
    return 0 in world.shown and 2 * len(world.shown) >= len(world.call.turns)
