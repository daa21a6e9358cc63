"""The seven tools, what they cost, and how any JSON object becomes a move or a refused one."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Tool(StrEnum):
    """What an auditor can do."""

    METADATA = "get_call_metadata"
    SENTIMENT = "get_sentiment_timeline"
    LENGTH = "get_transcript_length"
    READ = "read_transcript_chunk"
    ANALYZE = "analyze_turn"
    FLAG = "flag_violation"
    SUBMIT = "submit_report"


CHUNK: Final = 5
"""Turns that one reading opens at most."""

PER_TURN: Final = 3
"""Units for each turn of a reading."""

PRICES: Final[Mapping[Tool, int]] = MappingProxyType(
    {Tool.METADATA: 5, Tool.SENTIMENT: 5, Tool.LENGTH: 1, Tool.ANALYZE: 10, Tool.FLAG: 2, Tool.SUBMIT: 0}
)
"""Units; reading is priced by the turn."""

UNKNOWN_PRICE: Final = 5
LONGEST_NOTE: Final = 300
WRONG: Final = -1
"""An index that was given and is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """An action as it was understood.

    Attributes:
        tool: None for something that is no tool.
        turn, first, last: turn indices; None where left out, WRONG where no index was given.
        policy, severity: as claimed, which may be no policy or severity at all; None where left out.
        passed: the verdict of a report; None where left out or no truth value.
        note: free text of a finding, at most LONGEST_NOTE characters.
    """

    tool: Tool | None
    turn: int | None = None
    first: int | None = None
    last: int | None = None
    policy: str | None = None
    severity: str | None = None
    passed: bool | None = None
    hypothesis: str | None = None
    note: str = ""

    @property
    def price(self) -> int:
        """Units that it costs; a reading's indices have been checked before."""
        if self.tool is Tool.READ:
            return PER_TURN * ((self.last or 0) - (self.first or 0) + 1)
        return UNKNOWN_PRICE if self.tool is None else PRICES[self.tool]


SCHEMA: Final[Mapping[str, object]] = MappingProxyType(
    {
        "type": "object",
        "properties": {
            "action_type": {"type": "string", "enum": [str(tool) for tool in Tool]},
            "turn_index": {"type": ["integer", "null"], "minimum": 0, "description": "analyze_turn, flag_violation"},
            "start_turn": {"type": ["integer", "null"], "minimum": 0, "description": "read_transcript_chunk"},
            "end_turn": {"type": ["integer", "null"], "minimum": 0, "description": "the last turn, included"},
            "violation_type": {"type": ["string", "null"], "description": "a policy of the rubric"},
            "violation_severity": {"type": ["string", "null"], "enum": ["high", "medium", "low", None]},
            "compliance_pass": {"type": ["boolean", "null"], "description": "submit_report"},
            "policy_hypothesis": {"type": ["string", "null"], "description": "analyze_turn: the policy to look up"},
            "note": {"type": ["string", "null"], "maxLength": LONGEST_NOTE, "description": "flag_violation"},
        },
        "required": ["action_type"],
        "additionalProperties": False,
    }
)


def read(action: Mapping[str, object]) -> Move:
    """Understand an action; a value of the wrong kind makes a move that is refused, never an error.

    >>> read({"action_type": "analyze_turn", "turn_index": 4}).turn
    4
    >>> read({"action_type": "dance"}).tool is None, read({"action_type": "analyze_turn", "turn_index": "4"}).turn
    (True, -1)
    """
    verdict = action.get("compliance_pass")
    return Move(
        tool=_tool(action.get("action_type")),
        turn=_index(action.get("turn_index")),
        first=_index(action.get("start_turn")),
        last=_index(action.get("end_turn")),
        policy=_word(action.get("violation_type")),
        severity=_word(action.get("violation_severity")),
        passed=verdict if isinstance(verdict, bool) else None,
        hypothesis=_word(action.get("policy_hypothesis")),
        note=(_word(action.get("note")) or "")[:LONGEST_NOTE],
    )


def _tool(value: object) -> Tool | None:
    return Tool(value) if isinstance(value, str) and value in set(Tool) else None


def _index(value: object) -> int | None:
    if value is None:
        return None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else WRONG


def _word(value: object) -> str | None:
    """Keep a text, as one that can be written out; anything else is no policy's name."""
    if value is None:
        return None
    return value.encode(errors="replace").decode() if isinstance(value, str) else "?"


def metadata() -> dict[str, object]:
    """Spell a tool call; so do the next ones.

    >>> flag("failed_escalation", "high", 12)["turn_index"]
    12
    """
    return {"action_type": str(Tool.METADATA)}


def sentiment() -> dict[str, object]:
    """Ask for the moods."""
    return {"action_type": str(Tool.SENTIMENT)}


def length() -> dict[str, object]:
    """Ask how many turns there are."""
    return {"action_type": str(Tool.LENGTH)}


def chunk(first: int, last: int) -> dict[str, object]:
    """Read turns, both ends included."""
    return {"action_type": str(Tool.READ), "start_turn": first, "end_turn": last}


def analyze(turn: int, hypothesis: str | None = None) -> dict[str, object]:
    """Look closely at a turn."""
    return {"action_type": str(Tool.ANALYZE), "turn_index": turn, "policy_hypothesis": hypothesis}


def flag(policy: str, severity: str, turn: int | None = None) -> dict[str, object]:
    """Report a finding."""
    return {
        "action_type": str(Tool.FLAG),
        "violation_type": policy,
        "violation_severity": str(severity),
        "turn_index": turn,
    }


def submit(*, passed: bool) -> dict[str, object]:
    """End the audit."""
    return {"action_type": str(Tool.SUBMIT), "compliance_pass": passed}
