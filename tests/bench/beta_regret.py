"""Measure the regret of Thompson sampling on the service's own Beta belief against the Lai-Robbins bound.

Actions are drawn from the belief instead of from its integrated P(best); the law of the run is the same. All seeds of
an instance advance together: the belief's code works action by action, so seeds × arms stand side by side in one
evidence table of a single bucket.
"""

import math
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from kedge_bandit.domain.arrays import FloatArray, IntArray
from kedge_bandit.domain.learners.beta import beta_shapes
from kedge_bandit.domain.learners.learner import EvidenceTable
from tests.bench.figures import Bar, Report, Row, Setting
from tests.bench.plots import Curve, Panel, draw

SEED = 20260303
SEEDS = 200
HORIZON = 100_000
SLOPE_FROM = HORIZON // 10
LEAST_RATIO = 0.25  # below it the policy must have seen more than it was shown
SLOPE_BAR = Bar(at_least=0.6, at_most=1.1)
LOST_BAR = Bar(at_most=0.05)
LOST_FACTOR = 4.0


@dataclass(frozen=True, slots=True)
class Instance:
    """Bernoulli arms that never change.

    Attributes:
        largest_ratio: mean regret at the horizon over C·ln T.
    """

    name: str
    means: tuple[float, ...]
    largest_ratio: float

    @property
    def constant(self) -> float:
        """C = Σ Δ_a / kl(μ_a, μ*) over the suboptimal arms (Lai and Robbins 1985)."""
        best = max(self.means)
        return sum((best - mean) / _divergence(mean, best) for mean in self.means if mean < best)


INSTANCES = (
    Instance("A", (0.9, 0.8, 0.7, 0.6, 0.5), 0.70),
    Instance("B", (0.70, 0.65, 0.60, 0.55, 0.50), 0.55),
    Instance("C", (0.62, 0.60, 0.58, 0.50, 0.40), 0.45),
    Instance("D", (0.10, 0.05, 0.05, 0.02, 0.02), 0.60),
    Instance("E", (0.90, 0.88, 0.88, 0.88, 0.88), 0.45),
    Instance("F", (0.60, 0.50, 0.50, 0.50, 0.50), 0.55),
)


def beta_regret(setting: Setting) -> Report:
    """Play every instance and leave the curves in beta_regret.svg."""
    marks = np.unique(np.geomspace(10, HORIZON, 41).round()).astype(np.int64)
    play = partial(regret_of, marks=marks, seeds=SEEDS, seed=SEED)
    rows: list[Row] = []
    panels: list[Panel] = []
    setting.say(f"{len(INSTANCES)} instances, {SEEDS} seeds, {HORIZON:,} steps each")
    with ProcessPoolExecutor(max_workers=2) as pool:
        for instance, regret in zip(INSTANCES, pool.map(play, INSTANCES), strict=True):
            rows += _rows(instance, regret, marks)
            panels.append(_panel(instance, regret, marks))
            setting.say(f"instance {instance.name} is played")
    (setting.folder / "beta_regret.svg").write_text(draw(panels), encoding="utf-8")
    notes = [
        f"T = {HORIZON:,}, {SEEDS} seeds; ratio = mean regret / (C ln T); slope = (R(T) - R(T/10)) / (C ln 10); a ratio"
        f" under {LEAST_RATIO} means peeking, so it fails as well; curves: beta_regret.svg"
    ]
    return Report(rows=rows, notes=notes, seeds=[SEED])


def regret_of(instance: Instance, *, marks: IntArray, seeds: int, seed: int) -> FloatArray:
    """Play one instance to the last mark with all seeds at once.

    Returns:
        Pseudo-regret [marks, seeds].
    """
    rng = np.random.default_rng([seed, ord(instance.name[0])])
    means = np.array(instance.means)
    arms = means.size
    gaps = means.max() - means
    n, s = np.zeros(seeds * arms), np.zeros(seeds * arms)
    first = np.arange(seeds) * arms
    # Rewards are 0 or 1, so the squares sum to the same; the arrays are filled in place, the table only views them.
    evidence = EvidenceTable(n[None], s[None], s[None])
    regret = np.zeros(seeds)
    curve = np.zeros((marks.size, seeds))
    for place, (begin, end) in enumerate(pairwise((0, *marks.tolist()))):
        for _ in range(begin, end):
            a, b = beta_shapes(evidence, 0)
            chosen = rng.beta(a, b).reshape(seeds, arms).argmax(axis=1)
            cell = first + chosen
            n[cell] += 1.0
            s[cell] += rng.random(seeds) < means[chosen]
            regret += gaps[chosen]
        curve[place] = regret
    return curve


def _rows(instance: Instance, regret: FloatArray, marks: IntArray) -> list[Row]:
    bound = instance.constant
    last = regret[-1]
    middle = regret[int(np.searchsorted(marks, SLOPE_FROM))]
    ratios = last / (bound * math.log(HORIZON))
    slope = float((last - middle).mean()) / (bound * math.log(10.0))
    error = float(ratios.std(ddof=1)) / math.sqrt(last.size)
    mean = float(ratios.mean())
    return [
        Row(
            name=f"{instance.name}: regret / (C ln T)",
            value=mean,
            bar=Bar(at_least=LEAST_RATIO, at_most=instance.largest_ratio),
            spread=(mean - 2.0 * error, mean + 2.0 * error),
        ),
        Row(name=f"{instance.name}: slope", value=slope, bar=SLOPE_BAR),
        Row(
            name=f"{instance.name}: runs over {LOST_FACTOR:g} x median",
            value=float((last > LOST_FACTOR * np.median(last)).mean()),
            bar=LOST_BAR,
        ),
    ]


def _panel(instance: Instance, regret: FloatArray, marks: IntArray) -> Panel:
    x = np.log10(marks)
    low, middle, high = np.quantile(regret, (0.1, 0.5, 0.9), axis=1)
    return Panel(
        title=f"{instance.name}: " + " ".join(f"{mean:g}" for mean in instance.means),
        x_label="log10 of the step",
        y_label="regret",
        curves=[
            Curve("mean", x, regret.mean(axis=1), colour="#1f5fa8", width=2.0),
            Curve("10 %, 50 %, 90 % of seeds", x, middle, colour="#8fb3d9"),
            Curve("", x, low, colour="#8fb3d9"),
            Curve("", x, high, colour="#8fb3d9"),
            Curve("C ln T", x, instance.constant * np.log(marks), colour="#b03030", is_dashed=True),
        ],
    )


def _divergence(p: float, q: float) -> float:
    """Kullback-Leibler divergence of Bernoulli(p) from Bernoulli(q), both inside (0, 1)."""
    return p * math.log(p / q) + (1.0 - p) * math.log((1.0 - p) / (1.0 - q))
