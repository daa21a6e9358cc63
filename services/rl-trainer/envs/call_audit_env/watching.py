"""What a person who watches an episode is told beside what its player sees; no player may import this."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from call_audit_env.moves import Tool, read
from call_audit_env.scenarios import call_of

SWITCHES: Final[Mapping[str, str]] = MappingProxyType({})
"""A reset takes nothing beside the task's name."""


def told(task: str, seed: int) -> dict[str, object]:
    """Tell what is wrong with the call, and where that is heard.

    >>> told("base", 5)["breaches"][0].keys() == {"policy", "severity", "at", "turns"}
    True
    """
    call = call_of(task, seed)
    return {
        "breaches": [
            {"policy": one.policy, "severity": str(one.severity), "at": one.at, "turns": sorted(one.span)}
            for one in call.breaches
        ]
    }


def price(action: Mapping[str, object]) -> int | None:
    """Say what a tool costs in units; None for a reading of turns that do not exist, which is refused.

    >>> price({"action_type": "read_transcript_chunk", "start_turn": 0, "end_turn": 4}), price({"action_type": "dance"})
    (15, 5)
    """
    move = read(action)
    wrong = move.tool is Tool.READ and not 0 <= (-1 if move.first is None else move.first) <= (move.last or 0)
    return None if wrong else move.price
