"""Set the service's Thompson sampling against Vowpal Wabbit and MABWiser on the same rewards, drawn beforehand.

Vowpal Wabbit learns after every step and is compared with a belief that does; MABWiser, whose calls are slow, after
every tenth, and so does the belief that it is compared with. *As served* is what the service does, P(best) included.
The best action comes first in every instance: that is where Vowpal Wabbit starts, so the order is in its favour.
"""

import gc
import math
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

from kedge_bandit.domain.arrays import FloatArray, IntArray
from tests.bench.beta_regret import INSTANCES, Instance
from tests.bench.figures import SHOWN, Bar, Control, Report, Row, Setting
from tests.bench.peer_players import play_belief, play_mabwiser, play_served, play_vw
from tests.bench.plots import Curve, Panel, draw

SEED = 20260312
SEEDS = 200
FEW = 40  # of them, shown apart
HORIZON = 10_000
BATCH = 10
PORTION = 10  # seeds of one task
JUDGED = INSTANCES[:3]
OURS, OURS_IN_BATCHES, SERVED, VW, MABWISER = "ours", "ours, batch 10", "as served", "VW bag 5", "MABWiser TS"
VW_BAR = Bar(at_most=0.6)
PARITY_BAR = Bar(at_least=0.85, at_most=1.15)
SPREAD_BAR = Bar(at_most=10.0)
CPU_BAR = Bar(at_most=1.0)
STUCK_FACTOR = 4.0
STUCK_BAR = Bar(at_most=0.05)
ROUNDS = 7
MARKS = 60  # of the curves

Regrets = dict[str, FloatArray]
"""Regret at the marks [MARKS, seeds] by method."""


def peers(setting: Setting) -> Report:
    """Play A to C by every method, then time them; the curves are left in peers.svg."""
    rows: list[Row] = []
    panels: list[Panel] = []
    with ProcessPoolExecutor(max_workers=2) as pool:
        for instance in JUDGED:
            setting.say(f"instance {instance.name}, {SEEDS} seeds, {HORIZON:,} steps")
            regrets = _play_all(pool, instance)
            rows += _rows(instance.name, regrets)
            panels.append(_panel(instance, regrets))
    (setting.folder / "peers.svg").write_text(draw(panels), encoding="utf-8")
    timed, controls = _cost(setting)
    notes = [
        f"T = {HORIZON:,}, {SEEDS} common tables; ratios are of means, with 2 standard errors; stuck: regret over"
        f" {STUCK_FACTOR:g} x the method's median",
        f"{VW}: learns after each step, cost = 1 - reward; MABWiser: after every {BATCH}; curves: peers.svg",
        f"CPU per step: decide and learn, one process, batches of {BATCH} but for VW, {ROUNDS} rounds in turns",
    ]
    return Report(rows=[*rows, *timed], controls=controls, notes=notes, seeds=[SEED])


def tables(instance: Instance, seeds: range) -> FloatArray:
    """Draw the rewards of every seed, step and action [seeds, HORIZON, K]."""
    shape = (HORIZON, len(instance.means))
    drawn = [np.random.default_rng([SEED, ord(instance.name), seed]).random(shape) < instance.means for seed in seeds]
    return np.stack(drawn).astype(np.float64)


def play(method: str, instance: Instance, seeds: range) -> FloatArray:
    """Give the regret at the marks [MARKS, seeds] of one method."""
    drawn = tables(instance, seeds)
    if method in PLAYERS:
        chosen = np.stack([PLAYERS[method](table, seed) for table, seed in zip(drawn, seeds, strict=True)])
    else:
        chosen = play_belief(drawn, seeds.start, batch=BATCH if method == OURS_IN_BATCHES else 1)
    return _regret(instance, chosen)


PLAYERS: dict[str, Callable[[FloatArray, int], IntArray]] = {
    SERVED: partial(play_served, batch=1),
    VW: play_vw,
    MABWISER: partial(play_mabwiser, batch=BATCH),
}


def _play_all(pool: ProcessPoolExecutor, instance: Instance) -> Regrets:
    """Share the seeds of the slow methods out to the workers."""
    tasks = {
        method: [
            pool.submit(play, method, instance, range(begin, min(begin + portion, SEEDS)))
            for portion in (PORTION if method in PLAYERS else SEEDS,)
            for begin in range(0, SEEDS, portion)
        ]
        for method in (OURS, OURS_IN_BATCHES, *PLAYERS)
    }
    return {method: np.concatenate([task.result() for task in parts], axis=1) for method, parts in tasks.items()}


