"""Measure the fleet's batch against its worlds one by one, in the same run: steps a second, and the set-up."""

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from fleet_oversight_env.batch import Batch
from fleet_oversight_env.fleet import Move
from fleet_oversight_env.laws import LAST_STEP, OVERSIGHT_STEPS, MoveKind
from fleet_oversight_env.luck import luck_of
from fleet_oversight_env.scenarios import DEV_SEEDS, TASKS, begin
from fleet_oversight_env.starts import Starts, starts
from fleet_oversight_env.view import NO_VERDICT, Moves
from fleet_oversight_env.world import step
from tests.bench.figures import Bar, Control, Report, Row, Setting

TASK = "nexacrm_hard"
ALONE = 100
TOGETHER = 4000
ROUNDS = 5
RATIO_BAR = Bar(at_least=20.0)
KINDS = (MoveKind.MONITOR, MoveKind.INTERVENE, MoveKind.ESCALATE, MoveKind.HOLD)


def fleet(setting: Setting) -> Report:
    """Play random moves both ways, in turns; the worlds one by one are the control."""
    alone, together, setup = [], [], []
    _batch(starts(TASK, DEV_SEEDS[:ALONE]))
    for number in range(ROUNDS):
        setting.say(f"round {number + 1} of {ROUNDS}")
        alone.append(_cpu(_worlds) / (ALONE * LAST_STEP))
        setup.append(_cpu(partial(starts, TASK, DEV_SEEDS[:TOGETHER])) / TOGETHER)
        together.append(_cpu(partial(_batch, starts(TASK, DEV_SEEDS[:TOGETHER]))) / (TOGETHER * OVERSIGHT_STEPS))
    ratios = [one / other for one, other in zip(alone, together, strict=True)]
    rows = [
        Row.of_rounds("batch / one by one, steps a second", ratios, RATIO_BAR),
        Row.of_rounds("one by one, steps a second", [1.0 / seconds for seconds in alone]),
        Row.of_rounds("batch, steps a second", [1.0 / seconds for seconds in together]),
        Row.of_rounds("batch, set-up of an episode", [seconds * 1e6 for seconds in setup], unit="us"),
    ]
    notes = [f"{ALONE} worlds with their set-up; a batch of {TOGETHER}, every view built; CPU of one process, {TASK}"]
    return Report(rows=rows, controls=[Control("worlds one by one", alone)], notes=notes, seeds=[DEV_SEEDS.start])


def _cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _worlds() -> None:
    rng = np.random.default_rng(1)
    for seed in DEV_SEEDS[:ALONE]:
        luck = luck_of(seed)
        world = begin(TASKS[TASK], luck)
        for kind, worker in zip(
            rng.integers(0, 4, LAST_STEP).tolist(), rng.integers(0, 5, LAST_STEP).tolist(), strict=True
        ):
            world = step(world, Move(kind=KINDS[kind], worker=worker), luck)


def _batch(begun: Starts) -> None:
    rng, batch = np.random.default_rng(1), Batch(begun)
    episodes = len(batch.rows)
    empty = np.full((episodes, 5), NO_VERDICT)
    while batch.live.any():
        batch.view()
        batch.step(Moves(kind=rng.integers(0, 4, episodes), worker=rng.integers(0, 5, episodes), verdicts=empty))
