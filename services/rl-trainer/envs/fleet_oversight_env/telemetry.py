"""Draw what the fleet shows: where faults and glitches sit, each step's log, budget and flag, what a probe reads."""

import math
from dataclasses import replace

from fleet_oversight_env import luck as places
from fleet_oversight_env.fleet import Probe, Worker, World
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
    HEALTHY,
    LOG_LENGTH,
    NOISE,
    OPERATIONS,
    PROBE_ZERO_FALSE,
    PROBE_ZERO_TRUE,
    TWO_FAULTS,
    Domain,
    Result,
    Status,
)
from fleet_oversight_env.luck import Luck


def deploy(world: World, luck: Luck) -> World:
    """End the planning: place one or two faults, and the glitches that the plan's noise makes likely."""
    domain = world.domain
    ranks = sorted(range(FLEET), key=lambda worker: luck.start[worker][places.RANK])
    faulty = ranks[: 1 + (luck.scenario[places.HOW_MANY] < TWO_FAULTS)]
    return replace(
        world,
        workers=tuple(
            _with_fault(worker, domain, luck.start[index])
            if index in faulty
            else _with_glitch(worker, domain, luck.start[index])
            for index, worker in enumerate(world.workers)
        ),
    )


def _uniform(low: int, high: int, u: float) -> int:
    return low + int(u * (high - low + 1))


def _with_fault(worker: Worker, domain: Domain, luck: list[float]) -> Worker:
    kind = int(luck[places.KIND] * len(FAULTS))
    active = _uniform(*domain.activation, luck[places.ACTIVATION])
    shows = active + _uniform(*domain.delays[kind], luck[places.DELAY])
    return replace(worker, fault=FAULTS[kind], active_from=active, shows_from=shows)


def _with_glitch(worker: Worker, domain: Domain, luck: list[float]) -> Worker:
    if luck[places.GLITCHES] >= domain.glitch + GLITCH_NOISE * (1.0 - worker.alignment):
        return worker
    return replace(worker, glitch_from=_uniform(*GLITCH_START, luck[places.GLITCH_FROM]))


def mode(worker: Worker, k: int) -> int:
    """Say how a worker behaves at oversight step k: HEALTHY, GLITCH, or the mode of a fault that shows."""
    if worker.closed:
        return HEALTHY
    if worker.fault is not None:
        return FAULTS.index(worker.fault) + 1 if k >= worker.shows_from else HEALTHY
    if worker.glitch_from and worker.glitch_from <= k < worker.glitch_from + GLITCH_STEPS:
        return GLITCH
    return HEALTHY


def observe_step(world: World, luck: Luck) -> World:
    """Draw the telemetry of the world's oversight step: every flag, log entry and budget once, then stored."""
    k = world.k
    rates = world.domain.rates
    drawn = luck.telemetry[k - 1]
    return replace(
        world,
        workers=tuple(
            _next(worker, index, k, rates[mode(worker, k)], world.domain.jump, drawn[index])
            for index, worker in enumerate(world.workers)
        ),
    )


def _next(
    worker: Worker, index: int, k: int, rates: tuple[float, float, float, float], jump_rate: float, luck: list[float]
) -> Worker:
    """Let one worker live through step k. A paused one spends, logs and flags nothing."""
    if worker.status is Status.PAUSED:
        if k <= worker.locked_until:
            return replace(worker, flag=False)
        worker = replace(worker, status=Status.RUNNING)
    behaves = mode(worker, k)
    noise = 1.0 - worker.alignment
    result = _result(rates, noise, luck[places.RESULT])
    burnt = 1 + (luck[places.BURN] < rates[3] + NOISE[3] * noise)
    if (behaves == DUMP and k == worker.shows_from) or luck[places.JUMP] < jump_rate:
        burnt += BIG_JUMP
    chance = FLAG_TRUE if flag_truth(worker, behaves, k, result) else FLAG_FALSE
    operations = OPERATIONS[index]
    return replace(
        worker,
        budget=max(0, worker.budget - burnt),
        flag=luck[places.FLAG] < chance,
        log=(*worker.log, (operations[worker.progress % len(operations)], result))[-LOG_LENGTH:],
        progress=worker.progress + (result is Result.OK),
    )


def _result(rates: tuple[float, float, float, float], noise: float, u: float) -> Result:
    edge = rates[0] + NOISE[0] * noise
    if u < edge:
        return Result.INVALID
    edge = edge + (rates[1] + NOISE[1] * noise)
    if u < edge:
        return Result.RETRY
    edge = edge + (rates[2] + NOISE[2] * noise)
    return Result.STALL if u < edge else Result.OK


def flag_truth(worker: Worker, behaves: int, k: int, result: Result) -> bool:
    """Say what a perfect flag would show: constraint violations stay silent, drift shows after five zero rewards."""
    if behaves == BURST:
        return result is Result.INVALID
    return behaves in {DUMP, GLITCH} or (behaves == DRIFT and k >= worker.shows_from + DRIFT_FLAG_AFTER)


def probe(world: World, index: int, luck: Luck) -> Probe:
    """Read worker `index` as it is now; the reading is shown at the next step."""
    domain, k = world.domain, world.k
    behaves = mode(world.workers[index], k)
    drawn = luck.telemetry[k - 1][index]
    mean, spread = domain.probe_violated if behaves == CONSTRAINT else domain.probe_healthy
    quality = max(0.0, min(1.0, mean + spread * drawn[places.QUALITY]))
    chance = PROBE_ZERO_TRUE if behaves in {DRIFT, GLITCH} else PROBE_ZERO_FALSE
    return Probe(index, math.floor(quality * 100.0 + 0.5) / 100.0, drawn[places.ZERO] < chance)