def _regret(instance: Instance, chosen: IntArray) -> FloatArray:
    gaps = max(instance.means) - np.array(instance.means)
    steps = np.linspace(HORIZON / MARKS, HORIZON, MARKS).round().astype(np.int64) - 1
    return np.cumsum(gaps[chosen], axis=1)[:, steps].T.copy()


def _rows(name: str, regrets: Regrets) -> list[Row]:
    last = {method: curve[-1] for method, curve in regrets.items()}
    ours, batched = last[OURS], last[OURS_IN_BATCHES]
    return [
        _ratio(f"{name}: {OURS} / {VW}", ours, last[VW], VW_BAR),
        _ratio(f"{name}: {OURS} / {VW}, first {FEW} seeds", ours[:FEW], last[VW][:FEW], SHOWN),
        _ratio(f"{name}: {SERVED} / {VW}", last[SERVED], last[VW], VW_BAR),
        _ratio(f"{name}: {OURS_IN_BATCHES} / {MABWISER}", batched, last[MABWISER], PARITY_BAR),
        Row(name=f"{name}: largest / median, ours", value=float(ours.max() / np.median(ours)), bar=SPREAD_BAR),
        *(_mean(name, method, regret) for method, regret in last.items()),
        Row(name=f"{name}: median regret, {OURS} / {VW}", value=float(np.median(ours) / np.median(last[VW]))),
        *(
            Row(
                name=f"{name}: stuck, {method}",
                value=float((last[method] > STUCK_FACTOR * np.median(last[method])).mean()),
                bar=STUCK_BAR if method == OURS else SHOWN,
            )
            for method in (OURS, VW, MABWISER)
        ),
    ]


def _mean(name: str, method: str, regret: FloatArray) -> Row:
    """Show mean, smallest and largest."""
    spread = (float(regret.min()), float(regret.max()))
    return Row(name=f"{name}: regret, {method} (smallest, largest)", value=float(regret.mean()), spread=spread)


def _ratio(name: str, ours: FloatArray, theirs: FloatArray, bar: Bar) -> Row:
    """Divide the means; the standard error is that of the paired differences ours − ratio·theirs."""
    ratio = float(ours.mean() / theirs.mean())
    error = float((ours - ratio * theirs).std(ddof=1) / (theirs.mean() * math.sqrt(ours.size)))
    return Row(name=name, value=ratio, bar=bar, spread=(ratio - 2.0 * error, ratio + 2.0 * error))


def _cost(setting: Setting) -> tuple[list[Row], list[Control]]:
    """Time a step of each method in turns, in this process."""
    table = tables(JUDGED[1], range(1))[0]
    players: dict[str, Callable[[FloatArray, int], IntArray]] = {
        SERVED: partial(play_served, batch=BATCH),
        MABWISER: PLAYERS[MABWISER],
        VW: play_vw,
    }
    spent: dict[str, list[float]] = {method: [] for method in players}
    gc.collect()
    gc.freeze()  # as the service does with what was there at its start
    for turn in range(ROUNDS):
        setting.say(f"CPU, round {turn + 1} of {ROUNDS}")
        for method, player in players.items():
            began = time.process_time()
            player(table, turn)
            spent[method].append((time.process_time() - began) / HORIZON * 1e6)
    gc.unfreeze()
    ratios = {peer: [a / b for a, b in zip(spent[SERVED], spent[peer], strict=True)] for peer in (MABWISER, VW)}
    rows = [
        Row.of_rounds(f"CPU per step: {SERVED} / {MABWISER}", ratios[MABWISER], CPU_BAR),
        Row.of_rounds(f"CPU per step: {SERVED} / {VW}", ratios[VW]),
        *(Row.of_rounds(f"CPU per step: {method}", rounds, unit="us") for method, rounds in spent.items()),
    ]
    return rows, [Control(f"CPU of {MABWISER}", spent[MABWISER])]


def _panel(instance: Instance, regrets: Regrets) -> Panel:
    x = np.linspace(HORIZON / MARKS, HORIZON, MARKS) / 1000.0
    shown = {OURS: "#1f5fa8", MABWISER: "#2e8b57", VW: "#b03030"}
    curves = [Curve(method, x, regrets[method].mean(axis=1), colour) for method, colour in shown.items()]
    curves += [
        Curve("", x, np.median(regrets[method], axis=1), colour, is_dashed=True) for method, colour in shown.items()
    ]
    return Panel(title=f"{instance.name}: mean, median dashed", x_label="1,000 steps", y_label="regret", curves=curves)
