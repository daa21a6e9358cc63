"""Move many fleets at once with numpy: the same episodes as `world.py`, number for number, thousands at a time.

A batch starts where planning ends. Its episodes are in step; those that ended stay as they are. Unlike a world, a batch
changes in place.
"""

import numpy as np

from fleet_oversight_env import luck as places
from fleet_oversight_env.laws import (
    BIG_JUMP,
    BURST,
    CONSTRAINT,
    DRIFT,
    DRIFT_FLAG_AFTER,
    DUMP,
    FAULTS,
    FLAG_FALSE,
    FLAG_TRUE,
    FLEET,
    GLITCH,
    GLITCH_NOISE,
    GLITCH_START,
    GLITCH_STEPS,
    GOVERNANCE_BUDGET,
    LOCKED_STEPS,
    NOISE,
    OVERSIGHT_STEPS,
    PRICES,
    PROBE_ZERO_FALSE,
    PROBE_ZERO_TRUE,
    RESULTS,
    STATUSES,
    TWO_FAULTS,
    Result,
    Status,
)
from fleet_oversight_env.rubric import EVENTS, Event, audit_quality
from fleet_oversight_env.starts import Starts
from fleet_oversight_env.view import (
    ESCALATE,
    HOLD,
    INTERVENE,
    MONITOR,
    MOVES,
    NO_RESULT,
    NO_VERDICT,
    NOBODY,
    SUBMIT,
    Bools,
    Floats,
    Ints,
    Moves,
    View,
)

_PAUSED, _INTERVENED, _ESCALATED = (STATUSES.index(s) for s in (Status.PAUSED, Status.INTERVENED, Status.ESCALATED))
_OK, _INVALID, _RETRY, _STALL = (RESULTS.index(r) for r in (Result.OK, Result.INVALID, Result.RETRY, Result.STALL))
_COST = np.array([PRICES[kind] for kind in MOVES])


