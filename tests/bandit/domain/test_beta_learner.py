"""Test the `beta` belief by worked examples of its own; `test_learners.py` has what all learners share."""

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge_bandit.domain.learners.beta import BetaLearner, beta_shapes
from kedge_bandit.domain.learners.learner import EvidenceTable, believe
from kedge_bandit.domain.posterior import Evidence

sums = st.floats(0.0, 1e9)
shares = st.floats(0.0, 1.0)


def table(n: list[list[float]], s: list[list[float]]) -> EvidenceTable:
    return EvidenceTable(np.array(n), np.array(s), np.array(s))


@given(sums, shares)
def test_one_bucket_is_exactly_the_uniform_prior_and_its_evidence(n: float, mean: float) -> None:
    a, b = beta_shapes(table([[n]], [[n * mean]]), 0)

    assert a[0] == 1.0 + n * mean
    assert b[0] == 1.0 + (n - n * mean)


def test_other_buckets_are_a_prior_worth_at_most_six_episodes() -> None:
    a, b = beta_shapes(table([[2.0], [30.0], [8.0]], [[1.0], [20.0], [6.0]]), 0)

    mean = (1.0 + 26.0) / (2.0 + 38.0)
    assert a[0] == pytest.approx(6.0 * mean + 1.0, rel=1e-15)
    assert b[0] == pytest.approx(6.0 * (1.0 - mean) + 1.0, rel=1e-15)


def test_few_episodes_elsewhere_are_worth_no_more_than_they_are() -> None:
    a, b = beta_shapes(table([[0.0], [1.0]], [[0.0], [1.0]]), 0)

    assert (a[0], b[0]) == (2.0, 1.0)


def test_the_own_bucket_is_not_counted_twice() -> None:
    alone, _ = beta_shapes(table([[1000.0], [0.0]], [[900.0], [0.0]]), 0)

    assert alone[0] == 901.0


@settings(deadline=None)
@given(st.lists(st.tuples(sums, shares), min_size=2, max_size=6), st.floats(0.0, 1000.0), st.booleans())
def test_no_shape_is_ever_under_one_half(cells: list[tuple[float, float]], strength: float, cold: bool) -> None:
    evidence = table([[n] for n, _ in cells], [[n * mean] for n, mean in cells])

    a, b = beta_shapes(evidence, None if cold else 0, strength)

    assert a[0] >= 0.5
    assert b[0] >= 0.5
    assert np.isfinite([a[0], b[0]]).all()


@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_after_only_failures_or_only_successes_both_shapes_are_positive(mean: float) -> None:
    a, b = beta_shapes(table([[500.0], [500.0]], [[500.0 * mean]] * 2), 0)

    assert min(a[0], b[0]) >= 0.5


def test_sixty_days_without_traffic_tend_to_the_prior_and_never_to_nothing() -> None:
    half_life = timedelta(days=1)
    left = Evidence(400.0, 380.0, 370.0, 0.0).at(60.0 * 86_400.0, half_life)

    a, b = beta_shapes(table([[left.n]], [[left.s]]), 0)

    assert (a[0], b[0]) == (pytest.approx(1.0, abs=1e-9), pytest.approx(1.0, abs=1e-9))


def test_means_are_given_of_ineligible_actions_too() -> None:
    belief = believe(
        BetaLearner(),
        table([[8.0, 8.0]], [[8.0, 0.0]]),
        bucket=0,
        eligible=np.array([False, True]),
        strength=6.0,
        seed=0,
    )

    assert belief.mean.tolist() == [0.9, 0.1]
    assert belief.q.tolist() == [0.0, 1.0]
