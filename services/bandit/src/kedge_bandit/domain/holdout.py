"""A case of the holdout: what is asked, how an answer is checked, in which part it lies, and what it resembles."""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from math import ceil
from typing import Final

from kedge_bandit.domain.errors import InvalidName, InvalidValue

MAX_CASE_BYTES: Final = 64 * 1024
MAX_IMPORT: Final = 1000
"""Cases, or training texts, of one call."""
WORDS: Final = 5
"""Words of one sequence: "n-gram" of the near-duplicate check."""
MAX_SEQUENCES: Final = 512
NEAR: Final = 0.5
"""Share of a case's word sequences that a training text may not have in common with it."""
RESERVED_SHARE: Final = 0.05

_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}\Z")
_WORD = re.compile(r"\w+")


class Part(StrEnum):
    """The divergence check reads SENSOR as often as it runs; GATE is behind the peek ledger."""

    SENSOR = "SENSOR"
    GATE = "GATE"


class CheckKind(StrEnum):
    """How an answer is scored."""

    EXACT = "EXACT"
    REGEX = "REGEX"
    JSON_SCHEMA = "JSON_SCHEMA"
    TOOL_CALL = "TOOL_CALL"
    RUBRIC = "RUBRIC"
    EPISODE = "EPISODE"


@dataclass(frozen=True, slots=True)
class ExactCheck:
    """The answer is this text, after trimming."""

    expected: str
    ignore_case: bool = False


@dataclass(frozen=True, slots=True)
class RegexCheck:
    """The expression is found in the answer."""

    pattern: str


@dataclass(frozen=True, slots=True)
class SchemaCheck:
    """The answer is JSON that satisfies the schema."""

    schema_json: str


@dataclass(frozen=True, slots=True)
class ToolCallCheck:
    """The answer is JSON {"tool", "arguments"}: this tool, with these arguments and possibly more."""

    tool_name: str
    arguments_json: str = "{}"


@dataclass(frozen=True, slots=True)
class RubricCheck:
    """A judge, pinned by its model id, compares both answers in both orders."""

    rubric: str
    judge_model: str


@dataclass(frozen=True, slots=True)
class EpisodeCheck:
    """The score of an environment's episode, seeded by HMAC(secret, number)."""

    environment: str
    number: int


Check = ExactCheck | RegexCheck | SchemaCheck | ToolCallCheck | RubricCheck | EpisodeCheck

CHECKS: Final[Mapping[CheckKind, type[Check]]] = {
    CheckKind.EXACT: ExactCheck,
    CheckKind.REGEX: RegexCheck,
    CheckKind.JSON_SCHEMA: SchemaCheck,
    CheckKind.TOOL_CALL: ToolCallCheck,
    CheckKind.RUBRIC: RubricCheck,
    CheckKind.EPISODE: EpisodeCheck,
}
_KIND_OF: Final = {check: kind for kind, check in CHECKS.items()}


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation that is to be answered."""

    role: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldoutCase:
    """One case.

    Attributes:
        case_id: name among the policy's cases; empty: the first 16 hex digits of its hash.
        slice: under which the verdict reports it; empty: none.
        adversarial: zero tolerance, see `verdict`.
        source_episode_id: the reserved episode that it was made from; empty: none.

    Raises:
        InvalidName, InvalidValue: on construction, with what to send.
    """

    check: Check
    messages: tuple[Message, ...] = ()
    categories: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)
    adversarial: bool = False
    slice: str = ""
    case_id: str = ""
    source_episode_id: str = ""

    def __post_init__(self) -> None:
        """Refuse a case that nobody could answer or name."""
        if self.case_id and not _ID.match(self.case_id):
            raise InvalidName("case_id", self.case_id[:80], "1 to 64 characters of [A-Za-z0-9._:-]")
        if len(self.slice) > 64 or not self.slice.isprintable():
            raise InvalidValue("slice", repr(self.slice[:80]), "at most 64 printable characters")
        if not self.messages and self.kind is not CheckKind.EPISODE:
            raise InvalidValue("messages", "empty", "what is to be answered")
        if len(self.canonical) > MAX_CASE_BYTES:
            raise InvalidValue("case", f"{len(self.canonical)} bytes", f"at most {MAX_CASE_BYTES}")

    @property
    def kind(self) -> CheckKind:
        """How it is checked."""
        return _KIND_OF[type(self.check)]

    @property
    def canonical(self) -> bytes:
        """What is asked and how it is checked, as JSON; names, slice and source are not in it."""
        facts = {
            "messages": [asdict(message) for message in self.messages],
            "categories": dict(self.categories),
            "numbers": dict(self.numbers),
            "check": {"kind": self.kind, **asdict(self.check)},
            "adversarial": self.adversarial,
        }
        return json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()

    @property
    def case_hash(self) -> str:
        """SHA-256 of the canonical form, in hex."""
        return hashlib.sha256(self.canonical).hexdigest()

    @property
    def name(self) -> str:
        """The case's id, given or made."""
        return self.case_id or self.case_hash[:16]

    @property
    def text(self) -> str:
        """What is asked, as one text."""
        return "\n".join(message.text for message in self.messages)

    @property
    def part(self) -> Part:
        """Where it lies: by its hash alone, so that nobody chooses; adversarial cases all lie in GATE.

        >>> check = ExactCheck("4")
        >>> cases = [HoldoutCase(messages=(Message("user", f"{n} + 1"),), check=check) for n in range(1000)]
        >>> 450 < sum(case.part is Part.GATE for case in cases) < 550
        True
        """
        return Part.GATE if self.adversarial or int(self.case_hash[:8], 16) % 2 else Part.SENSOR


