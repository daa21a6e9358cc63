"""Test `anova`, `gaussian` and `linear` by worked examples; `test_learners.py` has what all learners share."""

from itertools import product

import numpy as np
import pytest

from kedge_bandit.domain.arrays import FloatArray
from kedge_bandit.domain.context import CategoricalFeature, Context, NumericFeature, bucket
from kedge_bandit.domain.learners.anova import NOISE, AnovaLearner, kernel, noise_of
from kedge_bandit.domain.learners.beta import BetaLearner
from kedge_bandit.domain.learners.gaussian import GaussianLearner
from kedge_bandit.domain.learners.learner import EvidenceTable, believe
from kedge_bandit.domain.learners.linear import LinearLearner, classes_of
from kedge_bandit.domain.learners.pooled import pooled_mean

ACTIONS = tuple("|".join(arms) for arms in product(("large", "small"), ("low", "high"), ("direct", "steps")))
EVERYTHING = np.ones(len(ACTIONS), bool)


def random_table(seed: int, buckets: int, names: tuple[str, ...] = ()) -> EvidenceTable:
    rng = np.random.default_rng(seed)
    n = rng.uniform(0.0, 60.0, (buckets, len(ACTIONS))) * (rng.random((buckets, len(ACTIONS))) < 0.7)
    mean = rng.uniform(0.3, 0.8, n.shape)
    return EvidenceTable(n, n * mean, n * (mean * mean + 0.5 * mean * (1.0 - mean)), names, ACTIONS)


def gaussian_process(covariance: FloatArray, n: FloatArray, s: FloatArray, level: float, noise: float) -> FloatArray:
    """The posterior mean by the textbook: one observation, the mean reward, per cell that was seen."""
    seen = np.flatnonzero(n > 0.0)
    gram = covariance[np.ix_(seen, seen)] + np.diag(noise / n[seen])
    mean: FloatArray = level + covariance[:, seen] @ np.linalg.solve(gram, s[seen] / n[seen] - level)
    return mean


def test_actions_are_alike_by_the_arms_that_they_share() -> None:
    covariance = kernel(ACTIONS)

    place = {action: i for i, action in enumerate(ACTIONS)}
    row = covariance[place["large|low|direct"]]
    assert row[place["small|high|steps"]] == pytest.approx(0.09)
    assert row[place["large|high|steps"]] == pytest.approx(0.09 + 0.0064)
    assert row[place["large|low|steps"]] == pytest.approx(0.09 + 2 * 0.0064 + 0.0025)
    assert row[place["large|low|direct"]] == pytest.approx(0.09 + 3 * 0.0064 + 3 * 0.0025 + 0.0004)


def test_one_bucket_of_anova_is_the_textbook_gaussian_process() -> None:
    table = random_table(1, 1)
    level, noise = pooled_mean(table.n, table.s), noise_of(table.n, table.s, table.s2)

    posterior = AnovaLearner().posterior(table, bucket=0)

    expected = gaussian_process(kernel(ACTIONS), table.n[0], table.s[0], level, noise)
    assert posterior.mean == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("strength", [1.0, 6.0, 100.0])
def test_two_buckets_of_anova_are_one_gaussian_process_over_both(strength: float) -> None:
    table = random_table(2, 2)
    level, noise = pooled_mean(table.n, table.s), noise_of(table.n, table.s, table.s2)
    alike = 1.0 - min(1.0, NOISE / strength / kernel(ACTIONS)[0, 0])
    both = np.kron(np.array([[1.0, alike], [alike, 1.0]]), kernel(ACTIONS))

    posterior = AnovaLearner().posterior(table, bucket=1, strength=strength)

    expected = gaussian_process(both, table.n.ravel(), table.s.ravel(), level, noise)[len(ACTIONS) :]
    assert posterior.mean == pytest.approx(expected, abs=1e-9)


def test_without_strength_a_bucket_of_anova_stands_alone() -> None:
    table = random_table(3, 3)
    changed = EvidenceTable(table.n.copy(), table.s.copy(), table.s2.copy(), table.buckets, ACTIONS)
    changed.s[1] = changed.s[1][::-1] * 0.0 + changed.n[1] * table.s[1].sum() / table.n[1].sum()

    one, two = (AnovaLearner().posterior(each, bucket=0, strength=0.0) for each in (table, changed))

    noise = noise_of(table.n, table.s, table.s2), noise_of(changed.n, changed.s, changed.s2)
    assert noise[0] == pytest.approx(noise[1], rel=0.2)
    assert one.mean == pytest.approx(two.mean, abs=0.02)  # they differ by the measured noise alone


