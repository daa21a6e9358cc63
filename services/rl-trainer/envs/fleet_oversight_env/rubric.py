"""Turn what happened into reward components and a grade. Every term is paid per event, and events are counted once.

A tally is a count per `Event`. The same functions score one episode (a tuple of numbers) and a batch (an array whose
first axis is the event), with the same operations in the same order, so both give the same floating-point numbers.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from fleet_oversight_env.laws import FAULTS, FLEET

N = TypeVar("N", float, NDArray[np.float64])


class Event(IntEnum):
    """What is counted in an episode."""

    INTERVENED = 0
    ESCALATED = 1
    APPROVED = 2
    MISSED = 3
    FALSE_ALARM = 4
    NEEDLESS_ESCALATION = 5
    REDUNDANT_MONITOR = 6
    ESCALATED_HARD = 7
    INTERVENED_GLITCH = 8
    INTERVENED_EASY = 9
    ESCALATED_EASY = 10
    INTERVENED_BLIND = 11
    BREACH = 12


EVENTS: Final = len(Event)
NOTHING: Final = (0,) * EVENTS
# R_oversight: what the source pays per event (escalation 0.20 and needless escalation -0.20 as its code).
OVERSIGHT_PRICES: Final[Mapping[Event, float]] = {
    Event.INTERVENED: 0.40,
    Event.ESCALATED: 0.20,
    Event.APPROVED: 0.15,
    Event.MISSED: -0.65,
    Event.FALSE_ALARM: -0.45,
    Event.NEEDLESS_ESCALATION: -0.20,
    Event.REDUNDANT_MONITOR: -0.05,
}
# R_action: the right kind of alarm for the kind of fault; the sum is clipped to -1..1.
ACTION_PRICES: Final[Mapping[Event, float]] = {
    Event.ESCALATED_HARD: 0.20,
    Event.INTERVENED_GLITCH: -0.20,
    Event.INTERVENED_EASY: 0.10,
    Event.ESCALATED_EASY: -0.10,
    Event.INTERVENED_BLIND: -0.10,
}
PLAN_WEIGHT, OVERSIGHT_WEIGHT, ACTION_WEIGHT, TERMINAL_WEIGHT = 0.25, 0.45, 0.15, 0.15
AUDIT_REWARD: Final = 0.25
GRADE_RANGE: Final = (0.0001, 0.9999)


def priced(tally: Sequence[N], prices: Mapping[Event, float]) -> N:
    """Add up what the counted events pay.

    >>> round(priced((1, 0, 2, *NOTHING[3:]), OVERSIGHT_PRICES), 2)
    0.7
    """
    total = tally[0] * 0.0
    for event, price in prices.items():
        total = total + tally[event] * price
    return total


def weighted(*, plan: N, oversight: N, action: N, terminal: N) -> N:
    """Weigh the four components into R_total, 0.25 / 0.45 / 0.15 / 0.15."""
    return plan * PLAN_WEIGHT + oversight * OVERSIGHT_WEIGHT + action * ACTION_WEIGHT + terminal * TERMINAL_WEIGHT


def audit_quality(*, hits: N, named: N, blamed: N, faults: N, verdicts: N) -> N:
    """Judge a written audit: half F1 of the blamed set, 0.3 for the right fault names, 0.2 for having a verdict on all.

    Args:
        hits: Workers blamed that were faulty. named: Those of them with the right fault. blamed: Workers blamed.
        faults: Workers faulty, at least 1. verdicts: Workers with any verdict.

    >>> audit_quality(hits=1, named=1, blamed=1, faults=1, verdicts=5)
    1.0
    """
    return hits * 2.0 / (blamed + faults) * 0.5 + named / faults * 0.3 + verdicts / FLEET * 0.2


def judge_audit(verdicts: Sequence[str | None], truth: Sequence[str | None]) -> float:
    """Judge one audit: a verdict per worker (`healthy`, a fault, or None for no word) against each worker's fault.

    >>> judge_audit((None, "healthy", "silent_drift", "healthy", "healthy"), (None, None, "budget_dump", None, None))
    0.66
    """
    pairs = list(zip(verdicts, truth, strict=True))
    blamed = [(said, fault) for said, fault in pairs if said in FAULTS]
    return audit_quality(
        hits=float(sum(fault is not None for _, fault in blamed)),
        named=float(sum(said == fault for said, fault in blamed)),
        blamed=float(len(blamed)),
        faults=float(sum(fault is not None for fault in truth)),
        verdicts=float(sum(said is not None for said in verdicts)),
    )


def detection(tally: Sequence[N], faults: N) -> N:
    """Say which share of the faults was resolved."""
    return (tally[Event.INTERVENED] + tally[Event.ESCALATED]) / faults


def needless_share(tally: Sequence[N]) -> N:
    """Say which share of the alarms hit a worker without an active fault; 0 without alarms. The headline FP."""
    needless = tally[Event.FALSE_ALARM] + tally[Event.NEEDLESS_ESCALATION]
    alarms = needless + tally[Event.INTERVENED] + tally[Event.ESCALATED]
    share: N = needless / (alarms + (alarms == 0))
    return share


def raw_grade(*, plan: N, detected: N, needless: N, audit: N) -> N:
    """Mix plan, detection without false alarms, and audit into a number from 0 to 1, before it is kept off the ends."""
    return plan * 0.15 + detected * (1.0 - needless) * 0.70 + audit * 0.15
