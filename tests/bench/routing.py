"""Replay the routing data: how much of what buckets can gain does the learner harvest, and what does it risk?

Share of the headroom = (V − V_best single)/(V_best per bucket − V_best single), with V the mean score in the second
half of the run. Items come in a random order in every pass. Actions are drawn from the belief of learner `beta`, the
service's own code, undiscounted, without floor and slice unless a row says so. The seeds advance together: beside each
other stand their actions' sums in the bucket of the turn and, as a second bucket, in all others, which is all that the
belief reads.
"""

import math
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from kedge_bandit.domain.arrays import FloatArray, IntArray
from kedge_bandit.domain.learners.beta import beta_shapes
from kedge_bandit.domain.learners.learner import EvidenceTable
from tests.bench.figures import SHOWN, Bar, Report, Row, Setting
from tests.bench.plots import Curve, Panel, draw
from tests.bench.replays import Replay, arithmetic, prompting
from tests.bench.replays import routing as routing_data

SEED = 20260311
SEEDS = 60
PASSES = 5
STRENGTH = 6.0
HEADROOM_BARS = {1: Bar(at_least=0.25), PASSES: Bar(at_least=0.70)}
LARGEST_LOSS = 0.01
LOSS_BAR = Bar(at_most=LARGEST_LOSS)
LOST_BAR = Bar(at_most=0.05)
LEAST_TURNS = 6_000  # about one pass of the larger sets; GSM8K has 1,319 problems
CHUNKS = 60  # points of a curve


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a set is played.

    Attributes:
        has_buckets: one bucket for all turns if not.
    """

    name: str
    replay: Replay
    strength: float = STRENGTH
    has_buckets: bool = True
    floor: float = 0.0
    uniform_slice: float = 0.0


@dataclass(frozen=True, slots=True)
class Played:
    """Every turn of every seed [turns, SEEDS]: the score received, and the mean score of its action in its bucket."""

    score: FloatArray
    value: FloatArray


def routing(setting: Setting) -> Report:
    """Play the three sets, and the routing set in other ways for comparison; curves in routing.svg."""
    data = routing_data()
    plain = Way(name="routing", replay=data)
    others = [
        replace(plain, name="one bucket for all", has_buckets=False),
        replace(plain, name="buckets apart", strength=0.0),
        replace(plain, name="floor .05, slice .1", floor=0.05, uniform_slice=0.1),
        replace(plain, name="floor .8, slice .1", floor=0.8, uniform_slice=0.1),
    ]
    poor = [Way(name=replay.name, replay=replay) for replay in (arithmetic(), prompting())]
    ways = [plain, *others, *poor]
    setting.say(f"{len(ways)} runs of {SEEDS} seeds, {PASSES} passes each")
    with ProcessPoolExecutor(max_workers=2) as pool:
        played = dict(zip([way.name for way in ways], pool.map(play, ways), strict=True))
    rows = [_headroom(plain, played[plain.name], passes) for passes in (1, PASSES)]
    rows += [_last_pass(plain, played[plain.name])]
    rows += [row for way in poor for row in _losses(way, played[way.name])]
    rows += [_value(way, played[way.name]) for way in (plain, *others)]
    (setting.folder / "routing.svg").write_text(draw(_panels(data, played, ways)), encoding="utf-8")
    return Report(rows=rows, notes=_notes(data), seeds=[SEED])


def play(way: Way) -> Played:
    """Replay a set PASSES times with all seeds at once."""
    rng = np.random.default_rng([SEED, *way.replay.name.encode()])
    scores, bucket = way.replay.scores, way.replay.bucket
    items, arms = scores.shape
    of_item = bucket if way.has_buckets else np.zeros_like(bucket)
    means = way.replay.means
    seeds = np.arange(SEEDS)
    n, s = (np.zeros((SEEDS, way.replay.buckets, arms)) for _ in range(2))
    all_n, all_s = np.zeros((SEEDS, arms)), np.zeros((SEEDS, arms))
    played = Played(np.zeros((PASSES * items, SEEDS)), np.zeros((PASSES * items, SEEDS)))
    asked = np.concatenate([np.stack([rng.permutation(items) for _ in range(SEEDS)], axis=1) for _ in range(PASSES)])
    for turn, item in enumerate(asked):
        place = of_item[item]
        own_n, own_s = n[seeds, place], s[seeds, place]
        a, b = beta_shapes(_two_buckets(own_n, own_s, all_n, all_s), 0, way.strength)
        chosen = rng.beta(a, b).reshape(SEEDS, arms).argmax(axis=1)
        if way.floor:
            chosen = _floored(chosen, way, arms, rng)
        score = scores[item, chosen]
        for sums, total, gained in ((n, all_n, 1.0), (s, all_s, score)):
            sums[seeds, place, chosen] += gained
            total[seeds, chosen] += gained
        played.score[turn] = score
        played.value[turn] = means[bucket[item], chosen]
    return played


def _two_buckets(own_n: FloatArray, own_s: FloatArray, all_n: FloatArray, all_s: FloatArray) -> EvidenceTable:
    """Lay the seeds' actions side by side, their own bucket in row 0 and all others in row 1."""
    n = np.stack([own_n.ravel(), (all_n - own_n).ravel()])
    s = np.maximum(np.stack([own_s.ravel(), (all_s - own_s).ravel()]), 0.0)
    return EvidenceTable(n, s, s)  # the belief of `beta` reads no squares


