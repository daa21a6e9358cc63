"""Test that what is logged as a probability is how often the action is really drawn."""

import numpy as np
import pytest
from scipy.special import gammaincc

from kedge_bandit.domain.allocation import allocate
from kedge_bandit.domain.arrays import FloatArray
from kedge_bandit.domain.draw import pick, uniform
from kedge_bandit.domain.learners.beta import BetaLearner
from kedge_bandit.domain.learners.learner import EvidenceTable, believe

DRAWS = 200_000

POSTERIORS = {
    "near-tied": ([300.0, 300.0, 300.0, 300.0, 300.0], [0.601, 0.6, 0.6, 0.599, 0.6]),
    "dominant": ([500.0, 500.0, 500.0, 500.0, 500.0], [0.9, 0.5, 0.4, 0.5, 0.3]),
    "very concentrated": ([1e4, 1e4, 1e4, 1e4, 1e4], [0.70, 0.701, 0.702, 0.69, 0.2]),
    "one unseen": ([1e4, 1e4, 0.0], [0.5, 0.51, 0.0]),
}


def chi_square_tail(observed: FloatArray, expected: FloatArray) -> float:
    """Tail of Pearson's statistic; every expected count here is above 5."""
    assert expected.min() > 5.0
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return float(gammaincc((observed.size - 1) / 2.0, statistic / 2.0))


@pytest.mark.parametrize("name", POSTERIORS)
def test_two_hundred_thousand_draws_agree_with_the_logged_propensities(name: str) -> None:
    n, mean = (np.array([values]) for values in POSTERIORS[name])
    everything = np.ones(n.size, bool)
    belief = believe(BetaLearner(), EvidenceTable(n, n * mean, n * mean * mean), bucket=0, eligible=everything)
    p = allocate(belief.q, subset=everything, baseline=0, floor=0.05, uniform_slice=0.02)
    vector = p.tolist()

    picked = [pick(vector, uniform("acme", name, f"episode-{i}", 0, 7)) for i in range(DRAWS)]

    assert chi_square_tail(np.bincount(picked, minlength=p.size).astype(float), DRAWS * p) > 1e-4


def test_a_change_of_version_draws_anew() -> None:
    episodes = [f"episode-{i}" for i in range(20_000)]

    before = np.array([uniform("acme", "support", episode, 0, 1) for episode in episodes])
    after = np.array([uniform("acme", "support", episode, 0, 2) for episode in episodes])

    assert abs(np.corrcoef(before, after)[0, 1]) < 4.5 / np.sqrt(len(episodes))
