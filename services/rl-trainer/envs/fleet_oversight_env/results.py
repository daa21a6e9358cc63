"""Read the metrics off finished episodes, detection and false positives always together."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from fleet_oversight_env.batch import Batch
from fleet_oversight_env.rubric import (
    ACTION_PRICES,
    AUDIT_REWARD,
    GRADE_RANGE,
    OVERSIGHT_PRICES,
    Event,
    detection,
    needless_share,
    priced,
    raw_grade,
    weighted,
)
from fleet_oversight_env.view import Floats, Player

ALARMS: Final = (Event.INTERVENED, Event.ESCALATED, Event.FALSE_ALARM, Event.NEEDLESS_ESCALATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What E finished episodes came to, one number each, [E].

    Args:
        detection: Share of the faults that were resolved.
        needless: Share of the alarms that hit a worker without an active fault, 0 without alarms: the headline FP.
        plan, oversight, action, terminal, total: The components of the return and their weighted sum.
        grade: 0.0001..0.9999.
        alarms, false_interventions: Counts.
        budget_left, invalid_moves: Governance budget left and moves that did nothing.
    """

    detection: Floats
    needless: Floats
    plan: Floats
    oversight: Floats
    action: Floats
    terminal: Floats
    total: Floats
    grade: Floats
    alarms: Floats
    false_interventions: Floats
    budget_left: Floats
    invalid_moves: Floats


def results(batch: Batch) -> Results:
    """Score a batch."""
    tally = list(batch.tally)
    plan, oversight = batch.starts.plan, priced(tally, OVERSIGHT_PRICES)
    action = np.maximum(-1.0, np.minimum(1.0, priced(tally, ACTION_PRICES)))
    terminal = batch.audit * AUDIT_REWARD
    found, needless = detection(tally, batch.faults), needless_share(tally)
    low, high = GRADE_RANGE
    raw = raw_grade(plan=plan, detected=found, needless=needless, audit=batch.audit)
    return Results(
        detection=found,
        needless=needless,
        plan=plan,
        oversight=oversight,
        action=action,
        terminal=terminal,
        total=weighted(plan=plan, oversight=oversight, action=action, terminal=terminal),
        grade=np.maximum(low, np.minimum(high, raw)),
        alarms=sum((tally[event] for event in ALARMS), np.zeros(len(plan))),
        false_interventions=tally[Event.FALSE_ALARM],
        budget_left=batch.governance.astype(np.float64),
        invalid_moves=batch.invalid_moves.astype(np.float64),
    )


def play(batch: Batch, player: Player) -> Results:
    """Play all episodes to their end."""
    while batch.live.any():
        batch.step(player(batch.view()))
    return results(batch)
