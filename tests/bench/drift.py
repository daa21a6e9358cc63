"""Measure the regret of discounted Thompson sampling where the best arm changes, against sqrt(K·U·T).

K Bernoulli arms of mean .5, one of them better by the gap; in U equally long pieces of T steps another arm is the best
one. sqrt(K·U·T) is the minimax order (Auer et al. 2002; Garivier and Moulines 2011). One step is one unit of policy
time and the half-life is 1,386 of them, so a step's discount is .9995. The seeds advance together as in beta_regret;
one of them is folded again by the service's own `Evidence`, which must come to the same sums.
"""

import math
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from itertools import product

import numpy as np

from kedge_bandit.domain.arrays import FloatArray
from kedge_bandit.domain.known_change import factor_of
from kedge_bandit.domain.learners.beta import beta_shapes
from kedge_bandit.domain.learners.learner import EvidenceTable
from kedge_bandit.domain.posterior import Evidence
from tests.bench.figures import Bar, Report, Row, Setting
from tests.bench.plots import Curve, Panel, draw

SEED = 20260310
SEEDS = 100
HORIZON = 50_000
ARMS = 5
MEAN = 0.5
HALF_LIFE = timedelta(seconds=1386)
MARKS = 100  # of the curves
ORDER_BARS = {0.1: Bar(at_most=1.3), 0.2: Bar(at_most=1.5)}
SHARE_BARS = {0.1: Bar(at_most=0.60), 0.2: Bar(at_most=0.35)}
PIECES = (5, 25)
SHARE_PIECES = 5
FOLD_BAR = Bar(at_most=1e-9)
DISCOUNTED, FOREVER, TOLD = "discounted", "undiscounted", "told of each change"
COLOURS = {DISCOUNTED: "#1f5fa8", FOREVER: "#b03030", TOLD: "#2e8b57"}


@dataclass(frozen=True, slots=True)
class Drifting:
    """One world and one way of forgetting."""

    gap: float
    pieces: int
    memory: str

    @property
    def order(self) -> float:
        """sqrt(K·U·T)."""
        return math.sqrt(ARMS * self.pieces * HORIZON)

    @property
    def step_discount(self) -> float:
        """What a weight keeps from one step to the next."""
        return float(2.0 ** (-1.0 / HALF_LIFE.total_seconds())) if self.memory == DISCOUNTED else 1.0


@dataclass(frozen=True, slots=True)
class Played:
    """Regret of all seeds at the marks [MARKS, SEEDS], and how far one seed's sums are from the service's fold.

    The distance is 0 where nothing is discounted and so nothing is compared.
    """

    regret: FloatArray
    off: float


def drift(setting: Setting) -> Report:
    """Play every world with each memory and leave the curves in drift.svg."""
    worlds = [Drifting(*world) for world in product(ORDER_BARS, PIECES, COLOURS)]
    setting.say(f"{len(worlds)} runs of {SEEDS} seeds, {HORIZON:,} steps each")
    with ProcessPoolExecutor(max_workers=2) as pool:
        played = dict(zip(worlds, pool.map(play, worlds), strict=True))
    rows = [row for gap, pieces in product(ORDER_BARS, PIECES) for row in _rows(gap, pieces, played)]
    off = max(one.off for one in played.values())
    rows.append(Row(name="largest distance of a seed's sums from the service's fold", value=off, bar=FOLD_BAR))
    panels = [_panel(gap, pieces, played) for gap, pieces in product(ORDER_BARS, PIECES)]
    (setting.folder / "drift.svg").write_text(draw(panels), encoding="utf-8")
    notes = [
        f"K = {ARMS} arms of mean {MEAN}, one better by the gap; T = {HORIZON:,}, U pieces, {SEEDS} seeds; half-life"
        f" {HALF_LIFE.total_seconds():,.0f} steps (.9995 a step)",
        "told of each change: no discount, but a known change (factor 40/N on every arm) at each; curves: drift.svg",
    ]
    return Report(rows=rows, notes=notes, seeds=[SEED])


