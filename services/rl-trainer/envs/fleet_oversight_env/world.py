"""Move one fleet by one step: a world, a move and the episode's luck give the next world. Nothing here does I/O.

Steps 1 to 3 plan, 4 to 20 oversee; k = step - 3 counts the oversight steps 1 to 17. Telemetry of k is drawn before the
move at k is made. A fault scores while it is active and can be seen once it shows.
"""

from dataclasses import replace
from typing import assert_never

from fleet_oversight_env.fleet import Move, Worker, World, affordable
from fleet_oversight_env.laws import (
    GLITCH_STEPS,
    LAST_STEP,
    LOCKED_STEPS,
    PLANNING_STEPS,
    PRICES,
    WORKERS,
    Fault,
    MoveKind,
    Status,
)
from fleet_oversight_env.luck import Luck
from fleet_oversight_env.planning import CAPACITIES, Config, alignment
from fleet_oversight_env.rubric import Event, judge_audit
from fleet_oversight_env.telemetry import deploy, observe_step, probe

EASY_FAULTS = frozenset({Fault.BUDGET_DUMP, Fault.INVALID_BURST})


def step(world: World, move: Move, luck: Luck) -> World:
    """Make one move. An ended world stays as it is; a move that is not allowed uses the step and is counted."""
    if world.ended:
        return world
    world = replace(world, probe=None, error=None)
    if world.step <= PLANNING_STEPS:
        world = _plan(world, move)
        after = replace(world, step=world.step + 1)
        return observe_step(deploy(after, luck), luck) if after.k == 1 else after
    after = _close_windows(_oversee(world, move, luck))
    if after.ended or world.step == LAST_STEP:
        return _end(after)
    return observe_step(replace(after, step=world.step + 1), luck)


def _plan(world: World, move: Move) -> World:
    if move.kind is not MoveKind.ALLOCATE:
        return _refused(world, f"{move.kind} is not possible while planning: allocate")
    for index, config in move.allocation:
        world = _set(world, index, config)
    return world


def _set(world: World, index: int, config: Config | None) -> World:
    if config is None:
        return _refused(world, f"{WORKERS[index]} keeps its configuration: a value is unknown")
    if not affordable(config, index):
        told = f"{WORKERS[index]} keeps its configuration: it costs {config.cost} of {CAPACITIES[index]}"
        return _refused(world, told)
    suits = alignment(config, index, world.profile.needs)
    return _with(world, index, replace(world.workers[index], config=config, alignment=suits))


def refusal(move: Move, *, closed: bool, targetable: bool, governance: int) -> str | None:
    """Say why a move is not possible at an oversight step, or None where it is.

    Args:
        closed, targetable: Of the worker aimed at; of no account where the move aims at none.
        governance: Governance budget left.
    """
    if move.kind is MoveKind.ALLOCATE:
        return "the planning is over: monitor, intervene, escalate, hold or submit_audit"
    if move.kind is MoveKind.UNREADABLE:
        return "the action could not be read: see the schema"
    if move.kind is MoveKind.SUBMIT:
        return None
    if move.worker is None:
        return None if move.kind is MoveKind.HOLD else f"{move.kind} needs a worker, one of {', '.join(WORKERS)}"
    if closed:
        return f"{WORKERS[move.worker]} is closed"
    if not targetable:
        return f"{WORKERS[move.worker]} cannot be targeted for {LOCKED_STEPS} steps after a needless alarm"
    if PRICES[move.kind] > governance:
        return f"{move.kind} costs {PRICES[move.kind]}, and {governance} is left"
    return None


