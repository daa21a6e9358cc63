"""Test the exploration budget: worked cases, and 300 runs side by side on instances made to break it.

The runs draw from the belief instead of integrating it, which has the same law, and publish for every episode or for
every twenty; in the second case the rule is told so by `ahead`.
"""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge_bandit.domain.arrays import FloatArray
from kedge_bandit.domain.budget import holds, shortfall, spent

SEEDS = 300
EPISODES = 1_500


def test_nothing_is_explored_before_the_baseline_is_known() -> None:
    assert holds(np.zeros(3), np.zeros(3), 0)
    assert holds(np.array([0.0, 50.0]), np.array([0.0, 50.0]), 0) is False  # another action has proved itself


def test_a_baseline_that_fails_at_first_does_not_open_the_gate() -> None:
    assert holds(np.array([1.0, 0.0]), np.array([0.0, 0.0]), 0)


def test_a_baseline_that_always_fails_leaves_five_percent_to_explore_with() -> None:
    assert not holds(np.array([100.0, 0.0]), np.array([0.0, 0.0]), 0)
    assert holds(np.array([100.0, 10.0]), np.array([0.0, 0.0]), 0)


def test_the_rule_is_the_documented_inequality() -> None:
    n, s = np.array([200.0, 100.0, 0.0]), np.array([120.0, 70.0, 0.0])

    width = np.sqrt(np.log(2 * 3 * np.log2(202.0) / 0.05) / 200.0)
    expected = 0.95 * 0.6 * 301.0 - (120.0 + 100.0 * (0.7 - width))
    assert float(shortfall(n, s, 0)) == pytest.approx(expected, rel=1e-12)


def test_an_action_proved_better_frees_the_budget() -> None:
    assert not holds(np.array([100.0, 900.0]), np.array([50.0, 810.0]), 0)


def test_a_spent_budget_comes_back_when_the_baseline_serves_alone() -> None:
    poor = 100.0

    assert holds(np.array([100.0, poor]), np.array([60.0, 0.0]), 0)
    assert not holds(np.array([2_000.0, poor]), np.array([1_200.0, 0.0]), 0)


def test_looking_less_often_is_paid_for_in_advance() -> None:
    n, s = np.array([960.0, 40.0]), np.array([600.0, 0.0])

    assert not holds(n, s, 0)
    assert holds(n, s, 0, ahead=20.0)


@given(st.lists(st.tuples(st.integers(0, 10_000), st.floats(0.0, 1.0)), min_size=1, max_size=36))
def test_the_shortfall_is_finite_for_any_counts(counts: list[tuple[int, float]]) -> None:
    n = np.array([float(number) for number, _ in counts])

    assert np.isfinite(shortfall(n, n * np.array([mean for _, mean in counts]), 0))


def worst_share(means: FloatArray, *, floor: float, every: int, rule: bool = True) -> tuple[FloatArray, FloatArray]:
    """Play runs side by side; give the least and the last share [SEEDS] of the baseline's expected reward."""
    rng, actions = np.random.default_rng(8), means.size
    n, s, run = np.zeros((SEEDS, actions)), np.zeros((SEEDS, actions)), np.arange(SEEDS)
    earned, least = np.zeros(SEEDS), np.full(SEEDS, np.inf)
    held, a, b = np.ones(SEEDS, bool), 1.0 + s, 1.0 + n - s
    for episode in range(EPISODES):
        if episode % every == 0:
            held = spent(n, s, 0, ahead=float(every)) if rule else np.zeros(SEEDS, bool)
            a, b = 1.0 + s, 1.0 + n - s
        chosen = rng.beta(a, b).argmax(axis=1)
        chosen = np.where(rng.random(SEEDS) < 0.1, rng.integers(0, actions, SEEDS), chosen)
        chosen = np.where(held | (rng.random(SEEDS) < floor), 0, chosen)
        n[run, chosen] += 1.0
        s[run, chosen] += rng.random(SEEDS) < means[chosen]
        earned += means[chosen]
        least = np.minimum(least, earned / (means[0] * (episode + 1)))
    return least, earned / (means[0] * EPISODES)


def worthless(actions: int) -> FloatArray:
    return np.concatenate([[0.7], np.zeros(actions - 1)])


def slightly_worse(actions: int) -> FloatArray:
    return np.concatenate([[0.7], np.full(actions - 1, 0.6)])


def one_better(actions: int) -> FloatArray:
    return np.concatenate([[0.6, 0.8], np.full(actions - 2, 0.3)])


@pytest.mark.slow
@pytest.mark.parametrize("instance", [worthless, slightly_worse, one_better])
@pytest.mark.parametrize("actions", [5, 36])
@pytest.mark.parametrize("every", [1, 20])
def test_no_run_of_300_ever_earns_less_than_95_percent_of_the_baseline(
    instance: Callable[[int], FloatArray], actions: int, every: int
) -> None:
    least, _ = worst_share(instance(actions), floor=0.05, every=every)

    assert np.count_nonzero(least < 0.95 - 1e-12) == 0


@pytest.mark.parametrize("actions", [5, 36])
def test_no_run_of_300_falls_under_95_percent_even_beside_worthless_actions(actions: int) -> None:
    least, _ = worst_share(worthless(actions), floor=0.8, every=20)

    assert np.count_nonzero(least < 0.95 - 1e-12) == 0


def test_a_floor_alone_does_not_keep_the_promise() -> None:
    _, last = worst_share(worthless(36), floor=0.8, every=20, rule=False)

    assert np.count_nonzero(last < 0.95) > SEEDS // 10


def test_the_rule_does_not_stop_a_better_action_from_being_found() -> None:
    _, last = worst_share(one_better(5), floor=0.05, every=20)

    assert last.mean() > 1.05
