"""What failures have in common, without a word of what was said: type, severity, position and trap."""

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from call_audit_env.calls import Breach, Call, Severity, Speaker
from call_audit_env.cues import ASKS_HOLD, ASKS_LESS

CONTENT: Final = frozenset({"positive", "very positive", "cautiously positive", "relieved", "happy"})


class Pattern(NamedTuple):
    """A kind of failure to make scenarios of."""

    policy: str
    severity: Severity
    position: str
    trap: str


def mined(calls: Iterable[Call]) -> list[tuple[Pattern, int]]:
    """Count the patterns of labelled failures, the most frequent first."""
    found = Counter(pattern_of(call, breach) for call in calls for breach in call.breaches)
    return sorted(found.items(), key=lambda one: (-one[1], one[0]))


def pattern_of(call: Call, breach: Breach) -> Pattern:
    """Describe a breach by where it lies and by what may lead an auditor astray."""
    share = breach.at / max(1, len(call.turns) - 1)
    position = "opening" if breach.at == 0 else "early" if share < 1 / 3 else "middle" if share < 2 / 3 else "late"
    return Pattern(breach.policy, breach.severity, position, _trap(call, breach))


def _trap(call: Call, breach: Breach) -> str:
    """Name the first of the known traps that the call has."""
    others = [one for place, one in enumerate(call.turns) if place not in breach.span and one.speaker is Speaker.AGENT]
    if call.shifts and call.shifts[-1].after in CONTENT:
        return "happy ending"
    if any(shift.turn > max(breach.span) for shift in call.shifts):
        return "anger elsewhere"
    if breach.policy == "incorrect_hold_procedure" and any(ASKS_HOLD.search(one.text) for one in others):
        return "proper hold nearby"
    if breach.policy == "pii_exposure_risk" and any(ASKS_LESS.search(one.text) for one in others):
        return "proper check nearby"
    if len(call.breaches) > 1:
        return "graver breach nearby" if _graver(call, breach) else "several breaches"
    return "no hint"


def _graver(call: Call, breach: Breach) -> bool:
    order = list(Severity)
    return any(order.index(one.severity) < order.index(breach.severity) for one in call.breaches)
