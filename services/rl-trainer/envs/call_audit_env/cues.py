"""Wording that gives a breach away, found by pattern: what the reading auditor, the linter and small policies go by.

It knows phrases, not meaning: it misses what is worded otherwise, and a decoy may fool it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from call_audit_env.calls import Severity, Speaker, Turn, silence

SILENT: Final = 10.0
"""Seconds from which a pause needs the customer's consent."""

LONG: Final = 30.0


class Heard(NamedTuple):
    """A turn as far as it is known: where it stands, who speaks, what, and the silence before it."""

    turn: int
    agent: bool
    text: str
    pause: float


class Suspect(NamedTuple):
    """A breach that the wording suggests."""

    policy: str
    severity: Severity
    turn: int


def _pattern(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts), re.IGNORECASE)


NOTICE: Final = _pattern(r"\brecord(?:ed|ing|s)?\b")
DEBT_NOTICE: Final = _pattern(r"debt collector", r"collect (?:a |the )?debts?")
WANTS_SUPERVISOR: Final = _pattern(
    r"(?:talk|speak) (?:to|with) (?:a|the|your) (?:supervisor|manager)",
    r"\bwant (?:your|a|the) (?:supervisor|manager)",
    r"(?:somebody|someone) (?:above|in charge)", r"your supervisor, please", r"asked for the manager", r"has a manager",
)  # fmt: skip
OFFERS_SUPERVISOR: Final = _pattern(
    r"(?:transfer|connect|put)\w* (?:you )?(?:through )?(?:to|with) (?:my|the|a) (?:supervisor|manager)",
    r"transfer to my (?:supervisor|manager)", r"my supervisor sees it",
)  # fmt: skip
PROMISES: Final = _pattern(
    r"\bguarantee", r"\bI promise", r"that's a promise", r"for certain\b", r"you have my word", r"on my own\b",
    r"\bI'll (?:take|drop|wipe|waive|knock)", r"I'm (?:reversing|lowering)", r"you get [\d.]+ percent", r"my own offer",
    r"I've (?:just )?(?:reversed|done it)", r"I charge you no interest", r"I'll see to that",
)  # fmt: skip
HEDGES: Final = _pattern(
    r"can't promise", r"can't (?:say|give|lower|change)", r"\bdecides?\b", r"published", r"request for"
)
OWN_DECISION: Final = _pattern(r"needn't know", r"own offer", r"I decide that", r"review team or not")
STAYING: Final = _pattern(
    r"signing (?:over|with)", r"\bleav(?:e|ing)\b", r"\bcancel", r"not paying", r"scrape something together",
    r"pay today",
)  # fmt: skip
RATE: Final = _pattern(r"[\d.]+ percent")
MONTHS: Final = _pattern(r"(?:twelve|six|\d+) months", r"rest of the loan", r"last payment", r"a year\b")
DOLLARS: Final = re.compile(r"\$(\d[\d,]*)")
ASKS_HOLD: Final = _pattern(r"(?:put|place) you on hold")
ESTIMATES: Final = _pattern(r"\b(?:minutes?|seconds|moment)\b")
CONSENTS: Final = _pattern(r"\b(?:yes|sure|okay|of course|fine|go ahead|go on|please do)\b")
NOTICES_SILENCE: Final = _pattern(r"still there", r"\bhello\?", r"anyone there")
ASKS_SOCIAL: Final = _pattern(r"social security")
ASKS_LESS: Final = _pattern(r"last four")
ASKS_MAIDEN: Final = _pattern(r"maiden name")
ACCOUNT: Final = re.compile(r"\[ACCOUNT_NUMBER\]|\b\d{4}-\d{4}-\d{4}\b")


def heard(turns: Sequence[Turn]) -> list[Heard]:
    """Give a whole call as heard, unredacted: for the linter."""
    return [
        Heard(index, turn.speaker is Speaker.AGENT, turn.text, silence(turns, index))
        for index, turn in enumerate(turns)
    ]


def overheard(opened: Iterable[Mapping[str, object]]) -> list[Heard]:
    """Give what an observation shows of a call; a silence is known where the turn before is open too."""
    found: list[Heard] = []
    ended: dict[int, float] = {}
    for turn in opened:
        index, start, end = (
            int(str(turn["turn_index"])),
            float(str(turn["timestamp_start"])),
            float(str(turn["timestamp_end"])),
        )
        pause = round(start - ended[index - 1], 1) if index - 1 in ended else 0.0
        ended[index] = end
        found.append(Heard(index, turn["speaker"] == Speaker.AGENT, str(turn["text"]), pause))
    return found


