"""Hold intervals to what they claim."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge_trainer.domain.interval import bootstrap


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=50))
def test_an_interval_holds_its_mean_and_stays_within_the_values(values: list[float]) -> None:
    found = bootstrap(values)
    assert found.low - 1e-9 <= found.mean <= found.high + 1e-9
    assert min(values) - 1e-9 <= found.low
    assert found.high <= max(values) + 1e-9
    assert bootstrap(values) == found


def test_95_of_100_intervals_cover_the_truth() -> None:
    rng = np.random.default_rng(3)
    found = [bootstrap(rng.binomial(1, 0.3, 200), seed) for seed in range(300)]
    covered = np.mean([one.low <= 0.3 <= one.high for one in found])
    assert covered == pytest.approx(0.95, abs=4 * np.sqrt(0.95 * 0.05 / 300))


def test_what_was_not_measured_does_not_count() -> None:
    assert (bootstrap([float("nan"), 2.0]).n, bootstrap([]).n) == (1, 0)
    assert np.isnan(bootstrap([float("nan")]).mean)
