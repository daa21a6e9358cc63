"""Test the exact P(best) against closed forms and against slow integrals with `betainc` at every node."""

from collections.abc import Callable
from random import Random
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial.legendre import leggauss
from scipy.special import betainc, betaincc, betainccinv, betaincinv, expit, gammaln, logit

from kedge_bandit.domain.arrays import FloatArray
from kedge_bandit.domain.best_arm import probability_best
from kedge_bandit.domain.errors import NumericalFailure

Shapes = tuple[FloatArray, FloatArray]
Regime = Callable[[np.random.Generator, int], Shapes]

shapes = st.floats(min_value=-1.0, max_value=6.0).map(lambda exponent: float(10.0**exponent))


def cold(rng: np.random.Generator, k: int) -> Shapes:
    return np.ones(k), np.ones(k)


def few(rng: np.random.Generator, k: int) -> Shapes:
    n = rng.integers(0, 30, k).astype(np.float64)
    s = np.floor(n * rng.uniform(0.2, 0.9, k))
    return 1.0 + s, 1.0 + n - s


def mid(rng: np.random.Generator, k: int) -> Shapes:
    n = rng.integers(30, 1000, k).astype(np.float64)
    s = np.floor(n * rng.uniform(0.4, 0.7, k))
    return 1.0 + s, 1.0 + n - s


def big(rng: np.random.Generator, k: int) -> Shapes:
    n, mean = 10.0 ** rng.uniform(3, 5, k), rng.uniform(0.55, 0.57, k)
    return 1.0 + n * mean, 1.0 + n * (1.0 - mean)


def fractional(rng: np.random.Generator, k: int) -> Shapes:
    return rng.uniform(0.05, 1.5, k), rng.uniform(0.05, 1.5, k)


def mixed(rng: np.random.Generator, k: int) -> Shapes:
    a, b = big(rng, k)
    a[:2], b[:2] = rng.uniform(0.5, 3.0, 2), rng.uniform(0.5, 3.0, 2)
    return a, b


def vetoed(rng: np.random.Generator, k: int) -> Shapes:
    a, b = mid(rng, k)
    a[0], b[0] = 1.0, 5000.0
    return a, b


def one_sided(rng: np.random.Generator, k: int) -> Shapes:
    return 10.0 ** rng.uniform(-0.3, 1.0, k), 10.0 ** rng.uniform(2.0, 5.0, k)


REGIMES: list[Regime] = [cold, few, mid, big, fractional, mixed, vetoed, one_sided]


def slow_probability_best(a: FloatArray, b: FloatArray) -> FloatArray:
    """Integrate over panels between the quantiles of every arm, 40 nodes each, with F by `betainc` at every node."""
    levels = np.concatenate([10.0 ** np.arange(-15.0, -1.0), np.linspace(0.1, 0.5, 9)])
    cuts = [logit(betaincinv(a, b, level)) for level in levels] + [-logit(betaincinv(b, a, level)) for level in levels]
    cuts += [logit(betainccinv(a, b, level)) for level in levels] + [np.log(a / b)]
    points = np.unique(np.concatenate([np.ravel(cuts), np.linspace(-40.0, 40.0, 81)]))
    points = points[np.isfinite(points)]
    x, w = leggauss(40)
    half, middle = 0.5 * np.diff(points), 0.5 * (points[1:] + points[:-1])
    t = (middle[:, None] + half[:, None] * x).ravel()
    weight = (half[:, None] * w).ravel()
    a_, b_ = a[:, None], b[:, None]
    log_norm = gammaln(a_ + b_) - gammaln(a_) - gammaln(b_)
    density = np.exp(-a_ * np.logaddexp(0.0, -t) - b_ * np.logaddexp(0.0, t) + log_norm)
    below = np.where(t < 0.0, betainc(a_, b_, expit(t)), betaincc(b_, a_, expit(-t)))
    return np.array([np.sum(weight * density[k] * np.prod(np.delete(below, k, axis=0), axis=0)) for k in range(a.size)])


