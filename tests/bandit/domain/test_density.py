"""A density that is drawn says what the draws say: it is one, it lies where they lie, and mirrors as they do."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge_bandit.domain.density import densities

GRID = np.linspace(0.0, 1.0, 101)
seeds, shapes = st.integers(0, 2**32), st.floats(0.5, 400.0)


def area(density: np.ndarray) -> float:
    return float(np.sum((density[1:] + density[:-1]) / 2.0 * np.diff(GRID)))


@given(seeds, shapes, shapes)
def test_it_is_a_density_around_the_mean_of_its_draws(seed: int, a: float, b: float) -> None:
    draws = np.random.default_rng(seed).beta(a, b, (4096, 1))
    (density,) = densities(draws, GRID)
    assert (density >= 0.0).all()
    assert area(density) == pytest.approx(1.0)
    # The kernel and its reflection move the mean by at most a bandwidth, and the grid by a step.
    assert area(density * GRID) == pytest.approx(float(draws.mean()), abs=0.03)


@given(seeds, shapes)
def test_mirrored_draws_give_the_mirrored_density(seed: int, a: float) -> None:
    draws = np.random.default_rng(seed).beta(a, 2.0, (500, 2))
    assert densities(1.0 - draws, GRID)[:, ::-1] == pytest.approx(densities(draws, GRID), abs=0.2)


@pytest.mark.parametrize("place", [0.0, 0.37, 1.0])
def test_a_belief_without_doubt_is_one_peak(place: float) -> None:
    (density,) = densities(np.full((100, 1), place), GRID)
    assert GRID[int(density.argmax())] == pytest.approx(place, abs=0.01)
    assert area(density) == pytest.approx(1.0)


def test_draws_outside_the_range_of_rewards_count_at_its_ends() -> None:
    (density,) = densities(np.random.default_rng(3).normal(1.2, 0.1, (4096, 1)), GRID)
    assert density[-1] == density.max()
    assert area(density) == pytest.approx(1.0)
