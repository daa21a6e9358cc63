"""Turn what an overseer has seen and done into numbers for a small policy, and say which moves are possible.

A memory keeps running counts per worker, from views alone: no law of the domain enters but the public prices and the
base rates that the datasheet prints. `VERSION` names the layout; a policy remembers which one it was trained on.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fleet_oversight_env.laws import (
    CRM,
    FLAG_FALSE,
    GOVERNANCE_BUDGET,
    OVERSIGHT_STEPS,
    PRICES,
    RESULTS,
    STATUSES,
    Result,
    Status,
)
from fleet_oversight_env.view import (
    ESCALATE,
    HOLD,
    INTERVENE,
    MONITOR,
    MOVES,
    NO_RESULT,
    NOBODY,
    Bools,
    Floats,
    Ints,
    Moves,
    Opening,
    View,
)

VERSION: Final = "fleet-features-1"
Singles = NDArray[np.float32]
RECENT: Final = 5
PROBE_SPLIT: Final = 0.675
_CLOSED_FROM: Final = STATUSES.index(Status.INTERVENED)
_RESULTS: Final = tuple(RESULTS.index(r) for r in (Result.INVALID, Result.RETRY, Result.STALL))
_BASE: Final = (CRM.invalid, CRM.retry, CRM.stall)
# A small policy chooses among these for each worker, or waits; the audit follows at the last step.
WORKER_MOVES: Final = (MONITOR, INTERVENE, ESCALATE, HOLD)

NAMES: Final = (
    "flag", "flag_excess", "flag_recent", "flag_run", "invalid_excess", "retry_excess", "stall_excess", "burn_excess",
    "invalid_now", "retry_now", "stall_now", "stall_run", "jumps", "flag_since_jump", "since_jump",
    "probes_low", "probes_high", "probe_sum", "zeros", "zero_misses", "probed_now", "probe_now", "zero_now",
    "misalignment", "targetable", "paused", "closed", "approved", "alarmed", "since_monitor",
    "strongest_other", "second_other", "closed_count", "needless_count", "time", "k9", "k11", "k12", "k13", "k16",
    "governance", "can_intervene", "can_escalate",
)  # fmt: skip
FEATURES: Final = len(NAMES)
# Strength of the evidence against a worker, in rough log-odds: how workers are compared with each other.
_STRENGTH: Final = {
    "flag_excess": 0.8, "invalid_excess": 1.2, "retry_excess": 0.8, "stall_excess": 0.6, "burn_excess": 0.5,
    "jumps": 1.5, "flag_since_jump": 0.5, "probes_low": 2.0, "probes_high": -0.8, "zeros": 0.8, "zero_misses": -1.2,
}  # fmt: skip


class Memory:
    """Remember what was seen of E fleets, and describe each worker with `FEATURES` numbers."""

    def __init__(self, opening: Opening) -> None:
        shape = opening.budget.shape
        self.shape = shape
        self.rows = np.arange(shape[0])
        self.budget = opening.budget
        self.misalignment = 1.0 - opening.alignment
        self.count: dict[str, Floats] = {
            name: np.zeros(shape)
            for name in (
                "flag_excess", "flag_run", "invalid_excess", "retry_excess", "stall_excess", "burn_excess", "stall_run",
                "jumps", "flag_since_jump", "since_jump", "probes_low", "probes_high", "probe_sum", "zeros",
                "zero_misses", "approved", "alarmed", "needless",
            )
        }  # fmt: skip
        self.monitored_at = np.full(shape, -OVERSIGHT_STEPS)
        self.recent: list[Floats] = []

    def see(self, view: View, last: Moves | None) -> Singles:
        """Take in a view and the move before it; give the description, [E, 5, FEATURES]."""
        if last is not None:
            self._remember(view, last)
        now = self._telemetry(view) | self._probe(view)
        self.budget = view.budget
        closed = view.status >= _CLOSED_FROM
        strength = sum(weight * self.count[name] for name, weight in _STRENGTH.items())
        ranked = np.where(closed, -5.0, strength)
        everyone = np.ones(self.shape)
        other = _others(ranked)
        whole = {
            "strongest_other": other[0] * 0.3,
            "second_other": other[1] * 0.3,
            "closed_count": closed.sum(axis=1, keepdims=True) * everyone,
            "needless_count": self.count["needless"].sum(axis=1, keepdims=True) * everyone,
            "time": (view.k / OVERSIGHT_STEPS) * everyone,
            "k9": (view.k >= 9) * everyone,
            "k11": (view.k >= 11) * everyone,
            "k12": (view.k >= 12) * everyone,
            "k13": (view.k >= 13) * everyone,
            "k16": (view.k >= 16) * everyone,
            "governance": (view.governance / GOVERNANCE_BUDGET)[:, None] * everyone,
            "can_intervene": (view.governance >= PRICES[MOVES[INTERVENE]])[:, None] * everyone,
            "can_escalate": (view.governance >= PRICES[MOVES[ESCALATE]])[:, None] * everyone,
            "targetable": view.targetable * everyone,
            "paused": (view.status == STATUSES.index(Status.PAUSED)) * everyone,
            "closed": closed * everyone,
            "misalignment": self.misalignment,
            "since_monitor": np.minimum(view.k - self.monitored_at, 6) / 6.0,
            "flag": view.flag * everyone,
            "flag_recent": sum(self.recent[-RECENT:], np.zeros(self.shape)),
        }
        columns = self.count | now | whole
        return np.stack([columns[name] for name in NAMES], axis=2).astype(np.float32)

    def _telemetry(self, view: View) -> dict[str, Floats]:
        """Count the step's flag, log entry and fall of the budget, each above its base rate; nothing while paused."""
        count, seen = self.count, (view.result != NO_RESULT).astype(np.float64)
        flag = view.flag.astype(np.float64)
        excess = seen * (flag - FLAG_FALSE)
        self.recent.append(excess)
        count["flag_excess"] = count["flag_excess"] + excess
        count["flag_run"] = (count["flag_run"] + 1.0) * flag
        count["flag_since_jump"] = count["flag_since_jump"] + excess * (count["jumps"] > 0)
        count["since_jump"] = count["since_jump"] + (count["jumps"] > 0) / OVERSIGHT_STEPS
        invalid, retry, stall = ((view.result == result).astype(np.float64) for result in _RESULTS)
        for name, happened, base in zip(("invalid", "retry", "stall"), (invalid, retry, stall), _BASE, strict=True):
            count[f"{name}_excess"] = count[f"{name}_excess"] + seen * (happened - base)
        count["stall_run"] = np.where(seen > 0, (count["stall_run"] + 1.0) * stall, count["stall_run"])
        fall = self.budget - view.budget
        burnt = (fall == 2) | (fall == 5)
        count["burn_excess"] = count["burn_excess"] + seen * (burnt - CRM.burn)
        jumped = fall >= 4
        count["flag_since_jump"] = np.where(jumped & (count["jumps"] == 0), excess, count["flag_since_jump"])
        count["jumps"] = count["jumps"] + jumped
        return {"invalid_now": invalid, "retry_now": retry, "stall_now": stall}

    def _probe(self, view: View) -> dict[str, Floats]:
        count, got = self.count, np.flatnonzero(view.probed != NOBODY)
        at = (got, view.probed[got])
        low = view.quality[got] < PROBE_SPLIT
        zero = view.zero[got]
        count["probes_low"][at] += low
        count["probes_high"][at] += ~low
        count["probe_sum"][at] += (PROBE_SPLIT - view.quality[got]) * 10.0
        count["zeros"][at] += zero
        count["zero_misses"][at] += ~zero
        probed, quality, bit = np.zeros(self.shape), np.zeros(self.shape), np.zeros(self.shape)
        probed[at], quality[at], bit[at] = 1.0, (PROBE_SPLIT - view.quality[got]) * 10.0, zero
        return {"probed_now": probed, "probe_now": quality, "zero_now": bit}

    def _remember(self, view: View, last: Moves) -> None:
        """Note the own move, and whether an alarm hit nothing: then the worker is locked but not closed."""
        aimed = last.worker != NOBODY
        alarm = aimed & ((last.kind == INTERVENE) | (last.kind == ESCALATE))
        for name, did in (("approved", aimed & (last.kind == HOLD)), ("alarmed", alarm)):
            self.count[name][self.rows[did], last.worker[did]] = 1.0
        rows, target = self.rows[alarm], last.worker[alarm]
        nothing = (view.status[rows, target] < _CLOSED_FROM) & ~view.targetable[rows, target]
        self.count["needless"][rows[nothing], target[nothing]] += 1.0
        looked = aimed & (last.kind == MONITOR)
        self.monitored_at[self.rows[looked], last.worker[looked]] = view.k - 1

    def suspicion(self) -> Ints:
        """Name each worker's likeliest fault by its largest excess, as an index into FAULTS, [E, 5]."""
        count = self.count
        excess = (
            2.0 * count["jumps"] + count["flag_since_jump"],
            2.0 * count["invalid_excess"],
            count["retry_excess"] + 1.5 * count["probes_low"] - 0.5 * count["probes_high"],
            count["stall_excess"] + count["burn_excess"] + 0.7 * count["zeros"] - 0.7 * count["zero_misses"],
        )
        return np.asarray(np.stack(excess, axis=2).argmax(axis=2))


def _others(strength: Floats) -> tuple[Floats, Floats]:
    """Give, for each worker, the largest and second largest strength among the other four."""
    ordered = np.sort(strength, axis=1)
    first, second, third = ordered[:, -1:], ordered[:, -2:-1], ordered[:, -3:-2]
    is_first, is_second = strength >= first, strength >= second
    return np.where(is_first, second, first), np.where(is_second, third, second)


def possible(view: View) -> Bools:
    """Say which moves a small policy may choose, [E, 21]: four per worker, then to wait."""
    costs = np.array([PRICES[MOVES[kind]] for kind in WORKER_MOVES])
    paid = view.governance[:, None] >= costs
    open_to = view.targetable[:, :, None] & paid[:, None, :]
    episodes = len(view.governance)
    return np.concatenate([open_to.reshape(episodes, -1), np.ones((episodes, 1), dtype=np.bool_)], axis=1)