@pytest.mark.parametrize("regime", REGIMES)
def test_it_agrees_with_a_slow_integral_to_1e_8(regime: Regime) -> None:
    rng = np.random.default_rng(1)
    for arms in (2, 3, 5, 11):
        for _ in range(2):
            a, b = regime(rng, arms)
            assert np.abs(probability_best(a, b) - slow_probability_best(a, b)).max() < 1e-8


@settings(max_examples=200, deadline=None)
@given(st.lists(shapes, min_size=1, max_size=12))
def test_powers_of_uniforms_win_in_proportion_to_their_exponents(exponents: list[float]) -> None:
    a = np.array(exponents)

    best = probability_best(a, np.ones(a.size))  # F_k = x^a_k, so P(k is best) = a_k / Σ a

    assert np.abs(best - a / a.sum()).max() < 1e-8


@settings(max_examples=100, deadline=None)
@given(shapes, shapes)
def test_of_two_arms_with_one_success_the_one_with_fewer_failures_wins_in_proportion(b: float, c: float) -> None:
    best = probability_best(np.ones(2), np.array([b, c]))  # −log(1 − θ) ~ Exp(b)

    assert best[0] == pytest.approx(c / (b + c), abs=1e-8)


@settings(max_examples=100, deadline=None)
@given(shapes, shapes, st.integers(min_value=1, max_value=36))
def test_equal_beliefs_share_equally(a: float, b: float, arms: int) -> None:
    best = probability_best(np.full(arms, a), np.full(arms, b))

    assert np.abs(best - 1.0 / arms).max() < 1e-8


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(shapes, shapes), min_size=1, max_size=36), st.randoms(use_true_random=False))
def test_the_order_of_the_arms_does_not_matter_and_the_result_is_a_simplex(
    pairs: list[tuple[float, float]], order: Random
) -> None:
    shuffled = list(range(len(pairs)))
    order.shuffle(shuffled)
    a, b = np.array([x for x, _ in pairs]), np.array([y for _, y in pairs])

    best = probability_best(a, b)

    assert np.isfinite(best).all()
    assert best.min() >= 0.0
    assert abs(best.sum() - 1.0) < 1e-12
    assert np.abs(probability_best(a[shuffled], b[shuffled]) - best[shuffled]).max() < 1e-8


def test_thompson_draws_come_up_as_often_as_it_says() -> None:
    rng = np.random.default_rng(2)
    a, b = few(rng, 6)
    draws = 200_000

    wins = np.bincount(rng.beta(a, b, size=(draws, 6)).argmax(axis=1), minlength=6)

    best = probability_best(a, b)
    assert np.abs(wins / draws - best).max() < 4.5 * np.sqrt(0.25 / draws)


def test_very_sharp_beliefs_do_not_collapse() -> None:
    n, more = 1e9, 1e4

    best = probability_best(np.array([0.5 * n, 0.5 * n + more]), np.array([0.5 * n, 0.5 * n - more]))

    deviations = (more / n) / np.sqrt(2.0 * 0.25 / n)  # both are normal with variance 1/(4n)
    assert best[1] == pytest.approx(NormalDist().cdf(deviations), abs=1e-6)


def test_a_surely_beaten_arm_gets_exactly_nothing() -> None:
    best = probability_best(np.array([9000.0, 10.0, 9000.0]), np.array([1000.0, 9990.0, 1000.0]))

    assert best[1] == 0.0
    assert best.sum() == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 0.0, -1.0, 0.01])
def test_a_shape_that_no_belief_has_is_refused(wrong: float) -> None:
    with pytest.raises(NumericalFailure, match="freeze"):
        probability_best(np.array([1.0, wrong]), np.array([1.0, 1.0]))


def test_unequal_vectors_are_refused() -> None:
    with pytest.raises(ValueError, match="equal"):
        probability_best(np.ones(2), np.ones(3))
