"""What a person who watches an episode is told beside what its player sees; no player may import this."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from brief_routing_env.scenarios import case_of

SWITCHES: Final[Mapping[str, str]] = MappingProxyType(
    {"eval_mode": "Evaluation mode: nobody completes the brief behind the policy's back"}
)
"""What a reset takes as true or false beside the task's name, with the sentence for it; all are on unless switched."""


def told(task: str, seed: int) -> dict[str, object]:
    """Tell who is needed, who lies, and which numbers are right.

    >>> told("hard_brief", 1_000_003)["required"]
    ['analyst', 'finance', 'strategy', 'hr']
    """
    case = case_of(task, seed)
    return {
        "required": [str(expert) for expert in case.task.required],
        "lies": case.lies,
        "truth": dict(case.truth),
    }


def price(_action: Mapping[str, object]) -> int | None:
    """Nobody is paid by the question here."""
    return None
