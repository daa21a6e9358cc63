"""Take personal data out of what is shown: numbers by form and context, names by who introduced himself.

What was *asked* stays readable, since an auditor has to judge it. Redacting twice changes nothing.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Self

from call_audit_env.calls import Speaker, Turn

SSN, ACCOUNT, ACCOUNT_LAST = "[SSN_REDACTED]", "[ACCOUNT_NUMBER]", "[ACCOUNT_ENDING]"
PHONE, EMAIL, BIRTH = "[PHONE_REDACTED]", "[EMAIL_REDACTED]", "[BIRTH_DATE]"
NAMES: Final[Mapping[Speaker, str]] = {Speaker.CUSTOMER: "[CUSTOMER_NAME]", Speaker.AGENT: "[AGENT_NAME]"}
INTRODUCED_WITHIN = 8
"""Turns at whose beginning people say who they are; a name that is called a name counts anywhere."""

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_DATE = re.compile(
    rf"\b(?:(?:{_MONTH})\.? \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}"
    rf"|(?:the )?\d{{1,2}}(?:st|nd|rd|th)? (?:of )?(?:{_MONTH}),? \d{{4}}"
    r"|\d{1,2}[/.-]\d{1,2}[/.-]\d{2,4}|\d{4}-\d{2}-\d{2})\b",
    re.IGNORECASE,
)
_BORN = re.compile(r"\bborn\b|\bbirth|\bd\.?o\.?b\b", re.IGNORECASE)
_SSN = re.compile(r"(?<![\d$-])(?:\d{3}([-. ])\d{2}\1\d{4}|\d{9})(?![\d-])")
_PHONE = re.compile(
    r"(?<![\d$-])(?:(?:\+?1[-. ]?)?(?:\(\d{3}\) ?|\d{3}[-. ])\d{3}[-. ]\d{4}|\d{10}|\d{3}-\d{4})(?![\d-])"
)
_ACCOUNT = re.compile(r"(?<![\d$,.-])(?:\d{4}(?:[- ]\d{4}){1,4}|\d{7,8}|\d{11,19})(?![\d-])")
_YEARS = re.compile(r"(?:19|20)\d\d[- ](?:19|20)\d\d")
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_FOUR = re.compile(r"(?<![\d$,.-])(?<!since )(?<!until )\d{4}(?![\d-]|[.,]\d)")
_SOCIAL = re.compile(r"\bssn\b|\bsocial\b", re.IGNORECASE)
_LAST_FOUR = re.compile(r"\blast (?:four|4)\b|\bfinal four\b|\bend(?:s|ing)?\b", re.IGNORECASE)
_NUMBERED = re.compile(r"\b(?:account|card|last (?:four|4))\b", re.IGNORECASE)

_CAPITAL = r"[A-ZÀ-ÖØ-Þ](?:[\w]|['’](?!(?:m|s|re|ve|ll|d|t)\b))*(?:-[A-ZÀ-ÖØ-Þ]\w*)*"
_NAME = rf"({_CAPITAL}(?: {_CAPITAL}){{0,2}})"
_CALLED = re.compile(rf"\b[Nn]ame(?: is|'s|’s) {_NAME}")
_INTRODUCED = re.compile(rf"(?:\b[Tt]his is|\bI'm|\bI’m|\bI am|\b[Ss]peaking (?:to|with)) {_NAME}")
_SPEAKING = re.compile(rf"{_NAME} (?:speaking\b|here(?=[,.!]))")
_MAIDEN = re.compile(rf"\bmaiden name (?:is|was) {_NAME}")
_MAIDEN_ANSWER = re.compile(
    rf"(?:\bmaiden name (?:is|was)|\b[Ii]t(?:'s|’s| is| was)|\b[Ss]he was(?: an?)?|^) ?{_NAME}(?=[.,]|$)"
)
_TITLED = re.compile(rf"\b((?:Mr|Mrs|Ms|Mx|Miss|Dr)\.?) {_CAPITAL}")
_SPELLED = re.compile(r"(?<![\w'’])[A-Za-z](?:[-., ]{1,2}[A-Za-z]\b){2,}")
_TOKEN = re.compile(r"(\[[A-Z_]+\])")
_COMPANIES = frozenset((
    "Bank", "Union", "Savings", "Credit", "Lending", "Loans", "Mortgage", "Mobile", "Power", "Energy", "Electric",
    "Group", "Clinic", "Recovery", "Collections", "Insurance", "Services",
))  # fmt: skip
_DAYS = frozenset((
    "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday", "January", "February", "March",
    "April", "May", "June", "July", "August", "September", "October", "November", "December",
))  # fmt: skip
_NO_NAMES = frozenset((
    "I", "You", "He", "She", "It", "We", "They", "That", "This", "There", "Who", "What", "OK", "Okay", "Sorry", "Right",
    "Just", "Not", "Over", "Still", "Fine", "Anyone", "Anybody", "Someone", "Somebody", "Everyone", "Everybody",
    "Nobody",
))  # fmt: skip
_WORDS = frozenset((
    "art", "bill", "bob", "chase", "dawn", "drew", "faith", "frank", "grace", "grant", "hope", "joy", "june", "mark",
    "may", "max", "miles", "pat", "ray", "rich", "rob", "rose", "sue", "will",
))  # fmt: skip
"""Names that are words too: taken for a name only where they have a capital."""


@dataclass(frozen=True, slots=True)
class Redactor:
    """Redacts one call: its people by name, and everything else by form.

    Attributes:
        names: token by name, the longest first.
    """

    names: Mapping[str, str]

    @classmethod
    def of(cls, turns: Sequence[Turn]) -> Self:
        """Learn the names of a call from what people call themselves and others."""
        found: dict[str, str] = {}
        for place, turn in enumerate(turns):
            patterns = [_CALLED, _INTRODUCED, _SPEAKING] if place < INTRODUCED_WITHIN else [_CALLED]
            for pattern in patterns:
                for match in pattern.finditer(turn.text):
                    _learn(found, match[1], NAMES[turn.speaker])
            if turn.speaker is Speaker.CUSTOMER:
                asked = place > 0 and "maiden name" in turns[place - 1].text
                for match in (_MAIDEN_ANSWER if asked else _MAIDEN).finditer(turn.text):
                    _learn(found, match[1], NAMES[Speaker.CUSTOMER])
        return cls(dict(sorted(found.items(), key=lambda one: -len(one[0]))))

    def turn(self, turns: Sequence[Turn], place: int) -> str:
        """Give a turn's text as it may be shown; what was asked in the turn before says what digits mean."""
        spoken = turns[place]
        return redact(spoken.text, self.names, asked=turns[place - 1].text if place else "", speaker=spoken.speaker)


