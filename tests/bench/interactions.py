"""Measure how many runs lock into a wrong joint action when the best prompt depends on the model.

36 joint actions of three models, three depths and four prompts, Bernoulli rewards. Each model has a favourite prompt
of its own. `anova` over joint actions is judged; beside it `beta` over the same 36, and three Beta bandits, one per
dimension, which see their own arm and nothing else.
"""

import time
from itertools import product

import numpy as np

from kedge_bandit.domain.arrays import FloatArray
from kedge_bandit.domain.learners import LEARNERS
from kedge_bandit.domain.learners.learner import EvidenceTable, believe
from tests.bench.figures import Bar, Report, Row, Setting
from tests.bench.plots import Curve, Panel, draw
from tests.bench.thompson import Draw, Played, Sums, bernoulli, disagreement, play, read_anova, read_beta

SEED = 20260501
RUNS = 200
STEPS = 20_000  # 36 actions × 500 episodes, from which on the design trusts a cell, and a tenth for the verdict
MODELS, DEPTHS, PROMPTS = 3, 3, 4
ACTIONS = tuple(f"m{m}|d{d}|p{p}" for m, d, p in product(range(MODELS), range(DEPTHS), range(PROMPTS)))
STUCK_GAP = 0.03
STUCK_BAR = Bar(at_most=0.10)
TRAP_BAR = Bar(at_least=0.17)
AGREEMENT_BAR = Bar(at_most=5.0)
LOST_FACTOR = 4.0
CHECKED = 5
TIMED = 50
COLOURS = {"anova": "#1f5fa8", "beta": "#3a8f4d", "three bandits": "#b03030"}


def worlds(rng: np.random.Generator, runs: int) -> FloatArray:
    """Draw means [R, 1, 36]: models differ by up to .10, depths by .06, a model's favourite prompt adds .10 to .20."""
    means = 0.35 + rng.uniform(0.0, 0.10, (runs, MODELS, 1, 1)) + rng.uniform(0.0, 0.06, (runs, 1, DEPTHS, 1))
    means = means + rng.normal(0.0, 0.01, (runs, MODELS, DEPTHS, PROMPTS))
    bonus = rng.uniform(0.10, 0.20, (runs, MODELS))
    for run, each in enumerate(bonus):
        means[run, range(MODELS), :, rng.permutation(PROMPTS)[:MODELS]] += each[:, None]
    return means.reshape(runs, 1, -1)


def read_separately(sums: Sums) -> Draw:
    """Read three Beta bandits from their own arms' sums over all else; a draw is 1 for the action that they choose."""
    shape = (-1, 1, MODELS, DEPTHS, PROMPTS)
    draws: list[Draw] = []
    for axis in (2, 3, 4):
        rest = tuple(other for other in (2, 3, 4) if other != axis)
        n, s, s2 = (part.reshape(shape).sum(axis=rest) for part in sums)
        draws.append(read_beta((n, s, s2)))

    def drawn(rng: np.random.Generator, size: int) -> FloatArray:
        model, depth, prompt = (each(rng, size).argmax(axis=-1) for each in draws)
        chosen: FloatArray = np.identity(len(ACTIONS))[(model * DEPTHS + depth) * PROMPTS + prompt]
        return chosen

    return drawn


def stuck(means: FloatArray, played: Played) -> FloatArray:
    """Mark the runs [R] whose most served action of the last tenth is more than .03 under the best."""
    served = played.late[:, 0].argmax(axis=1)
    missed = means[:, 0].max(axis=1) - means[np.arange(served.size), 0, served]
    return np.asarray(missed > STUCK_GAP, dtype=np.float64)


def interactions(setting: Setting) -> Report:
    """Play the same worlds with all three and leave the curves in interactions.svg."""
    means = worlds(np.random.default_rng(SEED), RUNS)
    rows: list[Row] = []
    curves: list[Curve] = []
    median = 0.0
    for name, read, bar in (
        ("anova", read_anova(ACTIONS), STUCK_BAR),
        ("beta", read_beta, Bar()),
        ("three bandits", read_separately, TRAP_BAR),
    ):
        setting.say(f"{name}: {RUNS} runs of {STEPS:,} episodes")
        played = play(means, read, bernoulli, steps=STEPS, seed=SEED)
        total, share = played.total, float(stuck(means, played).mean())
        median = median or float(np.median(total))
        rows += [
            Row(name=f"{name}: stuck runs", value=share, bar=bar, spread=_interval(share)),
            Row(name=f"{name}: runs over {LOST_FACTOR:g} x anova's median regret", value=_over(total, median)),
            Row(name=f"{name}: regret, mean", value=float(total.mean())),
        ]
        if name in LEARNERS:
            few = (played.sums[0][:CHECKED], played.sums[1][:CHECKED], played.sums[2][:CHECKED])
            off = disagreement(LEARNERS[name], (("",), ACTIONS), read, few)
            rows.append(Row(name=f"{name}: bench's belief - service's, standard errors", value=off, bar=AGREEMENT_BAR))
        if name == "anova":
            rows.append(Row(name="anova: CPU of one vector of 36", value=_cpu_ms(played.sums), unit="ms"))
        x = np.linspace(0.0, STEPS, 200, endpoint=False)
        regret = np.cumsum(played.regret.mean(axis=1))[:: STEPS // 200]
        curves.append(Curve(name, x, regret, colour=COLOURS[name], width=2.0))
    panel = Panel(title="36 joint actions", x_label="episode", y_label="mean regret", curves=curves)
    (setting.folder / "interactions.svg").write_text(draw([panel]), encoding="utf-8")
    notes = [
        f"{RUNS} runs, T = {STEPS:,}; stuck: the action most served in the last tenth is more than {STUCK_GAP} under"
        " the best; three bandits under .17 would mean that these worlds have no traps; curves: interactions.svg"
    ]
    return Report(rows=rows, notes=notes, seeds=[SEED])


def _interval(share: float) -> tuple[float, float]:
    """Bound a share of the runs at two standard errors (Wilson 1927)."""
    z2 = 4.0 / RUNS
    middle, reach = share + z2 / 2.0, float(np.sqrt(z2 * (share * (1.0 - share) + z2 / 4.0)))
    return max(0.0, (middle - reach) / (1.0 + z2)), (middle + reach) / (1.0 + z2)


def _over(total: FloatArray, median: float) -> float:
    return float((total > LOST_FACTOR * median).mean())


def _cpu_ms(sums: Sums) -> float:
    """Time a vector as the worker makes it, one bucket beside another."""
    n, s, s2 = (part[:2, 0] for part in sums)
    evidence = EvidenceTable(n, s, s2, ("kind=a", "kind=b"), ACTIONS)
    everything = np.ones(len(ACTIONS), bool)
    began = time.process_time()
    for seed in range(TIMED):
        believe(LEARNERS["anova"], evidence, bucket=0, eligible=everything, seed=seed)
    return (time.process_time() - began) / TIMED * 1e3
