"""What the detectors that need no holdout let pass, and what they say."""

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge_bandit.domain.detectors import (
    LEAST_VETO_CAP,
    Look,
    Place,
    Secondary,
    UsualVetoes,
    in_words,
)
from kedge_bandit.domain.ramp_metrics import Moments

COUNTS = st.integers(0, 2_000)


def moments(*values: float) -> Moments:
    x = np.array(values)
    return Moments(len(x), len(x), x.sum(), len(x), x.sum(), (x**2).sum())


@given(COUNTS, st.floats(0, 1))
def test_the_cap_is_a_probability_and_never_under_the_least(episodes: int, share: float) -> None:
    usual = UsualVetoes().after(episodes, int(episodes * share))

    assert LEAST_VETO_CAP <= usual.cap < 1
    assert usual.rate <= usual.cap or usual.cap == 0.99


@given(COUNTS, COUNTS)
def test_counting_in_two_steps_loses_hardly_anything_of_counting_at_once(first: int, second: int) -> None:
    at_once = UsualVetoes().after(first + second, 0)
    in_steps = UsualVetoes().after(first, 0).after(second, 0)

    assert in_steps.vetoes == pytest.approx(at_once.vetoes)
    assert in_steps.episodes <= at_once.episodes


def test_a_guardrail_that_became_stricter_for_everybody_raises_the_cap_at_once() -> None:
    usual = UsualVetoes()
    for _ in range(100):
        usual = usual.after(100, 1)

    assert usual.after(300, 15).cap > 1.5 * usual.cap


def test_a_baseline_that_is_little_known_allows_more() -> None:
    assert UsualVetoes().after(100, 1).cap > 2 * UsualVetoes().after(10_000, 100).cap


def test_evidence_is_carried_from_look_to_look_and_trips_in_the_end() -> None:
    look = Look(moments(*[0.0, 1.0] * 140, *[1.0] * 20), moments(*[0.0, 1.0] * 150))
    place = Place()
    for through in range(1, 100):
        place = place.after(Secondary.JUDGE_GAP, Look(look.learned, moments(*[0.0, 0.7] * 150)), through)
        assert place.reading is not None
        if place.reading.trips:
            break

    assert place.looks == place.through == 2
    assert place.reading is not None
    assert in_words(place.reading).startswith("the judge sees +0.183 more lift than task success; 0.05 is allowed")


def test_answers_that_are_as_long_gather_no_evidence() -> None:
    place = Place()
    for through in range(60):
        same = moments(*np.log([100.0, 200.0, 400.0] * 100))
        place = place.after(Secondary.ANSWER_LENGTH, Look(same, same), through)

    assert place.reading is not None
    assert place.reading.evidence < 2
    assert place.reading.margin == pytest.approx(log(1.1))
    assert in_words(place.reading).startswith("answers of what was learned are +0% longer")


def test_a_side_without_any_spread_can_be_read() -> None:
    place = Place().after(Secondary.ANSWER_LENGTH, Look(moments(*[5.0] * 300), moments(*[4.0] * 300)), 1)

    assert place.reading is not None
    assert place.reading.trips