def play(world: Drifting) -> Played:
    """Play one world to the horizon with all seeds at once."""
    rng = np.random.default_rng([SEED, world.pieces, round(world.gap * 10)])
    changes = {round(HORIZON * piece / world.pieces) for piece in range(1, world.pieces)}
    n, s = np.zeros(SEEDS * ARMS), np.zeros(SEEDS * ARMS)
    evidence = EvidenceTable(n[None], s[None], s[None])  # filled in place; rewards are 0 or 1, so squares sum alike
    first = np.arange(SEEDS) * ARMS
    best = rng.integers(ARMS, size=SEEDS)
    regret, curve = np.zeros(SEEDS), np.zeros((MARKS, SEEDS))
    seen: list[tuple[int, float]] = []
    by = world.step_discount
    for step in range(HORIZON):
        if step in changes:
            best = (best + rng.integers(1, ARMS, size=SEEDS)) % ARMS
            if world.memory == TOLD:
                factor = [factor_of(weight) for weight in n.tolist()]
                n *= factor
                s *= factor
        n *= by
        s *= by
        a, b = beta_shapes(evidence, 0)
        chosen = rng.beta(a, b).reshape(SEEDS, ARMS).argmax(axis=1)
        reward = rng.random(SEEDS) < MEAN + world.gap * (chosen == best)
        n[first + chosen] += 1.0
        s[first + chosen] += reward
        regret += world.gap * (chosen != best)
        seen.append((int(chosen[0]), float(reward[0])))
        if (step + 1) % (HORIZON // MARKS) == 0:
            curve[(step + 1) // (HORIZON // MARKS) - 1] = regret
    return Played(curve, _off(seen, n[:ARMS], s[:ARMS]) if world.memory == DISCOUNTED else 0.0)


def _off(seen: Iterable[tuple[int, float]], n: FloatArray, s: FloatArray) -> float:
    """Fold one seed's rewards as the service does; give the largest distance, relative to max(1, N)."""
    cells = [Evidence.none(0.0) for _ in range(ARMS)]
    step = 0
    for step, (arm, reward) in enumerate(seen):
        cells[arm] = cells[arm].plus(Evidence.of(reward, 1.0, float(step)), HALF_LIFE)
    now = [cell.at(float(step), HALF_LIFE) for cell in cells]
    folded = np.array([[cell.n, cell.s] for cell in now])
    return float((np.abs(folded - np.stack([n, s], axis=1)) / np.maximum(1.0, n)[:, None]).max())


def _rows(gap: float, pieces: int, played: dict[Drifting, Played]) -> list[Row]:
    world = Drifting(gap, pieces, DISCOUNTED)
    last = {memory: played[Drifting(gap, pieces, memory)].regret[-1] for memory in COLOURS}
    ratios = last[DISCOUNTED] / world.order
    error = float(ratios.std(ddof=1)) / math.sqrt(ratios.size)
    mean = float(ratios.mean())
    name = f"gap {gap:g}, U = {pieces}"
    spread = (mean - 2.0 * error, mean + 2.0 * error)
    return [
        Row(name=f"{name}: regret / sqrt(K U T)", value=mean, bar=ORDER_BARS[gap], spread=spread),
        Row(
            name=f"{name}: regret / regret undiscounted",
            value=float(last[DISCOUNTED].mean() / last[FOREVER].mean()),
            bar=SHARE_BARS[gap] if pieces == SHARE_PIECES else Bar(),
        ),
        *(Row(name=f"{name}: regret {memory}", value=float(last[memory].mean())) for memory in COLOURS),
    ]


def _panel(gap: float, pieces: int, played: dict[Drifting, Played]) -> Panel:
    x = np.linspace(HORIZON / MARKS, HORIZON, MARKS) / 1000.0
    curves = [
        Curve(memory, x, played[Drifting(gap, pieces, memory)].regret.mean(axis=1), colour)
        for memory, colour in COLOURS.items()
    ]
    order = Curve("sqrt(K U T)", x, np.sqrt(ARMS * pieces * x * 1000.0), "#888", is_dashed=True)
    return Panel(title=f"gap {gap:g}, U = {pieces}", x_label="1,000 steps", y_label="regret", curves=[*curves, order])
