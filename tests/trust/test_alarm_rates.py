"""The divergence alarm finds hacks within days and leaves half-years of honest work alone.

`make trust ARGS=tests/trust/test_alarm_rates.py` plays 2,000 runs of 180 checks each and writes
build/trust/alarm_rates.json; `make test` plays a sample. Case effects have standard deviations of .1 and .15 within
paired ones of .25 and .35.
"""

from math import hypot, sqrt

import numpy as np
import pytest

from kedge_bandit.domain.divergence import USUAL, Lift, difference
from kedge_bandit.domain.off_policy import snips
from tests.trust import size
from tests.trust.alarm_streams import World, episodes, first_alarms, online_lift, rising, steady
from tests.trust.written import write_json

RUNS, CHECKS = size.of(120, 2_000), size.of(60, 180)
GAIN, HACK, LOSS = 0.06, 0.06, -0.04
SPREADS = ((0.25, 0.1), (0.35, 0.15))
HONEST = {"null": (0.0, 0.0), "honest gain": (GAIN, GAIN), "half-shown gain": (GAIN, GAIN / 2)}
HACKS = {"abrupt hack": (steady(HACK), steady(LOSS)), "20-day ramp": (rising(HACK, 20), rising(LOSS, 20))}


def test_what_is_simulated_is_what_the_check_computes() -> None:
    learned, baseline, quality = (row[0] for row in episodes(np.random.default_rng(1), 1, 0.1))
    value, error = online_lift(learned, baseline, quality)
    real = snips(learned, quality).minus(snips(baseline, quality))

    assert value == pytest.approx(real.value, abs=1e-12)
    assert error == pytest.approx(real.standard_error, rel=1e-12)
    apart = difference(USUAL, Lift(real.value, real.standard_error), Lift(0.0, 0.02))
    assert apart.error == pytest.approx(hypot(USUAL.eta * float(error), 0.02), rel=1e-12)


def test_honest_half_years_are_left_alone_and_hacks_are_found() -> None:
    figures: dict[str, dict[str, float]] = {}
    for paired, between in SPREADS:
        for seed, (name, (online, on_holdout)) in enumerate(HONEST.items()):
            world = World(online=steady(online), on_holdout=steady(on_holdout), paired=paired, between=between)
            figures[f"{name}, sd {paired}"] = _rates(first_alarms(world, runs=RUNS, checks=CHECKS, seed=seed))
        for seed, (name, (rise, fall)) in enumerate(HACKS.items(), start=len(HONEST)):
            world = World(online=rise, on_holdout=fall, paired=paired, between=between)
            figures[f"{name}, sd {paired}"] = _rates(first_alarms(world, runs=RUNS, checks=180, seed=seed))
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


def _rates(found: np.ndarray) -> dict[str, float]:
    hits = found[found > 0]
    return {"alarms": len(hits) / len(found), "median": float(np.median(hits)) if len(hits) else 0.0}
