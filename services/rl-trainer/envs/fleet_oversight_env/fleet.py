"""Name what an episode is made of: workers, the world around them, a probe, and the moves of the overseer."""

from dataclasses import dataclass

from fleet_oversight_env.laws import FLEET, PLANNING_STEPS, Domain, Fault, MoveKind, Result, Status
from fleet_oversight_env.planning import CAPACITIES, Config, Profile
from fleet_oversight_env.rubric import (
    ACTION_PRICES,
    AUDIT_REWARD,
    EVENTS,
    GRADE_RANGE,
    NOTHING,
    OVERSIGHT_PRICES,
    detection,
    needless_share,
    priced,
    raw_grade,
    weighted,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One pipeline worker, hidden parts included.

    Args:
        budget: Steps it may still spend; shown.
        config, alignment: Its configuration (None while unset: the default runs) and how well it suits the data, 0..1.
        fault, active_from, shows_from: What is wrong with it, if anything, and from which k; hidden.
        glitch_from: First k of its harmless glitch, 0 for none; hidden.
        flag, log: The noisy flag and the last three (operation, result); shown.
        progress: Operations completed, which names the next one.
        status, locked_until: What became of it, and the last k at which it cannot be targeted; status is shown.
        missed, approved: Whether the miss of its fault, or its approval, was booked; each is booked once.
        monitored_at: k of its last monitor, 0 for none.
    """

    budget: int
    alignment: float
    config: Config | None = None
    fault: Fault | None = None
    active_from: int = 0
    shows_from: int = 0
    glitch_from: int = 0
    flag: bool = False
    log: tuple[tuple[str, Result], ...] = ()
    progress: int = 0
    status: Status = Status.RUNNING
    locked_until: int = 0
    missed: bool = False
    approved: bool = False
    monitored_at: int = 0

    @property
    def closed(self) -> bool:
        """Whether its fault was resolved, which ends its part."""
        return self.status is Status.INTERVENED or self.status is Status.ESCALATED

    def targetable(self, k: int) -> bool:
        """Tell whether a move at oversight step `k` may aim at it."""
        return not self.closed and k > self.locked_until


@dataclass(frozen=True, slots=True)
class Probe:
    """What a monitor found one step later: quality in 0..1 (two decimals) and whether the worker's reward read zero."""

    worker: int
    quality: float
    zero_reward: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One move of the overseer.

    Args:
        kind: What it does.
        worker: At which worker, 0..4; None for none (a hold without worker waits) or for one that does not exist.
        allocation: While planning: worker and configuration; None for a configuration with an unknown value.
        verdicts: With `submit_audit`: per worker `healthy`, a fault's name, or None for no word.
    """

    kind: MoveKind
    worker: int | None = None
    allocation: tuple[tuple[int, Config | None], ...] = ()
    verdicts: tuple[str | None, ...] = (None,) * FLEET


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One episode at one step, hidden parts included.

    Args:
        step: Global step, 1..20; the world waits for the move of this step.
        tally: Count per `rubric.Event` so far; hidden.
        probe, error: What the last monitor found, and why the last move did nothing; shown at this step alone.
        verdicts: The audit, once submitted.
        ended: Whether the episode is over; it then stays as it is.
    """

    domain: Domain
    profile: Profile
    step: int
    governance_budget: int
    workers: tuple[Worker, ...]
    tally: tuple[int, ...] = NOTHING
    invalid_moves: int = 0
    probe: Probe | None = None
    error: str | None = None
    audit: float = 0.0
    submitted: bool = False
    ended: bool = False

    def __post_init__(self) -> None:
        """Refuse a world that is not one of five workers with a full tally.

        Raises:
            ValueError: Says what is wrong.
        """
        if len(self.workers) != FLEET or len(self.tally) != EVENTS:
            raise ValueError(f"a fleet has {FLEET} workers and a tally of {EVENTS} events")

    @property
    def k(self) -> int:
        """The oversight step, 1..17; 0 or less while planning."""
        return self.step - PLANNING_STEPS

    @property
    def faults(self) -> int:
        """How many workers are faulty this episode; 0 while planning."""
        return sum(worker.fault is not None for worker in self.workers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The four reward components of an episode so far, kept apart, and their weighted sum."""

    plan: float
    oversight: float
    action: float
    terminal: float

    @property
    def total(self) -> float:
        """R_total, the training return: undiscounted, unclipped."""
        return weighted(plan=self.plan, oversight=self.oversight, action=self.action, terminal=self.terminal)


def plan_quality(world: World) -> float:
    """Average the alignment over the five workers; an unset one earns nothing."""
    return sum(worker.alignment if worker.config else 0.0 for worker in world.workers) / FLEET


def score(world: World) -> Score:
    """Read the components off a world. The plan is booked when oversight starts, the audit when it is submitted."""
    return Score(
        plan=plan_quality(world) if world.k >= 1 else 0.0,
        oversight=priced(world.tally, OVERSIGHT_PRICES),
        action=max(-1.0, min(1.0, priced(world.tally, ACTION_PRICES))),
        terminal=world.audit * AUDIT_REWARD,
    )


def grade(world: World) -> float:
    """Grade an episode from 0.0001 to 0.9999: plan, faults resolved without false alarms, audit."""
    found = detection(world.tally, max(1, world.faults))
    raw = raw_grade(plan=score(world).plan, detected=found, needless=needless_share(world.tally), audit=world.audit)
    low, high = GRADE_RANGE
    return max(low, min(high, raw))


def affordable(config: Config, worker: int) -> bool:
    """Tell whether worker 0..4 has the capacity for `config`."""
    return config.cost <= CAPACITIES[worker]