def suspects(said: Sequence[Heard], department: str) -> list[Suspect]:
    """List what the wording suggests, one of a type, in the order of the rubric."""
    finders = (
        _disclosure(said, department),
        _escalation(said),
        _commitment(said),
        _hold(said),
        _pii(said),
        _churn(said),
    )
    return [found for found in finders if found]


def _disclosure(said: Sequence[Heard], department: str) -> Suspect | None:
    opening = next((one for one in said if one.turn == 0), None)
    if opening is None or not opening.agent:
        return None
    told = NOTICE.search(opening.text) and (department != "collections" or DEBT_NOTICE.search(opening.text))
    return None if told else Suspect("regulatory_disclosure_failure", Severity.HIGH, 0)


def _escalation(said: Sequence[Heard]) -> Suspect | None:
    """Find a request for a supervisor that the agent's next two turns do not meet with an offer."""
    for place, one in enumerate(said):
        if not one.agent and WANTS_SUPERVISOR.search(one.text):
            answers = [later for later in said[place + 1 :] if later.agent][:2]
            if answers and not any(OFFERS_SUPERVISOR.search(answer.text) for answer in answers):
                return Suspect("failed_escalation", Severity.HIGH, one.turn)
    return None


def promise(said: Sequence[Heard], *, staying: bool) -> Heard | None:
    """Find a promise of the agent's, made to keep a customer or not."""
    for place, one in enumerate(said):
        if one.agent and (PROMISES.search(one.text) or OWN_DECISION.search(one.text)) and not HEDGES.search(one.text):
            before = [earlier.text for earlier in said[max(0, place - 3) : place] if not earlier.agent]
            leaves = any(STAYING.search(text) for text in before) or "complaint" in one.text
            if leaves == staying:
                return one
    return None


def _commitment(said: Sequence[Heard]) -> Suspect | None:
    found = promise(said, staying=False)
    if found is None:
        return None
    grave = RATE.search(found.text) or _dollars(found.text) > 500
    return Suspect("unauthorized_commitment", Severity.HIGH if grave else Severity.MEDIUM, found.turn)


def _churn(said: Sequence[Heard]) -> Suspect | None:
    found = promise(said, staying=True)
    if found is None:
        return None
    grave = MONTHS.search(found.text) or _dollars(found.text) > 200
    return Suspect("churn_save_policy_breach", Severity.HIGH if grave else Severity.MEDIUM, found.turn)


def _dollars(text: str) -> float:
    """Read the smallest sum of a text: of what is paid and what is struck off, the latter.

    >>> _dollars("pay $2,000 and $860 disappear")
    860.0
    """
    return min((float(found.replace(",", "")) for found in DOLLARS.findall(text)), default=0.0)


def asked_to_wait(said: Sequence[Heard], place: int) -> bool:
    """Tell whether a silence was asked for with an estimate, and consented to, in the three turns before it."""
    before = said[max(0, place - 3) : place]
    asked = [one for one in before if one.agent and ASKS_HOLD.search(one.text) and ESTIMATES.search(one.text)]
    return bool(asked) and any(not one.agent and CONSENTS.search(one.text) for one in before)


def _hold(said: Sequence[Heard]) -> Suspect | None:
    for place, one in enumerate(said):
        if one.pause >= SILENT and not asked_to_wait(said, place):
            noticed = not one.agent and NOTICES_SILENCE.search(one.text)
            grave = one.pause >= LONG or noticed
            return Suspect("incorrect_hold_procedure", Severity.MEDIUM if grave else Severity.LOW, one.turn)
    return None


def _pii(said: Sequence[Heard]) -> Suspect | None:
    for one in said:
        if not one.agent:
            continue
        if ASKS_SOCIAL.search(one.text) and not ASKS_LESS.search(one.text):
            return Suspect("pii_exposure_risk", Severity.HIGH, one.turn)
        if ASKS_MAIDEN.search(one.text) or ACCOUNT.search(one.text):
            return Suspect("pii_exposure_risk", Severity.MEDIUM, one.turn)
    return None
