"""Find the action in a language model's answer.

Every environment that has this file has it alike, because it installs alone: `tests/envs/test_shared_files.py`.
"""

import json
from typing import Final

LONGEST: Final = 20_000
"""Characters of an answer that are looked at."""

UNREADABLE: Final = "unreadable"
"""The action type of an answer that holds no action: every environment refuses it."""


def find_action(text: str) -> dict[str, object]:
    """Read the first JSON object that has an `action_type`.

    >>> find_action('So {"action_type": "noop", "because": {}} it is.'), find_action("nothing")
    ({'action_type': 'noop', 'because': {}}, {'action_type': 'unreadable'})
    """
    decoder = json.JSONDecoder()
    looked_at = text[:LONGEST]
    start = looked_at.find("{")
    while start >= 0:
        try:
            found, _ = decoder.raw_decode(looked_at, start)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict) and isinstance(found.get("action_type"), str):
            return found
        start = looked_at.find("{", start + 1)
    return {"action_type": UNREADABLE}
