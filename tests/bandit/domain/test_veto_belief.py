"""Test the veto rule: who is excluded, who comes back, and how often it is wrong over 20,000-episode runs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge_bandit.domain.arrays import BoolArray, FloatArray, IntArray
from kedge_bandit.domain.veto_belief import eligibility, veto_cap

FRESH = np.zeros(2, bool)


def of_second(episodes: float, vetoes: float, was_ineligible: bool = False) -> tuple[bool, float]:
    """Judge an action beside a clean baseline of many episodes."""
    eligible, over = eligibility(
        np.array([1e4, episodes]), np.array([0.0, vetoes]), 0, np.array([False, was_ineligible])
    )
    return bool(eligible[1]), float(over[1])


def test_the_cap_is_two_percent_beside_a_clean_baseline() -> None:
    assert veto_cap(np.array([1e4]), np.array([0.0]), 0) == 0.02


def test_the_cap_follows_a_baseline_that_is_vetoed_itself() -> None:
    assert veto_cap(np.array([975.0]), np.array([49.5]), 0) == pytest.approx(0.1, rel=1e-12)


def test_an_unseen_action_is_eligible() -> None:
    assert of_second(0.0, 0.0)[0]


def test_an_action_vetoed_in_a_tenth_of_many_episodes_is_excluded() -> None:
    eligible, over = of_second(200.0, 20.0)

    assert not eligible
    assert over > 0.99


def test_an_excluded_action_waits_until_its_probability_is_under_nine_tenths() -> None:
    between = [(episodes, of_second(episodes, 3.0)[1]) for episodes in np.arange(10.0, 200.0)]
    waiting = [episodes for episodes, over in between if 0.9 < over < 0.99]

    assert waiting
    assert all(of_second(episodes, 3.0, was_ineligible=False)[0] for episodes in waiting)
    assert not any(of_second(episodes, 3.0, was_ineligible=True)[0] for episodes in waiting)
    assert all(of_second(episodes, 3.0, was_ineligible=True)[0] for episodes, over in between if over < 0.9)


def test_decay_brings_an_excluded_action_back() -> None:
    episodes, vetoes, ineligible, half_lives = 300.0, 30.0, True, 0.0
    while ineligible:
        half_lives += 0.1
        faded = 2.0**-half_lives
        eligible, _ = of_second(episodes * faded, vetoes * faded, was_ineligible=True)
        ineligible = not eligible
        assert half_lives < 20.0

    assert half_lives > 1.0


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.0, 1e9), st.floats(0.0, 1.0), st.booleans()), min_size=1, max_size=36),
    st.integers(0, 35),
)
def test_the_baseline_is_always_eligible_and_probabilities_are_probabilities(
    actions: list[tuple[float, float, bool]], place: int
) -> None:
    episodes = np.array([n for n, _, _ in actions])
    vetoes = episodes * np.array([rate for _, rate, _ in actions])
    baseline = place % len(actions)

    eligible, over = eligibility(episodes, vetoes, baseline, np.array([was for _, _, was in actions]))

    assert eligible[baseline]
    assert ((over >= 0.0) & (over <= 1.0)).all()


@given(st.floats(0.0, 1e4), st.floats(0.0, 50.0))
def test_a_veto_never_lowers_the_probability_and_a_clean_episode_never_raises_it(
    episodes: float, vetoes: float
) -> None:
    now = of_second(episodes + vetoes, vetoes)[1]

    assert of_second(episodes + vetoes + 1.0, vetoes + 1.0)[1] >= now - 1e-12
    assert of_second(episodes + vetoes + 1.0, vetoes)[1] <= now + 1e-12


def first_exclusions(rng: np.random.Generator, *, runs: int, rate: float, length: int) -> tuple[BoolArray, IntArray]:
    """Play runs side by side as actions of one policy beside a clean baseline.

    P(over cap) rises with a veto only, so each run is judged at each of its vetoes.

    Returns:
        Whether [runs] a run was ever excluded, and at which of its own episodes.
    """
    at = np.cumsum(rng.geometric(rate, size=(runs, int(length * rate * 2.0) + 60)), axis=1)
    excluded, when = np.zeros(runs, bool), np.zeros(runs, np.int64)
    for vetoes, episode in enumerate(at.T, start=1):
        playing = ~excluded & (episode <= length)
        episodes: FloatArray = np.concatenate([[1e5], episode.astype(np.float64)])
        seen = np.concatenate([[0.0], np.full(runs, float(vetoes))])
        eligible, _ = eligibility(episodes, seen, 0, np.zeros(runs + 1, bool))
        now = playing & ~eligible[1:]
        excluded |= now
        when[now] = episode[now]
    return excluded, when


def test_an_arm_vetoed_in_one_percent_is_hardly_ever_excluded_in_20000_episodes() -> None:
    excluded, _ = first_exclusions(np.random.default_rng(6), runs=3_000, rate=0.01, length=20_000)

    assert excluded.mean() <= 0.01


def test_an_arm_vetoed_in_a_tenth_is_excluded_after_a_median_of_sixty_episodes_at_most() -> None:
    excluded, when = first_exclusions(np.random.default_rng(7), runs=3_000, rate=0.1, length=5_000)

    assert excluded.all()
    assert np.median(when) <= 60.0
