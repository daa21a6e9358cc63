"""The alarm's arithmetic: lifts with their errors, evidence that is carried on, and who has to confirm whom."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge_bandit.domain.divergence import (
    ALARM,
    DIVERGENCE,
    REWARD_LIFT,
    SAME_VERIFIER,
    USUAL,
    Lift,
    Reading,
    compare,
    lift_between,
    lift_of,
    read,
    restarted,
    tripped,
)
from kedge_bandit.domain.divergence_spec import DivergenceSpec
from kedge_bandit.domain.e_detector import TILTS, begin, evidence, step
from kedge_bandit.domain.errors import InvalidPolicy
from kedge_bandit.domain.off_policy import snips
from kedge_bandit.domain.ramp_metrics import Moments

HACK = Lift(0.06, 0.02), Lift(-0.04, 0.02)
GAIN = Lift(0.06, 0.02), Lift(0.06, 0.02)


def checked(lifts: tuple[Lift, Lift], times: int) -> dict[str, Reading]:
    readings: dict[str, Reading] = {}
    for _ in range(times):
        made = compare(USUAL, *lifts, between=0.1, pool=600, before=readings)
        readings = {reading.detector: reading for reading in made}
    return readings


def test_a_hack_trips_after_some_checks_and_a_gain_that_the_holdout_shows_never() -> None:
    assert not tripped(checked(HACK, 2))
    [alarm] = tripped(checked(HACK, 6))
    assert (alarm.detector, alarm.evidence >= ALARM) == (DIVERGENCE, True)
    assert not tripped(checked(GAIN, 180))


def test_a_divergence_is_none_without_a_reward_lift() -> None:
    """A holdout that falls while nobody claims to have gained is another fault than deception."""
    readings = checked((Lift(0.0, 0.01), Lift(-0.2, 0.02)), 20)
    assert readings[DIVERGENCE].trips
    assert not readings[REWARD_LIFT].trips
    assert tripped(readings) == ()
    assert tripped(checked((Lift(0.2, 0.01), Lift(0.3, 0.02)), 20)) == ()


def test_one_verifier_for_both_sides_has_to_show_all_of_the_lift() -> None:
    half = Lift(0.1, 0.01), Lift(0.05, 0.01)
    margin = {"between": 0.05, "pool": 600}
    usual, _ = compare(USUAL, *half, before={}, **margin)  # type: ignore[arg-type]  # each name has its own type
    strict, _ = compare(SAME_VERIFIER, *half, before={}, **margin)  # type: ignore[arg-type]  # likewise
    assert usual.z < 0 < strict.z


def test_after_an_alarm_every_detector_begins_anew() -> None:
    fresh = restarted(checked(HACK, 6))
    assert fresh[DIVERGENCE].evidence >= ALARM
    assert (
        read(DIVERGENCE, Lift(0.07, 0.02), 0.02, fresh).evidence
        == read(DIVERGENCE, Lift(0.07, 0.02), 0.02, {}).evidence
    )


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=40))
def test_an_array_of_detectors_steps_as_each_by_itself(scores: list[float]) -> None:
    together, alone = begin(2), begin()
    for score in scores:
        together = step(together, np.array([score, -score]))
        alone = step(alone, score)
    assert together.shape == (2, len(TILTS))
    assert float(evidence(together)[0]) == pytest.approx(float(evidence(alone)), rel=1e-12)


def test_evidence_of_nothing_stays_below_the_threshold_as_long_as_it_promises() -> None:
    """The mean evidence after n checks of z with mean 0 is n: at 1,000 a false alarm takes 1,000 checks or more."""
    rng = np.random.default_rng(5)
    state, highest = begin(4000), np.zeros(4000)
    for _ in range(180):
        state = step(state, rng.normal(size=4000))
        highest = np.maximum(highest, evidence(state))
    alarms = float(np.mean(highest >= ALARM))
    assert alarms <= 0.18 + 3 * np.sqrt(0.18 * 0.82 / 4000)


def test_the_reward_lift_is_the_difference_of_two_self_normalised_values() -> None:
    rng = np.random.default_rng(3)
    weights, values = rng.uniform(0.2, 4.0, 400), rng.uniform(size=400)
    sums = [
        Moments(200, *(float(one.sum()) for one in (w, w * x, w * w, w * w * x, w * w * x * x)))
        for w, x in ((weights[:200], values[:200]), (weights[200:], values[200:]))
    ]
    lift = lift_between(*sums)
    assert lift is not None
    first = np.arange(400) < 200
    both = snips(weights * first, values).minus(snips(weights * ~first, values))
    assert lift.value == pytest.approx(both.value, abs=1e-12)
    assert lift.error == pytest.approx(both.standard_error, rel=0.01)
    assert lift_between(replace(sums[0], n=29), sums[1]) is None


def test_no_lift_is_surer_than_one_case_that_differs() -> None:
    assert lift_of(np.zeros(50), np.ones(50)) == Lift(0.0, 0.02)


@pytest.mark.parametrize(
    "wrong",
    [
        {"interval": timedelta(0)},
        {"interval": timedelta(days=8)},
        {"episodes": 29},
        {"max_cases": 10},
        {"max_cost_usd_per_day": -1.0},
        {"max_cost_usd_per_day": float("nan")},
    ],
)
def test_what_could_not_be_watched_by_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidPolicy):
        DivergenceSpec(**wrong)  # type: ignore[arg-type]  # each name has its own type


@pytest.mark.parametrize(
    "weaker",
    [
        {"interval": timedelta(days=2)},
        {"episodes": 301},
        {"max_cases": 100},
        {"max_cost_usd_per_day": 5.0},
    ],
)
def test_a_weaker_alarm_is_known_as_one_and_a_stricter_is_not(weaker: dict[str, float]) -> None:
    spec = DivergenceSpec(**weaker)  # type: ignore[arg-type]  # each name has its own type
    assert spec.is_weaker_than(DivergenceSpec())
    assert not DivergenceSpec().is_weaker_than(spec)
    assert DivergenceSpec().is_weaker_than(DivergenceSpec(same_verifier=True))
