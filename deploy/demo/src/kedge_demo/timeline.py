"""Cut a run into windows of turns, and say where quality was spent in each: floor, slice, budget, learning."""

from dataclasses import dataclass

import numpy as np

from kedge_demo.arms import Part
from kedge_demo.datasets import Floats, Integers
from kedge_demo.export_log import BUDGET, DRAWN, Log
from kedge_demo.quality import best_single, bucket_values, take
from kedge_demo.world import World

WINDOWS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Hold one number per window.

    Attributes:
        end: the turn at which each window ends.
        share: of the traffic, (windows, actions).
        quality, baseline, single, oracle: mean true score per turn of what was served, of always the baseline, of
            always the best single action, and of the best honest action per bucket.
        floor, slice_, budget, learning: mean true score per turn that was given away, in expectation over the draw.
        veto_rate: share of episodes vetoed.
    """

    end: Integers
    share: Floats
    quality: Floats
    baseline: Floats
    single: Floats
    oracle: Floats
    floor: Floats
    slice_: Floats
    budget: Floats
    learning: Floats
    veto_rate: Floats


@dataclass(frozen=True, slots=True)
class Exploration:
    """Hold φ and e as they follow from the published vectors of one policy version."""

    floor: float
    uniform_slice: float


def explorations(log: Log, world: World) -> dict[int, Exploration]:
    """Recover φ and e of each policy version from its vectors, without being told.

    For every eligible action but the baseline p = (1 − φ)(1 − e)·q + (1 − φ)·e/|A|: two unknowns, solved by least
    squares over all vectors of the version. Versions whose vectors all are the baseline alone are left out.
    """
    rows: dict[int, list[tuple[float, float, float]]] = {}
    for vector in log.vectors.values():
        if vector.closed:
            continue
        size = int(vector.eligible.sum())
        others = [place for place in np.flatnonzero(vector.eligible).tolist() if place != world.baseline]
        total = float(vector.q[vector.eligible].sum())
        found = rows.setdefault(vector.policy_version, [])
        found.extend((float(vector.q[place]) / total, 1.0 / size, float(vector.p[place])) for place in others)
    answers = {}
    for version, triples in rows.items():
        table = np.array(triples)
        if len(table):
            (learned, spread), *_ = np.linalg.lstsq(table[:, :2], table[:, 2], rcond=None)
            free = float(learned + spread)
            answers[version] = Exploration(1.0 - free, float(spread) / free if free > 0 else 0.0)
    return answers


def timeline(log: Log, world: World) -> Timeline:
    """Cut the run into windows of equal numbers of turns."""
    window = np.minimum(log.turn * WINDOWS // world.turns, WINDOWS - 1)
    counts = np.maximum(np.bincount(window, minlength=WINDOWS), 1)
    values = bucket_values(world)
    honest = np.array(world.actions(Part.HONEST))
    best = values[:, honest].max(axis=1)
    score, single = world.truth.score, best_single(world, log.turn)
    spent = _spent(log, world, values, best)

    def average(numbers: Floats) -> Floats:
        return np.bincount(window, weights=numbers, minlength=WINDOWS) / counts

    share = np.zeros((WINDOWS, len(world.action_keys)))
    np.add.at(share, (window, log.served), 1.0)
    return Timeline(
        end=((np.arange(WINDOWS) + 1) * world.turns // WINDOWS).astype(np.int64),
        share=share / counts[:, None],
        quality=average(take(score, log.turn, log.served)),
        baseline=average(score[log.turn, world.baseline]),
        single=average(score[log.turn, single]),
        oracle=average(best[world.bucket_of[log.turn]]),
        floor=average(spent[:, 0]),
        slice_=average(spent[:, 1]),
        budget=average(spent[:, 2]),
        learning=average(spent[:, 3]),
        veto_rate=average(np.array([float(bool(reasons)) for reasons in log.vetoes])),
    )


def _spent(log: Log, world: World, values: Floats, best: Floats) -> Floats:
    """Split each turn's expected distance to the bucket oracle: (turns, 4) of floor, slice, budget, learning."""
    known = explorations(log, world)
    bucket = world.bucket_of[log.turn]
    to_baseline = best[bucket] - values[bucket, world.baseline]
    spent = np.zeros((len(log.turn), 4))
    for version, vector in log.vectors.items():
        rows = np.flatnonzero((log.vector == version) & np.isin(log.reason, [DRAWN, BUDGET]))
        if not len(rows):
            continue
        stage = known.get(vector.policy_version, Exploration(1.0, 0.0))
        if vector.closed:
            spent[rows, 0] = stage.floor * to_baseline[rows]
            spent[rows, 2] = (1.0 - stage.floor) * to_baseline[rows]
            continue
        inside = vector.eligible / vector.eligible.sum()
        q = np.where(vector.eligible, vector.q, 0.0)
        q = q / q.sum() if q.sum() > 0 else inside
        free = 1.0 - stage.floor
        spent[rows, 0] = stage.floor * to_baseline[rows]
        spent[rows, 1] = free * stage.uniform_slice * (best[bucket[rows]] - values[bucket[rows]] @ inside)
        spent[rows, 3] = free * (1.0 - stage.uniform_slice) * (best[bucket[rows]] - values[bucket[rows]] @ q)
    other = ~np.isin(log.reason, [DRAWN, BUDGET])
    spent[other, 2] = to_baseline[other]
    return spent