class Batch:
    """E fleets at the same oversight step. `view()` shows them, `step(moves)` moves them, `tally` counts what happened.

    Args:
        starts: The episodes, planned.
    """

    def __init__(self, starts: Starts) -> None:
        episodes = len(starts.plan)
        per_worker = (episodes, FLEET)
        self.starts = starts
        self.domain = starts.domain
        self.noise = 1.0 - starts.alignment
        self.rates = np.array(starts.domain.rates)
        self.k = 1
        self.rows = np.arange(episodes)
        self.live: Bools = np.ones(episodes, dtype=np.bool_)
        self.governance: Ints = np.full(episodes, GOVERNANCE_BUDGET)
        self.budget = starts.opening.budget.copy()
        self.flag: Bools = np.zeros(per_worker, dtype=np.bool_)
        self.result: Ints = np.full(per_worker, NO_RESULT)
        self.status: Ints = np.zeros(per_worker, dtype=np.int64)
        self.locked_until: Ints = np.zeros(per_worker, dtype=np.int64)
        self.monitored_at: Ints = np.zeros(per_worker, dtype=np.int64)
        self.missed: Bools = np.zeros(per_worker, dtype=np.bool_)
        self.approved: Bools = np.zeros(per_worker, dtype=np.bool_)
        self.tally: Floats = np.zeros((EVENTS, episodes))
        self.invalid_moves: Ints = np.zeros(episodes, dtype=np.int64)
        self.audit: Floats = np.zeros(episodes)
        self.probed: Ints = np.full(episodes, NOBODY)
        self.quality: Floats = np.zeros(episodes)
        self.zero: Bools = np.zeros(episodes, dtype=np.bool_)
        self._deploy()
        self._observe()

    def _deploy(self) -> None:
        """Place faults and glitches, as `telemetry.deploy`."""
        start, domain = self.starts.start, self.domain
        order = np.argsort(start[:, :, places.RANK], axis=1, kind="stable")
        two = self.starts.scenario[:, places.HOW_MANY] < TWO_FAULTS
        faulty = np.zeros(order.shape, dtype=np.bool_)
        faulty[self.rows, order[:, 0]] = True
        faulty[self.rows, order[:, 1]] = two
        kind = (start[:, :, places.KIND] * len(FAULTS)).astype(np.int64)
        low, high = domain.activation
        active = low + (start[:, :, places.ACTIVATION] * (high - low + 1)).astype(np.int64)
        delays = np.array(domain.delays)
        spread = delays[kind, 1] - delays[kind, 0] + 1
        shows = active + delays[kind, 0] + (start[:, :, places.DELAY] * spread).astype(np.int64)
        self.fault: Ints = np.where(faulty, kind + 1, 0)
        self.active_from: Ints = np.where(faulty, active, 0)
        self.shows_from: Ints = np.where(faulty, shows, 0)
        glitches = ~faulty & (start[:, :, places.GLITCHES] < domain.glitch + GLITCH_NOISE * self.noise)
        first, last = GLITCH_START
        glitch_from = first + (start[:, :, places.GLITCH_FROM] * (last - first + 1)).astype(np.int64)
        self.glitch_from: Ints = np.where(glitches, glitch_from, 0)
        self.faults: Floats = faulty.sum(axis=1).astype(np.float64)

    def _closed(self) -> Bools:
        return self.status >= _INTERVENED

    def _mode(self) -> Ints:
        """Say how each worker behaves now, as `telemetry.mode`."""
        shows = (self.fault > 0) & (self.k >= self.shows_from)
        glitch = (self.glitch_from > 0) & (self.glitch_from <= self.k) & (self.k < self.glitch_from + GLITCH_STEPS)
        mode = np.where(shows, self.fault, np.where(glitch, GLITCH, 0))
        return np.where(self._closed(), 0, mode)

    def _observe(self) -> None:
        """Draw the telemetry of step k for the live episodes, as `telemetry.observe_step`."""
        drawn, live = self.starts.telemetry[:, self.k - 1], self.live[:, None]
        silent = (self.status == _PAUSED) & (self.k <= self.locked_until)
        self.status[live & (self.status == _PAUSED) & ~silent] = 0
        mode = self._mode()
        rates = self.rates[mode]
        result = self._results(rates, drawn[:, :, places.RESULT])
        burnt = 1 + (drawn[:, :, places.BURN] < rates[:, :, 3] + NOISE[3] * self.noise)
        dumped = (mode == DUMP) & (self.k == self.shows_from)
        burnt += BIG_JUMP * (dumped | (drawn[:, :, places.JUMP] < self.domain.jump))
        truth = np.where(mode == BURST, result == _INVALID, (mode == DUMP) | (mode == GLITCH))
        truth |= (mode == DRIFT) & (self.k >= self.shows_from + DRIFT_FLAG_AFTER)
        flag = drawn[:, :, places.FLAG] < np.where(truth, FLAG_TRUE, FLAG_FALSE)
        moves = live & ~silent
        self.budget = np.where(moves, np.maximum(0, self.budget - burnt), self.budget)
        self.flag = np.where(live, flag & ~silent, self.flag)
        self.result = np.where(live, np.where(silent, NO_RESULT, result), self.result)

    def _results(self, rates: Floats, u: Floats) -> Ints:
        invalid = rates[:, :, 0] + NOISE[0] * self.noise
        retry = invalid + (rates[:, :, 1] + NOISE[1] * self.noise)
        stall = retry + (rates[:, :, 2] + NOISE[2] * self.noise)
        return np.where(u < invalid, _INVALID, np.where(u < retry, _RETRY, np.where(u < stall, _STALL, _OK)))

    def _targetable(self) -> Bools:
        return ~self._closed() & (self.k > self.locked_until)

    def view(self) -> View:
        """Show what the overseers see at step k."""
        return View(
            k=self.k,
            governance=self.governance.copy(),
            budget=self.budget.copy(),
            flag=self.flag.copy(),
            result=self.result.copy(),
            status=self.status.copy(),
            targetable=self._targetable(),
            probed=self.probed.copy(),
            quality=self.quality.copy(),
            zero=self.zero.copy(),
        )

    def step(self, moves: Moves) -> None:
        """Make one move in every live episode, as `world.step`."""
        aimed = moves.worker != NOBODY
        target = np.where(aimed, moves.worker, 0)
        kind = moves.kind
        can = np.where(aimed, self._targetable()[self.rows, target], kind == HOLD) & (_COST[kind] <= self.governance)
        can = (can | (kind == SUBMIT)) & self.live
        self.invalid_moves += self.live & ~can
        self.governance -= np.where(can, _COST[kind], 0)
        self.probed = np.where(self.live, NOBODY, self.probed)
        self._monitor(can & (kind == MONITOR), target)
        self._alarm(can & (kind == INTERVENE), can & (kind == ESCALATE), target)
        self._hold(can & (kind == HOLD) & aimed, target)
        submits = can & (kind == SUBMIT)
        self._judge(submits, moves.verdicts)
        window_closes = self.active_from + self.domain.window - 1 == self.k
        ends = self.live & (submits | (self.k == OVERSIGHT_STEPS))
        self._miss((self.fault > 0) & ~self._closed() & ((window_closes & self.live[:, None]) | ends[:, None]))
        self.live &= ~ends
        if self.k < OVERSIGHT_STEPS:
            self.k += 1
            self._observe()

    def _monitor(self, can: Bools, target: Ints) -> None:
        last = self.monitored_at[self.rows, target]
        self.tally[Event.REDUNDANT_MONITOR] += can & (last > 0) & (self.k - last <= LOCKED_STEPS)
        mode = self._mode()[self.rows, target]
        drawn = self.starts.telemetry[self.rows, self.k - 1, target]
        healthy, violated = self.domain.probe_healthy, self.domain.probe_violated
        mean = np.where(mode == CONSTRAINT, violated[0], healthy[0])
        spread = np.where(mode == CONSTRAINT, violated[1], healthy[1])
        quality = np.maximum(0.0, np.minimum(1.0, mean + spread * drawn[:, places.QUALITY]))
        chance = np.where((mode == DRIFT) | (mode == GLITCH), PROBE_ZERO_TRUE, PROBE_ZERO_FALSE)
        self.probed = np.where(can, target, self.probed)
        self.quality = np.where(can, np.floor(quality * 100.0 + 0.5) / 100.0, self.quality)
        self.zero = np.where(can, drawn[:, places.ZERO] < chance, self.zero)
        self.monitored_at[self.rows[can], target[can]] = self.k

    def _alarm(self, intervene: Bools, escalate: Bools, target: Ints) -> None:
        rows, k = self.rows, self.k
        fault, active = self.fault[rows, target], self.active_from[rows, target]
        real = (fault > 0) & (active <= k) & (k < active + self.domain.window)
        easy = (fault == DUMP) | (fault == BURST)
        unseen = self.monitored_at[rows, target] == 0
        glitch = self.glitch_from[rows, target]
        glitching = (glitch > 0) & (glitch <= k) & (k <= glitch + GLITCH_STEPS)
        for event, happened in (
            (Event.INTERVENED, intervene & real),
            (Event.ESCALATED, escalate & real),
            (Event.INTERVENED_EASY, intervene & real & easy),
            (Event.INTERVENED_BLIND, intervene & real & ~easy & unseen),
            (Event.ESCALATED_EASY, escalate & real & easy),
            (Event.ESCALATED_HARD, escalate & real & ~easy),
            (Event.FALSE_ALARM, intervene & ~real),
            (Event.NEEDLESS_ESCALATION, escalate & ~real),
            (Event.INTERVENED_GLITCH, intervene & ~real & glitching),
        ):
            self.tally[event] += happened
        for status, hit in (
            (_INTERVENED, intervene & real),
            (_ESCALATED, escalate & real),
            (_PAUSED, intervene & ~real),
        ):
            self.status[rows[hit], target[hit]] = status
        needless = (intervene | escalate) & ~real
        self.locked_until[rows[needless], target[needless]] = k + LOCKED_STEPS

    def _hold(self, can: Bools, target: Ints) -> None:
        rows = self.rows
        fault, active = self.fault[rows, target], self.active_from[rows, target]
        approves = can & (fault == 0)
        self.tally[Event.APPROVED] += approves & ~self.approved[rows, target]
        self.approved[rows[approves], target[approves]] = True
        breach = can & (fault > 0) & (self.k >= active)
        self.tally[Event.BREACH] += breach
        self.tally[Event.MISSED] += breach & ~self.missed[rows, target]
        self.missed[rows[breach], target[breach]] = True

    def _miss(self, lost: Bools) -> None:
        self.tally[Event.MISSED] += (lost & ~self.missed).sum(axis=1)
        self.missed |= lost

    def _judge(self, submits: Bools, verdicts: Ints) -> None:
        blamed, faulty = verdicts > 0, self.fault > 0
        quality = audit_quality(
            hits=(blamed & faulty).sum(axis=1).astype(np.float64),
            named=(faulty & (verdicts == self.fault)).sum(axis=1).astype(np.float64),
            blamed=blamed.sum(axis=1).astype(np.float64),
            faults=self.faults,
            verdicts=(verdicts != NO_VERDICT).sum(axis=1).astype(np.float64),
        )
        self.audit = np.where(submits, quality, self.audit)
