"""The divergence alarm finds hacks within days and leaves half-years of honest work alone.

`make trust ARGS=tests/trust/test_alarm_rates.py` plays 2,000 runs of 180 checks each and writes
build/trust/alarm_rates.json; `make test` plays a sample. Case effects have standard deviations of .1 and .15 within
paired ones of .25 and .35.
"""

from math import hypot, sqrt

import numpy as np
import pytest

from kedge_bandit.domain.divergence import USUAL, difference, lift_between, lift_of
from kedge_bandit.domain.ramp_metrics import Moments
from tests.trust import size
from tests.trust.alarm_streams import POOL, World, episodes, first_alarms, online_lift, rising, steady
from tests.trust.written import write_json

RUNS, CHECKS = size.of(120, 2_000), size.of(60, 180)
AT_ONCE = 40
GAIN, HACK, LOSS = 0.06, 0.06, -0.04
SPREADS = ((0.25, 0.1), (0.35, 0.15))
HONEST = {"null": (0.0, 0.0), "honest gain": (GAIN, GAIN), "half-shown gain": (GAIN, GAIN / 2)}
HACKS = {"abrupt hack": (steady(HACK), steady(LOSS)), "20-day ramp": (rising(HACK, 20), rising(LOSS, 20))}


def test_what_is_simulated_is_what_the_check_computes() -> None:
    learned, baseline, quality = (row[0] for row in episodes(np.random.default_rng(1), 1, 0.1))
    value, error = online_lift(learned, baseline, quality)

    real = lift_between(_moments(learned, quality), _moments(baseline, quality))

    assert real is not None
    assert (value, error) == pytest.approx((real.value, real.error), rel=1e-12)
    lifts = np.random.default_rng(2).normal(0.1, 0.25, POOL // 2)
    holdout = lift_of(lifts, np.ones(POOL // 2))
    assert holdout.error == pytest.approx(lifts.std(ddof=1) / sqrt(POOL // 2), rel=1e-12)
    apart = difference(USUAL, real, holdout)
    assert apart.error == pytest.approx(hypot(USUAL.eta * float(error), holdout.error), rel=1e-12)


def _moments(weights: np.ndarray, quality: np.ndarray) -> Moments:
    w, x = weights[weights > 0], quality[weights > 0]
    sums = (w, w * x, w * w, w * w * x, w * w * x * x)
    return Moments(len(w), *(float(one.sum()) for one in sums))


def test_honest_half_years_are_left_alone_and_hacks_are_found() -> None:
    figures: dict[str, dict[str, float]] = {}
    for paired, between in SPREADS:
        for seed, (name, (online, on_holdout)) in enumerate(HONEST.items()):
            world = World(online=steady(online), on_holdout=steady(on_holdout), paired=paired, between=between)
            figures[f"{name}, sd {paired}"] = _rates(world, CHECKS, seed)
        for seed, (name, (rise, fall)) in enumerate(HACKS.items(), start=len(HONEST)):
            world = World(online=rise, on_holdout=fall, paired=paired, between=between)
            figures[f"{name}, sd {paired}"] = _rates(world, 180, seed)
    write_json("alarm_rates", {"runs": RUNS, "checks": CHECKS, **figures})
    for name, of in figures.items():
        print(f"{name:26} alarms {of['alarms']:.4f}   median check {of['median']:.1f}")
    # One false alarm in a hundred: a sample may have three standard errors of its own more.
    most = 0.01 + (0.0 if size.IS_FULL else 3 * sqrt(0.01 * 0.99 / RUNS))
    for paired, _ in SPREADS:
        for name in HONEST:
            assert figures[f"{name}, sd {paired}"]["alarms"] <= most, figures
        abrupt, ramp = (figures[f"{name}, sd {paired}"] for name in HACKS)
        assert abrupt["alarms"] == 1.0, figures
        assert abrupt["median"] <= 6, figures
        assert ramp["alarms"] >= 0.99, figures


def _rates(world: World, checks: int, seed: int) -> dict[str, float]:
    """Play all runs, so many at once as a processor's cache takes."""
    parts = [first_alarms(world, runs=AT_ONCE, checks=checks, seed=[seed, part]) for part in range(RUNS // AT_ONCE)]
    found = np.concatenate(parts)
    hits = found[found > 0]
    return {"alarms": len(hits) / len(found), "median": float(np.median(hits)) if len(hits) else 0.0}
