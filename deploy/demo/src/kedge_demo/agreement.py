"""Compare the figures with another computation of the same keys, and say where the two differ."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

TOLERANCE = 1e-9
COMPARED = (
    "decisions",
    "quality_last_third",
    "best_single_same_turns",
    "bucket_oracle_quality",
    "flatterer_share_late",
    "breaker_share_late",
    "replay_mismatches",
    "rebuild_max_error",
    "self_check_p",
    "episodes_unaccounted",
)
"""What every computation must have."""


def disagreements(ours: dict[str, object], theirs: dict[str, object]) -> list[str]:
    """List the keys that differ by more than 1e-9 (numbers) or at all (everything else), and those that are missing.

    >>> ours = dict.fromkeys(COMPARED, 0.5) | {"name": "a"}
    >>> disagreements(ours, ours | {"decisions": 4, "note": "not compared"})
    ['a: decisions is 0.5 here and 4 there']
    """
    found = []
    for key in (*COMPARED, *(key for key in theirs if key in ours and key not in COMPARED)):
        mine, value = ours.get(key), theirs.get(key)
        if isinstance(mine, int | float) and isinstance(value, int | float):
            same = math.isclose(mine, value, rel_tol=0.0, abs_tol=TOLERANCE)
        else:
            same = mine == value
        if not same:
            found.append(f"{ours['name']}: {key} is {mine!r} here and {value!r} there")
    return found


def disagreements_with(tenants: Sequence[dict[str, object]], path: Path) -> list[str]:
    """Compare all tenants with another computation's file, matched by name."""
    other = json.loads(path.read_text(encoding="utf-8"))
    theirs = {tenant["name"]: tenant for tenant in other["tenants"]}
    found = []
    for tenant in tenants:
        match = theirs.get(tenant["name"])
        found += [f"{tenant['name']}: is missing there"] if match is None else disagreements(tenant, match)
    return found
