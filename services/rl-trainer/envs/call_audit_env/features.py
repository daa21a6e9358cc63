"""Observations as vectors and actions as numbers, for small policies. Part of the environment's version."""

from collections.abc import Mapping
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from call_audit_env import moves
from call_audit_env.book import default
from call_audit_env.calls import Severity
from call_audit_env.cues import overheard, suspects
from call_audit_env.moves import CHUNK, PER_TURN, PRICES, Tool
from call_audit_env.view import View

MOST_TURNS: Final = 40
"""Turns that have a place; longer calls can be read past it by text alone."""

CHUNKS: Final = MOST_TURNS // CHUNK
NAMES: Final = tuple(default().policies)
CLAIMS: Final = tuple((name, severity) for name in NAMES for severity in Severity)
TRIAGE: Final = (Tool.METADATA, Tool.SENTIMENT, Tool.LENGTH)
SIZE: Final = len(TRIAGE) + CHUNKS + MOST_TURNS + len(CLAIMS) + 2
"""Numbered actions: triage, chunks, turns to analyze, claims, and the two verdicts."""


def features(observation: Mapping[str, object]) -> npt.NDArray[np.float32]:
    """Encode an observation, shape [84]: budget, what was opened, what its wording suggests, and what was flagged."""
    seen = cast("View", observation)
    check = seen["checklist"]
    opened = {int(str(turn["turn_index"])) for turn in seen["opened"]}
    hinted = {(one.policy, one.severity) for one in suspects(overheard(seen["opened"]), seen["department"])}
    flagged = {(one["violation_type"], one["violation_severity"]) for one in seen["findings"]}
    values: list[float] = [
        check["budget_remaining_pct"] / 100,
        seen["step"] / 60,
        seen["turns"] / MOST_TURNS,
        check["metadata_reviewed"],
        check["sentiment_checked"],
        len(opened) / seen["turns"],
        check["turns_analyzed"] / CHUNK,
        seen["department"] == "collections",
    ]
    values += [index in opened for index in range(MOST_TURNS)]
    values += [claim in hinted for claim in CLAIMS]
    values += [claim in flagged for claim in CLAIMS]
    return np.array(values, dtype=np.float32)


def mask(observation: Mapping[str, object]) -> npt.NDArray[np.bool_]:
    """Mark the actions that can be paid and still tell something, shape [71]; none once the audit is over."""
    seen = cast("View", observation)
    check, turns = seen["checklist"], seen["turns"]
    marked = np.zeros(SIZE, dtype=np.bool_)
    if check["report_submitted"]:
        return marked
    left = check["budget_remaining_units"]
    opened = {int(str(turn["turn_index"])) for turn in seen["opened"]}
    marked[0] = not check["metadata_reviewed"] and left >= PRICES[Tool.METADATA]
    marked[1] = not check["sentiment_checked"] and left >= PRICES[Tool.SENTIMENT]
    marked[2] = left >= PRICES[Tool.LENGTH]
    place = len(TRIAGE)
    for number in range(CHUNKS):
        inside = range(CHUNK * number, min(turns, CHUNK * (number + 1)))
        marked[place + number] = bool(set(inside) - opened) and left >= PER_TURN * len(inside)
    place += CHUNKS
    marked[place : place + min(turns, MOST_TURNS)] = left >= PRICES[Tool.ANALYZE]
    place += MOST_TURNS
    marked[place : place + len(CLAIMS)] = left >= PRICES[Tool.FLAG]
    marked[-2:] = True
    return marked


def numbered(index: int, observation: Mapping[str, object]) -> dict[str, object]:
    """Spell an action of the mask.

    >>> numbered(70, {})
    {'action_type': 'submit_report', 'compliance_pass': True}
    """
    if index < len(TRIAGE):
        return {"action_type": str(TRIAGE[index])}
    index -= len(TRIAGE)
    if index < CHUNKS:
        last = cast("View", observation)["turns"] - 1
        return moves.chunk(CHUNK * index, min(last, CHUNK * (index + 1) - 1))
    index -= CHUNKS
    if index < MOST_TURNS:
        return moves.analyze(index)
    index -= MOST_TURNS
    if index < len(CLAIMS):
        return moves.flag(*CLAIMS[index])
    return moves.submit(passed=index == len(CLAIMS) + 1)