def test_an_untried_action_is_believed_by_its_arms() -> None:
    n = np.full((1, len(ACTIONS)), 40.0)
    n[0, -1] = 0.0
    good = np.array([0.7 if "small" in action else 0.4 for action in ACTIONS])
    table = EvidenceTable(n, n * good, n * good, actions=ACTIONS)

    mean = believe(AnovaLearner(), table, bucket=0, eligible=EVERYTHING).mean

    assert mean[-1] > 0.6
    assert mean[-1] < mean[-2] + 0.05


def test_anova_believes_more_sharply_where_rewards_spread_less() -> None:
    n = np.full((1, len(ACTIONS)), 30.0)
    mean = np.linspace(0.6, 0.65, len(ACTIONS))
    coins, composite = (EvidenceTable(n, n * mean, s2, actions=ACTIONS) for s2 in (n * mean, n * (mean**2 + 0.03**2)))

    assert noise_of(composite.n, composite.s, composite.s2) < 0.03
    narrow, wide = (
        AnovaLearner().posterior(each, bucket=0).draw(np.random.default_rng(1), 4_000) for each in (composite, coins)
    )
    assert np.ptp(narrow, axis=0).mean() < 0.7 * np.ptp(wide, axis=0).mean()


def test_other_seeds_count_other_draws() -> None:
    table = random_table(4, 1)

    one, two = (believe(AnovaLearner(), table, bucket=0, eligible=EVERYTHING, seed=seed).q for seed in (1, 2))

    assert 0.0 < np.abs(one - two).max() < 0.1


def test_gaussian_is_far_sharper_than_beta_where_rewards_spread_little() -> None:
    n = np.full((1, 2), 60.0)
    mean = np.array([0.70, 0.68])
    table = EvidenceTable(n, n * mean, n * (mean**2 + 0.02**2))
    rng = np.random.default_rng(5)

    sharp, wide = (
        learner.posterior(table, bucket=0, strength=6.0).draw(rng, 20_000).std(axis=0)[0]
        for learner in (GaussianLearner(), BetaLearner())
    )

    assert wide / sharp > 3.0
    assert believe(GaussianLearner(), table, bucket=0, eligible=np.array([True, True])).q[0] > 0.9


def test_gaussian_believes_coins_about_as_beta_does() -> None:
    n = np.full((1, 3), 200.0)
    mean = np.array([0.6, 0.5, 0.4])
    table = EvidenceTable(n, n * mean, n * mean)

    one, two = (
        believe(each, table, bucket=0, eligible=np.ones(3, bool)) for each in (GaussianLearner(), BetaLearner())
    )

    assert one.q == pytest.approx(two.q, abs=0.01)
    assert one.mean == pytest.approx(two.mean, abs=0.01)


def test_linear_is_ridge_regression_on_centred_rewards() -> None:
    names = ("task=math|hard=0", "task=math|hard=1", "task=code|hard=0", "task=code|hard=1")
    table = random_table(6, 4, names)
    level = pooled_mean(table.n, table.s)
    x = np.array(
        [
            [1.0, name.startswith("task=math"), name.startswith("task=code"), "hard=0" in name, "hard=1" in name]
            for name in names
        ]
    )

    posterior = LinearLearner().posterior(table, bucket=2)

    for action in range(len(ACTIONS)):
        n, s = table.n[:, action], table.s[:, action]
        weights = np.linalg.solve(np.identity(5) + (x.T * n) @ x, x.T @ (s - n * level))
        assert posterior.mean[action] == pytest.approx(level + x[2] @ weights, abs=1e-9)


def test_linear_knows_an_unseen_bucket_by_its_classes_and_the_cold_one_less() -> None:
    names = ("task=math|hard=0", "task=math|hard=1", "task=code|hard=0", "task=code|hard=1")
    n = np.array([[50.0, 50.0], [50.0, 50.0], [50.0, 50.0], [0.0, 0.0]])
    mean = np.array([[0.9, 0.6], [0.5, 0.6], [0.7, 0.4], [0.0, 0.0]])
    table = EvidenceTable(n, n * mean, n * mean, names)
    rng = np.random.default_rng(7)

    unseen, cold = (LinearLearner().posterior(table, bucket=place) for place in (3, None))

    assert unseen.mean[1] > unseen.mean[0]  # hard code by hard math and easy code: .3 against .4
    assert cold.draw(rng, 4_000).std(axis=0).min() > 1.5 * unseen.draw(rng, 4_000).std(axis=0).max()


def test_a_buckets_name_is_read_back_class_by_class() -> None:
    declared = (CategoricalFeature("task", ("a=b|c", "d")), NumericFeature("words", (10.0,)))

    for context in (Context({"task": "a=b|c"}, {"words": 3.0}), Context({"task": "z"}), Context({}, {"words": 99.0})):
        name = bucket(context, declared)
        read = classes_of(name)
        assert [feature for feature, _ in read] == ["task", "words"]
        assert "|".join(f"{feature}={part}" for feature, part in read) == name
