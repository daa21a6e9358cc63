"""Observations as vectors and actions as numbers, for small policies. Part of the environment's version."""

from collections.abc import Mapping
from typing import cast

import numpy as np
import numpy.typing as npt

from relocation_env.rules import COUNTRIES, DOCUMENTS, MAX_STEPS, MOVES, Department, Item, Move, Result, Status
from relocation_env.view import View

_LISTED = {str(move): index for index, move in enumerate(MOVES)}
_PARTS = ("document", "department", "compliance", "conflict", "event")


def features(observation: Mapping[str, object]) -> npt.NDArray[np.float32]:
    """Encode an observation, shape [F]; where blind mode shows nothing, the entry is 0."""
    seen = cast("View", observation)
    documents = seen["documents"]
    required = {*seen.get("required_departments", ()), *seen.get("required_compliance", ())}
    values: list[float] = [documents.get(name) == status for name in DOCUMENTS for status in Status]
    values += [seen["departments"][name] for name in Department]
    values += [seen["compliance"][item] for item in Item]
    values += [name in required for name in (*Department, *Item)]
    values += [name in seen["countries"] for name in COUNTRIES]
    values += [seen["open_parts"].get(part, 0) / 5 for part in _PARTS]
    values += [any(notice["needs_acknowledgement"] for notice in seen["announcements"])]
    values += [seen["deadline_days"] / MAX_STEPS, seen["steps_taken"] / MAX_STEPS]
    values += [seen["last_action_result"] == result for result in Result]
    return np.array(values, dtype=np.float32)


def mask(observation: Mapping[str, object]) -> npt.NDArray[np.bool_]:
    """Mark the possible ones of the 36 actions, shape [36]; blind mode lists none, so that all are marked.

    What is listed for a country of the case keeps the traps in.
    """
    seen = cast("View", observation)
    if "available_actions" not in seen:
        return np.ones(len(MOVES), dtype=np.bool_)
    marked = np.zeros(len(MOVES), dtype=np.bool_)
    marked[[_LISTED[spelled] for spelled in seen["available_actions"]]] = True
    return marked


def numbered(index: int, _: Mapping[str, object]) -> dict[str, object]:
    """Spell an action of the mask.

    >>> numbered(35, {})
    {'action_type': 'finalize_case', 'target': ''}
    """
    return spell(MOVES[index])


def spell(move: Move) -> dict[str, object]:
    """Give an action its JSON form."""
    return {"action_type": str(move.verb), "target": move.target}


def read(spelled: str) -> dict[str, object]:
    """Give a listed action, `verb:target`, its JSON form.

    >>> read("set_tax_id:UAE")
    {'action_type': 'set_tax_id', 'target': 'UAE'}
    """
    verb, _, target = spelled.partition(":")
    return {"action_type": verb, "target": target}
