"""Keep the exact posterior over what is wrong with each worker, from what an overseer has seen so far.

A worker's hypotheses are: healthy without a glitch or with one from k = 2..14, or one of four faults with each
activation and each delay. Given a hypothesis every signal of a step is independent, so a step adds log-likelihoods;
which one or two workers are faulty is then summed over all 15 sets. An alarm's outcome counts too: one that hit nothing
rules out every fault that was open then.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from fleet_oversight_env.laws import (
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
    HEALTHY,
    NOISE,
    OVERSIGHT_STEPS,
    PROBE_ZERO_FALSE,
    PROBE_ZERO_TRUE,
    RESULTS,
    STATUSES,
    TWO_FAULTS,
    Domain,
    Result,
    Status,
)
from fleet_oversight_env.view import ESCALATE, INTERVENE, NO_RESULT, NOBODY, Bools, Floats, Ints, Moves, Opening, View

# What a step's telemetry depends on: the six modes, a dump in the step of its jump, and drift once its flag is true.
_JUMPING, _FLAGGED_DRIFT, _CLASSES = 6, 7, 8
_MODE_OF_CLASS: Final = np.array([HEALTHY, DUMP, BURST, CONSTRAINT, DRIFT, GLITCH, DUMP, DRIFT])
_INVALID: Final = RESULTS.index(Result.INVALID)
_RATE_COLUMN: Final = {RESULTS.index(r): c for c, r in enumerate((Result.INVALID, Result.RETRY, Result.STALL))}
_CLOSED_FROM: Final = STATUSES.index(Status.INTERVENED)
_TINY: Final = 1e-12
_SURE: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypotheses:
    """All H stories of one worker in a domain.

    Args:
        fault: 0 for healthy, else 1 + the fault's index, [H].
        opens, closes: First and last k at which an alarm would resolve it, [H].
        prior: Probability given healthy or given faulty, [H]; a glitch's is filled in by planning's noise.
        glitches: Whether the story has a glitch, [H].
        emits: Class of telemetry per step, [H, 17].
    """

    fault: Ints
    opens: Ints
    closes: Ints
    prior: Floats
    glitches: Bools
    emits: Ints


def hypotheses(domain: Domain) -> Hypotheses:
    """List a domain's stories."""
    steps = np.arange(1, OVERSIGHT_STEPS + 1)
    rows: list[tuple[int, int, float, bool]] = [(0, 0, 1.0, False)]
    emits = [np.full(OVERSIGHT_STEPS, HEALTHY)]
    first, last = GLITCH_START
    for start in range(first, last + 1):
        rows.append((0, 0, 1.0 / (last - first + 1), True))
        emits.append(np.where((steps >= start) & (steps < start + GLITCH_STEPS), GLITCH, HEALTHY))
    activations = range(domain.activation[0], domain.activation[1] + 1)
    for index, (low, high) in enumerate(domain.delays):
        for active in activations:
            for shows in range(active + low, active + high + 1):
                rows.append((index + 1, active, 1.0 / len(FAULTS) / len(activations) / (high - low + 1), False))
                emits.append(_story(index + 1, shows, steps))
    fault, opens, prior, glitches = (np.array(column) for column in zip(*rows, strict=True))
    return Hypotheses(
        fault=fault,
        opens=opens,
        closes=np.where(fault > 0, opens + domain.window - 1, 0),
        prior=prior,
        glitches=glitches,
        emits=np.stack(emits),
    )


def _story(mode: int, shows: int, steps: Ints) -> Ints:
    emits = np.where(steps >= shows, mode, HEALTHY)
    if mode == DUMP:
        emits[steps == shows] = _JUMPING
    if mode == DRIFT:
        emits[steps >= shows + DRIFT_FLAG_AFTER] = _FLAGGED_DRIFT
    return emits


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """What is believed at a step, per episode and worker.

    Args:
        faulty: Probability that the worker is faulty, open or not, [E, 5].
        open: Probability that an alarm now would resolve a fault of it, [E, 5].
        kinds: Probability of each fault given that it is faulty, [E, 5, 4].
    """

    faulty: Floats
    open: Floats
    kinds: Floats


