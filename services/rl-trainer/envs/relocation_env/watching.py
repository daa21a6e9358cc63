"""What a person who watches an episode is told beside what its player sees; no player may import this."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from relocation_env.rules import Department, Item
from relocation_env.scenarios import case_of

SWITCHES: Final[Mapping[str, str]] = MappingProxyType({})
"""A reset takes nothing beside the task's name."""


def told(task: str, seed: int) -> dict[str, object]:
    """Tell what the case needs, which rule changes when, and how few steps suffice.

    >>> told("crisis", 1_000_003)["optimum"]
    14
    """
    case = case_of(task, seed)
    event = case.event
    return {
        "documents": list(case.documents),
        "departments": [str(name) for name in Department if name in case.departments],
        "items": [str(item) for item in Item if item in case.items],
        "optimum": case.optimum,
        "change": {"step": event.step, "struck": event.struck, "replacement": event.replacement} if event else None,
    }


def price(_action: Mapping[str, object]) -> int | None:
    """Every action costs a day, whatever it is."""
    return None