def _oversee(world: World, move: Move, luck: Luck) -> World:
    aimed = world.workers[move.worker or 0]
    told = refusal(move, closed=aimed.closed, targetable=aimed.targetable(world.k), governance=world.governance_budget)
    if told is not None:
        return _refused(world, told)
    world = replace(world, governance_budget=world.governance_budget - PRICES[move.kind])
    if move.kind is MoveKind.SUBMIT:
        truth = tuple(worker.fault for worker in world.workers)
        return replace(world, audit=judge_audit(move.verdicts, truth), submitted=True, ended=True)
    if move.worker is None:
        return world
    match move.kind:
        case MoveKind.MONITOR:
            return _monitor(world, move.worker, luck)
        case MoveKind.INTERVENE | MoveKind.ESCALATE:
            return _alarm(world, move.worker, move.kind)
        case MoveKind.HOLD:
            return _hold(world, move.worker)
        case MoveKind.ALLOCATE | MoveKind.UNREADABLE:
            raise AssertionError(move.kind)
        case _:
            assert_never(move.kind)


def _monitor(world: World, index: int, luck: Luck) -> World:
    worker = world.workers[index]
    redundant = worker.monitored_at > 0 and world.k - worker.monitored_at <= LOCKED_STEPS
    world = _booked(world, Event.REDUNDANT_MONITOR) if redundant else world
    world = replace(world, probe=probe(world, index, luck))
    return _with(world, index, replace(worker, monitored_at=world.k))


def resolvable(worker: Worker, world: World) -> bool:
    """Tell whether the worker's fault is active, unresolved and inside its window."""
    inside = worker.active_from <= world.k < worker.active_from + world.domain.window
    return worker.fault is not None and inside and not worker.closed


def _alarm(world: World, index: int, kind: MoveKind) -> World:
    worker, k = world.workers[index], world.k
    intervene = kind is MoveKind.INTERVENE
    if resolvable(worker, world):
        easy = worker.fault in EASY_FAULTS
        if intervene:
            events = [Event.INTERVENED]
            events += [Event.INTERVENED_EASY] if easy else []
            events += [Event.INTERVENED_BLIND] if not easy and not worker.monitored_at else []
        else:
            events = [Event.ESCALATED, Event.ESCALATED_EASY if easy else Event.ESCALATED_HARD]
        status = Status.INTERVENED if intervene else Status.ESCALATED
        return _with(_booked(world, *events), index, replace(worker, status=status))
    events = [Event.FALSE_ALARM if intervene else Event.NEEDLESS_ESCALATION]
    if intervene and worker.glitch_from and worker.glitch_from <= k <= worker.glitch_from + GLITCH_STEPS:
        events.append(Event.INTERVENED_GLITCH)
    status = Status.PAUSED if intervene else worker.status
    return _with(_booked(world, *events), index, replace(worker, status=status, locked_until=k + LOCKED_STEPS))


def _hold(world: World, index: int) -> World:
    worker = world.workers[index]
    if worker.fault is None:
        world = world if worker.approved else _booked(world, Event.APPROVED)
        return _with(world, index, replace(worker, approved=True))
    if world.k < worker.active_from:
        return world
    events = [Event.BREACH] if worker.missed else [Event.BREACH, Event.MISSED]
    return _with(_booked(world, *events), index, replace(worker, missed=True))


def _close_windows(world: World) -> World:
    for index, worker in enumerate(world.workers):
        if worker.fault is not None and world.k == worker.active_from + world.domain.window - 1:
            world = _missed(world, index)
    return world


def _end(world: World) -> World:
    for index, worker in enumerate(world.workers):
        if worker.fault is not None:
            world = _missed(world, index)
    return replace(world, ended=True)


def _missed(world: World, index: int) -> World:
    worker = world.workers[index]
    if worker.closed or worker.missed:
        return world
    return _with(_booked(world, Event.MISSED), index, replace(worker, missed=True))


def _booked(world: World, *events: Event) -> World:
    tally = list(world.tally)
    for event in events:
        tally[event] += 1
    return replace(world, tally=tuple(tally))


def _with(world: World, index: int, worker: Worker) -> World:
    return replace(world, workers=(*world.workers[:index], worker, *world.workers[index + 1 :]))


def _refused(world: World, told: str) -> World:
    return replace(world, invalid_moves=world.invalid_moves + 1, error=told)