def _learn(found: dict[str, str], name: str, token: str) -> None:
    """Keep a name and its parts, unless it is a company's, a day or no name at all."""
    parts = name.split()
    if name in _DAYS or (_COMPANIES | _NO_NAMES) & set(parts):
        return
    for one in (name, *parts):
        found.setdefault(one, token)


def redact(
    text: str, names: Mapping[str, str] | None = None, *, asked: str = "", speaker: Speaker = Speaker.CUSTOMER
) -> str:
    """Replace personal data by tokens.

    Args:
        text: what was said.
        names: token by name, the longest first; without, names stay.
        asked: what the other side said just before.
        speaker: who says it; decides whose name follows a title or is spelled.

    >>> redact("My SSN is 123-45-6789, call (555) 010-2000 from 2019-2024")
    'My SSN is [SSN_REDACTED], call [PHONE_REDACTED] from 2019-2024'
    """
    text = _SSN.sub(SSN, text)
    if _BORN.search(text) or _BORN.search(asked):
        text = _DATE.sub(BIRTH, text)
    text = _PHONE.sub(PHONE, text)
    text = _ACCOUNT.sub(lambda match: match[0] if _YEARS.fullmatch(match[0]) else ACCOUNT, text)
    text = _without_last_four(text, asked)
    text = _EMAIL.sub(EMAIL, text)
    return _without_names(text, names or {}, speaker)


def _without_last_four(text: str, asked: str) -> str:
    """Take out four digits that stand for a longer number, by what is said around them or was asked before."""
    answers = bool(_LAST_FOUR.search(asked))
    if not (_LAST_FOUR.search(text) or answers or re.search(r"\bSSN\b", text)):
        return text
    if _SOCIAL.search(text) or (answers and _SOCIAL.search(asked)):
        return _FOUR.sub(SSN, text)
    if _NUMBERED.search(text) or answers:
        return _FOUR.sub(ACCOUNT_LAST, text)
    return text


def _without_names(text: str, names: Mapping[str, str], speaker: Speaker) -> str:
    """Replace names, whole words only; tokens that are there already are left alone."""
    other = Speaker.AGENT if speaker is Speaker.CUSTOMER else Speaker.CUSTOMER
    whole = text
    text = _outside_tokens(text, _SPELLED, lambda match: _spelled(match[0], whole, names, speaker))
    if names:
        tokens = {name.lower(): token for name, token in names.items()}
        text = _outside_tokens(text, _any_of(tuple(names)), lambda match: _named(match[0], tokens))
    return _outside_tokens(text, _TITLED, lambda match: f"{match[1]} {NAMES[other]}")


@lru_cache(maxsize=256)
def _any_of(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(re.escape(name) for name in names)})(?!\w)", re.IGNORECASE)


def _named(found: str, tokens: Mapping[str, str]) -> str:
    """Give the token of a name; one that is a word too needs its capital."""
    return found if found in _WORDS else tokens[found.lower()]


def _outside_tokens(text: str, pattern: re.Pattern[str], replace: Callable[[re.Match[str]], str]) -> str:
    """Substitute in everything but tokens."""
    pieces = _TOKEN.split(text)
    pieces[::2] = [pattern.sub(replace, piece) for piece in pieces[::2]]
    return "".join(pieces)


def _spelled(letters: str, text: str, names: Mapping[str, str], speaker: Speaker) -> str:
    joined = re.sub(r"[^A-Za-z]", "", letters).lower()
    known = next((token for name, token in names.items() if name.lower() == joined), None)
    if known:
        return known
    return NAMES[speaker] if re.search(r"\bspel", text, re.IGNORECASE) else letters
