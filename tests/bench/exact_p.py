"""Measure the exact P(best): its error in seven regimes, and its CPU against 10,000 Monte Carlo draws."""

import time
from collections.abc import Callable

import numpy as np

from kedge_bandit.domain.arrays import FloatArray
from kedge_bandit.domain.best_arm import probability_best
from tests.bench.figures import Bar, Control, Report, Row, Setting
from tests.bench.regimes import REGIMES, Beliefs, adaptive_probability_best, slow_probability_best

SEED = 20260302
ERROR_BAR = Bar(at_most=1e-8)
REFERENCE_BAR = Bar(at_most=1e-9)
CPU_BAR = Bar(at_most=0.15)
JUDGED_ARMS = (3, 5, 8)
SHOWN_ARMS = (11, 36)
BELIEFS = 40  # of each regime and number of arms, for the error
CHECKED = 2  # of those, also by adaptive quadrature
TIMED_BELIEFS = 10  # of each regime, for the CPU
ROUNDS = 7
DRAWS = 10_000


def exact_p(setting: Setting) -> Report:
    """Compare `probability_best` with an independent reference, then with Monte Carlo."""
    rng = np.random.default_rng(SEED)
    rows = _errors(setting, rng)
    controls: list[Control] = []
    for arms in (*JUDGED_ARMS, *SHOWN_ARMS):
        setting.say(f"CPU with {arms} arms")
        timed, control = _cost(rng, arms)
        rows += timed
        controls += [control] if arms in JUDGED_ARMS else []
    notes = [
        f"error: largest of {BELIEFS} beliefs per regime and K, against panels with 40 nodes and betainc at each;",
        f"CPU: process time over all regimes, {ROUNDS} interleaved rounds; seven regimes, see regimes.py",
    ]
    return Report(rows=rows, controls=controls, notes=notes, seeds=[SEED])


def _errors(setting: Setting, rng: np.random.Generator) -> list[Row]:
    rows: list[Row] = []
    off_one = reference_error = 0.0
    for name, regime in REGIMES.items():
        worst = 0.0
        for arms in (*JUDGED_ARMS, *SHOWN_ARMS):
            setting.say(f"error in regime {name}, {arms} arms")
            for i in range(BELIEFS):
                a, b = regime(rng, arms)
                reference = slow_probability_best(a, b)
                off_one = max(off_one, abs(float(reference.sum()) - 1.0))
                worst = max(worst, float(np.abs(probability_best(a, b) - reference).max()))
                if i < CHECKED and arms in JUDGED_ARMS:
                    adaptive = adaptive_probability_best(a, b)
                    reference_error = max(reference_error, float(np.abs(adaptive - reference).max()))
        rows.append(Row(name=f"max error, {name}", value=worst, bar=ERROR_BAR))
    return [
        *rows,
        Row(name="reference: distance of its sum from 1", value=off_one, bar=REFERENCE_BAR),
        Row(name="reference: 40 nodes - adaptive quadrature", value=reference_error, bar=REFERENCE_BAR),
    ]


def _cost(rng: np.random.Generator, arms: int) -> tuple[list[Row], Control]:
    beliefs = [regime(rng, arms) for regime in REGIMES.values() for _ in range(TIMED_BELIEFS)]

    def monte_carlo(a: FloatArray, b: FloatArray) -> FloatArray:
        return np.bincount(rng.beta(a, b, (DRAWS, arms)).argmax(axis=1), minlength=arms) / DRAWS

    _cpu(probability_best, beliefs)
    exact, drawn = [], []
    for _ in range(ROUNDS):
        exact.append(_cpu(probability_best, beliefs))
        drawn.append(_cpu(monte_carlo, beliefs))
    ratios = [one / other for one, other in zip(exact, drawn, strict=True)]
    bar = CPU_BAR if arms in JUDGED_ARMS else Bar()
    rows = [
        Row.of_rounds(f"CPU / Monte Carlo {DRAWS:,}, K = {arms}", ratios, bar),
        Row.of_rounds(f"CPU, K = {arms}", [seconds * 1e6 for seconds in exact], unit="us"),
    ]
    return rows, Control(f"CPU of Monte Carlo, K = {arms}", drawn)


def _cpu(method: Callable[[FloatArray, FloatArray], FloatArray], beliefs: list[Beliefs]) -> float:
    """Give seconds of CPU per belief."""
    began = time.process_time()
    for a, b in beliefs:
        method(a, b)
    return (time.process_time() - began) / len(beliefs)
