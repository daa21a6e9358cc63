"""Test the exact P(best) of independent Students and normals against a slow integral and closed forms."""

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, stdtr

from kedge_bandit.domain.arrays import FloatArray
from kedge_bandit.domain.best_student import probability_best_student
from kedge_bandit.domain.errors import NumericalFailure

_GRID = np.sinh(np.linspace(-9.0, 9.0, 20_001))

arms = st.lists(
    st.tuples(st.floats(0.0, 1.0), st.floats(1e-4, 1.0), st.one_of(st.floats(2.0, 1e6), st.just(inf))),
    min_size=1,
    max_size=36,
)


def slowly(centre: FloatArray, scale: FloatArray, degrees: FloatArray) -> FloatArray:
    """Simpson's rule over dF on a grid that is fine around every arm."""
    grid = np.unique((centre + scale * _GRID[:, None]).ravel())
    points = np.concatenate([grid, 0.5 * (grid[1:] + grid[:-1])])
    below = np.asarray(stdtr(degrees[:, None], (points - centre[:, None]) / scale[:, None]))
    ends, middles = below[:, : grid.size], below[:, grid.size :]
    best = []
    for k in range(centre.size):
        rest = np.arange(centre.size) != k
        at_ends, between = ends[rest].prod(axis=0), middles[rest].prod(axis=0)
        best.append(float(((at_ends[1:] + at_ends[:-1] + 4.0 * between) / 6.0) @ np.diff(ends[k])))
    return np.array(best)


@pytest.mark.parametrize("degrees", [inf, 2.0, 4.0, 50.0, 1e5])
def test_two_arms_of_any_sharpness_agree_with_a_slow_integral(degrees: float) -> None:
    for ratio in (1.0, 0.1, 1e-3):
        given_arms = np.array([0.4, 0.5]), np.array([0.1, 0.1 * ratio]), np.array([degrees, 7.0])

        assert probability_best_student(*given_arms) == pytest.approx(slowly(*given_arms), abs=1e-7)


def test_many_arms_agree_with_a_slow_integral() -> None:
    rng = np.random.default_rng(1)
    for size in (3, 8, 16):
        centre, scale = rng.uniform(0.4, 0.6, size), 10.0 ** rng.uniform(-3.0, -0.5, size)
        degrees = np.where(rng.random(size) < 0.3, inf, 10.0 ** rng.uniform(0.5, 4.0, size))

        best = probability_best_student(centre, scale, degrees)

        assert best == pytest.approx(slowly(centre, scale, degrees), abs=1e-7)


@given(st.floats(-1.0, 1.0), st.floats(0.01, 1.0), st.floats(0.01, 1.0))
def test_two_normals_have_a_closed_form(apart: float, one: float, two: float) -> None:
    best = probability_best_student(np.array([apart, 0.0]), np.array([one, two]), np.full(2, inf))

    assert best[0] == pytest.approx(float(ndtr(apart / np.hypot(one, two))), abs=1e-9)


def test_a_student_of_very_many_degrees_is_a_normal() -> None:
    centre, scale = np.array([0.1, 0.0, 0.05]), np.array([0.1, 0.2, 0.05])

    student, normal = (probability_best_student(centre, scale, np.full(3, degrees)) for degrees in (1e10, inf))

    assert student == pytest.approx(normal, abs=1e-9)


@settings(deadline=None)
@given(arms)
def test_probabilities_are_a_simplex_whatever_the_arms(given_arms: list[tuple[float, float, float]]) -> None:
    best = probability_best_student(*(np.array(part) for part in zip(*given_arms, strict=True)))

    assert best.min() >= 0.0
    assert best.sum() == pytest.approx(1.0, abs=1e-12)


@given(st.integers(1, 36), st.floats(2.0, 1e4))
def test_equal_arms_are_best_equally_often(size: int, degrees: float) -> None:
    best = probability_best_student(np.full(size, 0.5), np.full(size, 1e-7), np.full(size, degrees))

    assert best == pytest.approx(np.full(size, 1.0 / size), abs=1e-9)


@pytest.mark.parametrize(
    ("centre", "scale", "degrees"), [(np.nan, 1.0, 4.0), (0.5, 0.0, 4.0), (0.5, inf, 4.0), (0.5, 1.0, 1.0)]
)
def test_what_is_no_belief_is_refused(centre: float, scale: float, degrees: float) -> None:
    with pytest.raises(NumericalFailure):
        probability_best_student(np.array([centre, 0.5]), np.array([scale, 0.1]), np.array([degrees, 4.0]))
