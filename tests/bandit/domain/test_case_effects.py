"""What stays in a pool's mean is told from what averages out."""

import numpy as np
import pytest

from kedge_bandit.domain.case_effects import LEAST_REPEATS, sd_between

CASES, CHECKS = 600, 12


@pytest.mark.parametrize("true", [0.0, 0.1, 0.2])
def test_the_spread_between_cases_is_found_beneath_that_of_the_answers(true: float) -> None:
    rng = np.random.default_rng(7)
    runs = 40
    effects = rng.normal(0, true, (runs, CASES))
    count, total, squares = np.zeros((3, runs, CASES))
    for _ in range(CHECKS):
        asked = rng.random((runs, CASES)) < 0.5
        lifts = (effects + rng.normal(0.02, 0.25, (runs, CASES))) * asked
        count, total, squares = count + asked, total + lifts, squares + lifts**2

    found = sd_between(count, total, squares)

    # The variance of one estimate is about 2 (within / n)^2 / m, with n = 6 answers to each of m = 600 cases.
    error = np.sqrt(2 / CASES) * (0.25**2 / (CHECKS / 2) + true**2)
    assert np.mean(found**2) == pytest.approx(true**2, abs=6 * error / np.sqrt(runs) + (error if true == 0 else 0))


def test_without_repeats_all_of_the_spread_counts() -> None:
    lifts = np.random.default_rng(1).normal(0, 0.3, LEAST_REPEATS)

    assert sd_between(np.ones(LEAST_REPEATS), lifts, lifts**2) == pytest.approx(lifts.std())


def test_a_pool_that_was_never_asked_has_no_spread() -> None:
    none = np.zeros(50)

    assert sd_between(none, none, none) == 0