@dataclass(frozen=True, slots=True)
class Reserved:
    """A reserved episode: what was known when it was decided."""

    episode_id: str
    bucket: str
    decision_time: datetime
    categories: Mapping[str, str]
    numbers: Mapping[str, float]


def version_of(case_hashes: Iterable[str]) -> str:
    """Hash a version's content: SHA-256 over its cases' hashes, in hex.

    >>> version_of(["b", "a"]) == version_of(["a", "b"])
    True
    """
    return hashlib.sha256("\n".join(sorted(case_hashes)).encode()).hexdigest()


def sequences(text: str) -> frozenset[int]:
    """Hash the sequences of five words of a text, at most 512; of a shorter text the one that it is.

    >>> len(sequences("one two three four five six")), len(sequences("One, TWO!")), len(sequences("?"))
    (2, 1, 0)
    >>> sequences("one two") == sequences("One, TWO!")
    True
    """
    words = _WORD.findall(text.casefold())[: MAX_SEQUENCES + WORDS - 1]
    count = max(1, len(words) - WORDS + 1) if words else 0
    joined = (" ".join(words[start : start + WORDS]) for start in range(count))
    return frozenset(_hash(each) for each in joined)


def is_near(case: frozenset[int], text: frozenset[int]) -> bool:
    """Say whether a case is a near-duplicate of a text: half of its word sequences are in it.

    >>> is_near(sequences("please book a flight to Rome"), sequences("Please book a flight to Paris, not Rome"))
    True
    """
    return bool(case) and len(case & text) >= NEAR * len(case)


def near_any(cases: Sequence[frozenset[int]], texts: Sequence[frozenset[int]]) -> list[bool]:
    """Say of each case whether it is a near-duplicate of one of many texts, as `is_near` does.

    A near-duplicate has so many of a case's sequences that it has one of the rarest of them: only texts with such a one
    are compared, so that what all texts begin with costs nothing.

    >>> near_any([sequences("please book a flight to Rome"), sequences("hello")], [sequences("Book a flight to Rome!")])
    [True, False]
    """
    wanted = frozenset[int]().union(*cases)
    having: defaultdict[int, list[frozenset[int]]] = defaultdict(list)
    for text in texts:
        for word in text & wanted:
            having[word].append(text)
    return [any(is_near(case, text) for word in _rarest(case, having) for text in having[word]) for case in cases]


def _rarest(case: frozenset[int], having: defaultdict[int, list[frozenset[int]]]) -> list[int]:
    """Name so many of a case's sequences that the others are too few for a near-duplicate."""
    return sorted(case, key=lambda word: len(having[word]))[: len(case) - ceil(NEAR * len(case)) + 1]


def is_reserved(tenant: str, policy: str, episode_id: str) -> bool:
    """Say whether an episode is kept from every trainer, from the first day on: one in twenty, by session.

    An id of the form SESSION/TURN is reserved with its whole session.

    >>> [is_reserved("acme", "support", f"{session}/{turn}") for session in (14, 15) for turn in (1, 2)]
    [True, True, False, False]
    """
    session = episode_id.partition("/")[0]
    digest = hashlib.sha256(f"{tenant}/{policy}/{session}".encode()).digest()
    return int.from_bytes(digest[:8]) < RESERVED_SHARE * 2**64


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), signed=True)