class Filter:
    """Follow E episodes of one domain and say what to believe.

    Args:
        domain: Whose laws are assumed; may be wrong on purpose, to see how a model transfers.
        opening: What is known at the start.
        memory: Forget all but the latest view (the flag, three log entries, the probe) where this is False.
    """

    def __init__(self, domain: Domain, opening: Opening, *, memory: bool = True) -> None:
        self.stories = hypotheses(domain)
        self.domain = domain
        self.memory = memory
        noise = 1.0 - opening.alignment
        glitch = (domain.glitch + GLITCH_NOISE * noise)[:, :, None]
        stories = self.stories
        share = np.where(stories.glitches, glitch, np.where(stories.fault == 0, 1.0 - glitch, 1.0))
        self.prior: Floats = np.log(share * stories.prior)
        self.log: Floats = self.prior.copy()
        self.recent: list[Floats] = []
        rates = np.array(domain.rates)[_MODE_OF_CLASS] + np.array(NOISE) * noise[:, :, None, None]
        self.results = self._result_table(rates)
        self.burn = rates[:, :, :, 3]
        self.budget = opening.budget
        self.closed: Bools = np.zeros(opening.budget.shape, dtype=np.bool_)
        self.rows = np.arange(len(opening.budget))

    @staticmethod
    def _result_table(rates: Floats) -> Floats:
        """Tabulate log P(result | class), [E, 5, class, result]."""
        table = np.empty((*rates.shape[:3], len(RESULTS)))
        for result, column in _RATE_COLUMN.items():
            table[..., result] = rates[..., column]
        table[..., RESULTS.index(Result.OK)] = 1.0 - rates[..., :3].sum(axis=-1)
        return np.log(np.maximum(table, _TINY))

    def see(self, view: View, last: Moves | None) -> Belief:
        """Take in a view and the outcome of the move before it, and answer with the belief."""
        logged, rest = self._telemetry(view)
        stories, seen = self.stories, ~self.closed[:, :, None]
        emits = stories.emits[:, view.k - 1]
        if self.memory:
            self.log += seen * (logged + rest)[:, :, emits]
        else:
            self.recent = [*self.recent, (seen * logged[:, :, emits])][-3:]
            self.log = self.prior + sum(self.recent) + seen * rest[:, :, emits]
        if view.k > 1:
            self._probe(view)
            if last is not None and self.memory:
                self._outcome(view, last)
        self.budget = view.budget
        self.closed = view.status >= _CLOSED_FROM
        return self._belief(view.k)

    def _telemetry(self, view: View) -> tuple[Floats, Floats]:
        """Give log P(log entry | class) and log P(budget, flag | class, entry), each [E, 5, class]; 0 while paused."""
        seen = (view.result != NO_RESULT)[:, :, None]
        entry = np.maximum(view.result, 0)[:, :, None, None]
        logged = np.take_along_axis(self.results, entry, axis=3)[..., 0]
        fall = (self.budget - view.budget)[:, :, None]
        jump = np.full(_CLASSES, self.domain.jump)
        jump[_JUMPING] = 1.0 - _TINY
        burnt = np.where((fall == 2) | (fall == 5), self.burn, 1.0 - self.burn) * np.where(fall >= 4, jump, 1.0 - jump)
        truth = np.zeros((*view.flag.shape, _CLASSES), dtype=np.bool_)
        truth[:, :, [DUMP, GLITCH, _JUMPING, _FLAGGED_DRIFT]] = True
        truth[:, :, BURST] = view.result == _INVALID
        chance = np.where(truth, FLAG_TRUE, FLAG_FALSE)
        flagged = np.where(view.flag[:, :, None], chance, 1.0 - chance)
        spent = np.log(np.maximum(burnt, _TINY)) if self.memory else 0.0
        return seen * logged, seen * (spent + np.log(flagged))

    def _probe(self, view: View) -> None:
        """Weigh a probe, which read the worker as it was one step ago."""
        got = np.flatnonzero(view.probed != NOBODY)
        mode = _MODE_OF_CLASS[self.stories.emits[:, view.k - 2]]
        healthy, violated = self.domain.probe_healthy, self.domain.probe_violated
        mean = np.where(mode == CONSTRAINT, violated[0], healthy[0])
        spread = np.where(mode == CONSTRAINT, violated[1], healthy[1])
        off = (view.quality[got][:, None] - mean) / spread
        chance = np.where((mode == DRIFT) | (mode == GLITCH), PROBE_ZERO_TRUE, PROBE_ZERO_FALSE)
        zero = np.where(view.zero[got][:, None], chance, 1.0 - chance)
        self.log[got, view.probed[got]] += -0.5 * off * off - np.log(spread) + np.log(zero)

    def _outcome(self, view: View, last: Moves) -> None:
        """Rule out, after an alarm that closed nothing, every story in which it would have."""
        alarm = ((last.kind == INTERVENE) | (last.kind == ESCALATE)) & (last.worker != NOBODY)
        aimed = self.rows[alarm]
        target = last.worker[alarm]
        missed = (view.status[aimed, target] < _CLOSED_FROM) & ~view.targetable[aimed, target]
        aimed, target = aimed[missed], target[missed]
        open_then = (self.stories.opens <= view.k - 1) & (view.k - 1 <= self.stories.closes)
        self.log[aimed, target] += np.where(open_then, -1e9, 0.0)

    def _belief(self, k: int) -> Belief:
        stories = self.stories
        top = self.log.max(axis=2, keepdims=True)
        weight = np.exp(self.log - top)
        faulty = weight[:, :, stories.fault > 0].sum(axis=2)
        healthy = weight[:, :, stories.fault == 0].sum(axis=2)
        ratio = np.log(np.maximum(faulty, 1e-300)) - np.log(np.maximum(healthy, 1e-300))
        odds = np.exp(np.where(self.closed, _SURE, np.clip(ratio, -_SURE, _SURE)))
        total = odds.sum(axis=1, keepdims=True)
        one, two = (1.0 - TWO_FAULTS) / FLEET, TWO_FAULTS / (FLEET * (FLEET - 1) / 2)
        pairs = (total * total - (odds * odds).sum(axis=1, keepdims=True)) / 2.0
        marginal = odds * (one + two * (total - odds)) / (one * total + two * pairs)
        open_now = (stories.opens <= k) & (k <= stories.closes)
        safe = np.maximum(faulty, 1e-300)
        kinds = np.stack([weight[:, :, stories.fault == f + 1].sum(axis=2) for f in range(len(FAULTS))], axis=2)
        share = weight[:, :, open_now].sum(axis=2) / safe
        return Belief(faulty=marginal, open=marginal * share, kinds=kinds / safe[:, :, None])