def _floored(chosen: IntArray, way: Way, arms: int, rng: np.random.Generator) -> IntArray:
    """Draw the floor and the slice: p = φ·[baseline] + (1 − φ)·((1 − e)·q + e/K)."""
    sliced = np.where(rng.random(SEEDS) < way.uniform_slice, rng.integers(arms, size=SEEDS), chosen)
    return np.where(rng.random(SEEDS) < way.floor, way.replay.baseline, sliced)


def _second_half(turns: FloatArray, passes: int) -> FloatArray:
    """Average the second half of the first `passes` passes, by seed."""
    until = turns.shape[0] // PASSES * passes
    half: FloatArray = turns[until // 2 : until].mean(axis=0)
    return half


def _of_seeds(name: str, values: FloatArray, bar: Bar = SHOWN) -> Row:
    mean, error = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(values.size)
    return Row(name=name, value=mean, bar=bar, spread=(mean - 2.0 * error, mean + 2.0 * error))


def _share(replay: Replay, value: FloatArray) -> FloatArray:
    return (value - replay.best_single) / (replay.best_by_bucket - replay.best_single)


def _headroom(way: Way, played: Played, passes: int) -> Row:
    name = f"routing: share of the headroom, {'one pass' if passes == 1 else f'{passes} passes'}"
    return _of_seeds(name, _share(way.replay, _second_half(played.score, passes)), HEADROOM_BARS[passes])


def _last_pass(way: Way, played: Played) -> Row:
    last = played.score[-way.replay.scores.shape[0] :].mean(axis=0)
    return _of_seeds("routing: share of the headroom in the last of five passes alone", _share(way.replay, last))


def _losses(way: Way, played: Played) -> list[Row]:
    """Say by how much a set without headroom is served worse than by its best action."""
    best = way.replay.best_single
    rows: list[Row] = []
    for passes in (1, PASSES):
        turns = passes * way.replay.scores.shape[0]
        by_seed = best - _second_half(played.value, passes)
        rows += [
            _of_seeds(
                f"{way.name}: under the best single action, {turns:,} turns",
                best - _second_half(played.score, passes),
                LOSS_BAR if turns >= LEAST_TURNS else SHOWN,
            ),
            Row(
                name=f"{way.name}: seeds more than 1 point under it, {turns:,} turns",
                value=float((by_seed > LARGEST_LOSS).mean()),
                bar=LOST_BAR if turns >= LEAST_TURNS else SHOWN,
                spread=(float(by_seed.min()), float(by_seed.max())),
            ),
        ]
    return rows


def _value(way: Way, played: Played) -> Row:
    return _of_seeds(f"mean score, five passes: {way.name}", _second_half(played.score, PASSES))


def _notes(data: Replay) -> list[str]:
    return [
        f"second half of the turns, {SEEDS} seeds, actual scores; routing: best single model {data.best_single:.4f},"
        f" best per bucket {data.best_by_bucket:.4f}",
        "seeds under it: by the mean score of their actions in the buckets, so that luck with items is left out;"
        " beside it the best and the worst seed;",
        f"the 1 point is judged from {LEAST_TURNS:,} turns on, one pass of the other sets; curves: routing.svg",
    ]


def _panels(data: Replay, played: dict[str, Played], ways: list[Way]) -> list[Panel]:
    colours = ("#1f5fa8", "#b03030", "#d98f2b", "#2e8b57", "#7a4fa3")
    turns = played["routing"].value.shape[0]
    length = turns // CHUNKS
    x = (np.arange(CHUNKS) + 1.0) * length / 1000.0
    curves = [
        Curve(
            way.name,
            x,
            played[way.name].value[: CHUNKS * length].mean(axis=1).reshape(CHUNKS, length).mean(axis=1),
            colour,
        )
        for way, colour in zip(ways, colours, strict=False)
        if way.replay is data
    ]
    flat = np.ones(CHUNKS)
    curves += [
        Curve("best single", x, flat * data.best_single, "#888", is_dashed=True),
        Curve("best per bucket", x, flat * data.best_by_bucket, "#333", is_dashed=True),
    ]
    return [
        Panel(title=name, x_label="1,000 turns", y_label="mean score", curves=part)
        for name, part in (("routing", [curves[0], *curves[-2:]]), ("other ways", curves[1:-2]))
    ]
