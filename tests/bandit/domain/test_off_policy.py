"""What is said of another policy from a log: against worked examples, a real log, and properties that must hold."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge_bandit.domain.doubly_robust import Log, doubly_robust, expected_rewards, switch_point
from kedge_bandit.domain.off_policy import Estimate, effective_sample_size, ips, snips, why_not

OPEN_BANDIT = Path(__file__).parent / "open_bandit_men.csv"
MOVES = 34


@pytest.fixture(scope="module")
def thompson() -> tuple[np.ndarray, np.ndarray]:
    """Weights of the uniform policy and clicks in the Thompson log of the men's campaign."""
    item, _, click, propensity = np.loadtxt(OPEN_BANDIT, delimiter=",", skiprows=3).T
    assert len(item) == 10_000
    return (1.0 / MOVES) / propensity, click


def half_width(estimate: Estimate) -> float:
    low, high = estimate.interval()
    return (high - low) / 2


def test_open_bandit_men_is_valued_as_published(thompson: tuple[np.ndarray, np.ndarray]) -> None:
    weights, clicks = thompson
    by_snips, by_ips = snips(weights, clicks), ips(weights, clicks)
    assert (round(by_snips.value, 4), round(half_width(by_snips), 4)) == (0.0032, 0.0016)
    assert (round(by_ips.value, 4), round(half_width(by_ips), 4)) == (0.0030, 0.0015)
    assert round(effective_sample_size(weights)) == 656
    assert why_not(weights) == ""


def test_the_interval_of_open_bandit_men_holds_what_the_uniform_policy_earned_there(
    thompson: tuple[np.ndarray, np.ndarray],
) -> None:
    low, high = snips(*thompson).interval()
    assert low <= 46 / 10_000 <= high


def test_a_log_that_hardly_ever_took_the_targets_action_is_refused(thompson: tuple[np.ndarray, np.ndarray]) -> None:
    weights, _ = thompson
    rare = np.where(weights > np.quantile(weights, 0.999), weights, 0.0)
    assert "effective sample size" in why_not(rare / rare.mean())


def test_weights_that_do_not_average_one_are_refused() -> None:
    assert "average 1.500" in why_not(np.full(1_000, 1.5))


def test_a_target_equal_to_the_log_is_valued_by_its_mean() -> None:
    log = played(np.random.default_rng(3), rows=500, actions=4)
    expected = expected_rewards(log)
    weights = log.weights(log.logged)
    assert ips(weights, log.rewards).value == pytest.approx(log.rewards.mean())
    assert snips(weights, log.rewards).value == pytest.approx(log.rewards.mean())
    assert why_not(weights) == ""
    assert switch_point(log, log.logged, expected) == np.inf


def test_what_the_log_could_not_draw_is_counted() -> None:
    log = played(np.random.default_rng(4), rows=100, actions=3)
    closed = Log(
        rewards=log.rewards,
        actions=np.zeros(100, dtype=np.int64),
        buckets=log.buckets,
        logged=np.tile([1.0, 0.0, 0.0], (100, 1)),
    )
    assert closed.out_of_reach(np.tile([0.5, 0.25, 0.25], (100, 1))) == pytest.approx(0.5)


def test_switch_gives_up_weights_that_cost_more_than_they_tell() -> None:
    rng = np.random.default_rng(5)
    rows = 400
    logged = np.tile([0.9995, 0.0005], (rows, 1))
    actions = np.zeros(rows, dtype=np.int64)
    actions[7] = 1
    log = Log(
        rewards=(rng.random(rows) < 0.5).astype(np.float64),
        actions=actions,
        buckets=np.zeros(rows, dtype=np.int64),
        logged=logged,
    )
    target = np.tile([0.99, 0.01], (rows, 1))
    expected = expected_rewards(log)
    point = switch_point(log, target, expected)
    assert point < 20.0
    by_switch = doubly_robust(log, target, expected, point)
    assert by_switch.standard_error < doubly_robust(log, target, expected).standard_error


@given(st.integers(0, 2**32 - 1))
def test_an_estimate_less_itself_is_nothing_and_has_no_error(seed: int) -> None:
    log = played(np.random.default_rng(seed), rows=60, actions=3)
    target = np.tile([0.2, 0.3, 0.5], (60, 1))
    estimate = snips(log.weights(target), log.rewards)
    assert estimate.minus(estimate).value == 0.0
    assert estimate.minus(estimate).standard_error == 0.0


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 10.0))
def test_snips_stays_among_the_rewards_and_does_not_know_the_scale_of_weights(seed: int, scale: float) -> None:
    log = played(np.random.default_rng(seed), rows=60, actions=3)
    weights = log.weights(np.tile([0.2, 0.3, 0.5], (60, 1)))
    value = snips(weights, log.rewards).value
    assert log.rewards.min() - 1e-12 <= value <= log.rewards.max() + 1e-12
    assert snips(weights * scale, log.rewards).value == pytest.approx(value)


@given(st.integers(0, 2**32 - 1), st.integers(0, 59))
def test_a_rows_influence_on_snips_is_what_the_value_would_lose_without_it(seed: int, row: int) -> None:
    log = played(np.random.default_rng(seed), rows=60, actions=3)
    weights = log.weights(np.tile([0.2, 0.3, 0.5], (60, 1)))
    estimate = snips(weights, log.rewards)
    without = snips(np.delete(weights, row), np.delete(log.rewards, row))
    assert estimate.influence[row] / 60 == pytest.approx(estimate.value - without.value, abs=1e-12)


@given(st.integers(0, 2**32 - 1))
def test_a_model_that_knows_the_rewards_leaves_dr_no_error(seed: int) -> None:
    log = played(np.random.default_rng(seed), rows=60, actions=3)
    known = np.tile([0.25, 0.5, 0.75], (60, 1))
    told = Log(rewards=log.of_drawn(known), actions=log.actions, buckets=log.buckets, logged=log.logged)
    estimate = doubly_robust(told, np.tile([0.2, 0.3, 0.5], (60, 1)), known)
    assert estimate.value == pytest.approx(0.2 * 0.25 + 0.3 * 0.5 + 0.5 * 0.75)
    assert estimate.standard_error == pytest.approx(0.0, abs=1e-12)


@given(st.integers(0, 2**32 - 1))
def test_no_reward_predicts_itself(seed: int) -> None:
    log = played(np.random.default_rng(seed), rows=20, actions=2)
    changed = log.rewards.copy()
    changed[6] = 1.0 - changed[6]
    other = Log(rewards=changed, actions=log.actions, buckets=log.buckets, logged=log.logged)
    assert expected_rewards(log)[6].tolist() == expected_rewards(other)[6].tolist()


def played(rng: np.random.Generator, *, rows: int, actions: int) -> Log:
    """Draw a log from vectors that give every action at least a tenth of an even share."""
    raw = rng.dirichlet(np.ones(actions), rows)
    logged = 0.9 * raw + 0.1 / actions
    drawn = (rng.random((rows, 1)) > np.cumsum(logged, axis=1)).sum(axis=1).clip(max=actions - 1)
    return Log(
        rewards=rng.random(rows), actions=drawn.astype(np.int64), buckets=rng.integers(0, 3, rows), logged=logged
    )
