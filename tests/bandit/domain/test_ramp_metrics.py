"""What a ramp is judged by may be looked at all the time, and what a floor hides is said in days."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge_bandit.domain.alarm_delay import alarm_delay_days
from kedge_bandit.domain.ramp_metrics import (
    Compared,
    Finding,
    MetricRole,
    Moments,
    Side,
    interval,
    metrics_of,
    over_cap,
)


def moments(x: np.ndarray, w: np.ndarray) -> Moments:
    sums = (w.sum(), (w * x).sum(), (w * w).sum(), (w * w * x).sum(), (w * w * x * x).sum())
    return Moments(x.size, *(float(total) for total in sums))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 10)), min_size=1, max_size=50))
def test_moments_give_the_weighted_mean_and_the_variance_of_it(rows: list[tuple[float, float]]) -> None:
    x, w = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    found = moments(x, w)

    mean = float(np.average(x, weights=w))
    assert found.mean == pytest.approx(mean, abs=1e-9)
    assert found.variance == pytest.approx(float((w**2 * (x - mean) ** 2).sum() / w.sum() ** 2), abs=1e-7)


@given(st.floats(-1, 1), st.floats(1e-8, 1))
def test_an_interval_holds_its_estimate_and_is_wider_the_surer_it_has_to_be(difference: float, variance: float) -> None:
    lower, upper = interval(difference, variance, 0.05)
    wider = interval(difference, variance, 0.01)

    assert lower < difference < upper
    assert wider[0] < lower
    assert wider[1] > upper


def test_looked_at_after_every_hundred_episodes_equal_sides_are_told_apart_in_at_most_five_of_a_hundred_runs() -> None:
    """500 runs of 20,000 episodes a side: 5 % would be 25; P(more than 39 of 500 at 5 %) is below .003."""
    generator, wrong = np.random.default_rng(20260301), 0
    for _ in range(500):
        hits = generator.binomial(100, 0.6, (2, 200)).cumsum(axis=1)
        n = np.arange(100, 20_001, 100)
        means = hits / n
        for place in range(n.size):
            variance = float((means[:, place] * (1 - means[:, place]) / n[place]).sum())
            lower, upper = interval(float(means[0, place] - means[1, place]), variance, 0.05)
            if lower > 0 or upper < 0:
                wrong += 1
                break
    assert wrong <= 39


def test_under_a_hundred_episodes_a_side_no_mean_is_judged() -> None:
    few = Side(episodes=99, reward=Moments(99, 99.0, 0.0, 99.0, 0.0, 0.0))
    many = Side(episodes=9999, reward=Moments(9999, 9999.0, 9999.0, 9999.0, 9999.0, 9999.0))

    assert [metric.name for metric in metrics_of(Compared(few, many)) if metric.breached] == []
    assert [metric.name for metric in metrics_of(Compared(many, few)) if metric.breached] == []


def test_too_little_data_is_no_interval_and_no_finding() -> None:
    few = Side(episodes=14, reward=Moments(14, 14.0, 0.0, 14.0, 0.0, 0.0))
    many = Side(episodes=300, reward=Moments(300, 300.0, 0.0, 300.0, 0.0, 0.0))

    for metric in metrics_of(Compared(few, many)):
        assert metric.finding is Finding.TOO_FEW
        assert (metric.lower, metric.upper) == (-np.inf, np.inf)
    assert [metric.episodes for metric in metrics_of(Compared(few, many))] == [14, 14, 14, 0, 0]


@pytest.mark.parametrize("unit", [1.0, 1e-3, 1e6])
@pytest.mark.parametrize(("times", "finding"), [(6.4, Finding.BREACHED), (1.0, Finding.WITHIN)])
def test_a_latency_six_times_the_baselines_is_breached_in_whatever_unit(
    unit: float, times: float, finding: Finding
) -> None:
    generator = np.random.default_rng(20260302)
    baseline, learned = (generator.gamma(4, 1014 / 4, 2000) * unit for _ in range(2))
    sides = [Side(episodes=2000, latency_ms=moments(x, np.ones(2000))) for x in (learned * times, baseline)]
    latency = metrics_of(Compared(*sides))[-1]

    assert latency.finding is finding
    assert latency.upper - latency.lower < latency.baseline


def test_a_cost_a_thousand_times_the_baselines_is_not_hidden_by_a_small_baseline() -> None:
    generator = np.random.default_rng(20260303)
    learned, baseline = generator.gamma(1, 0.1, 280), np.full(2500, 0.0001)
    sides = [Side(episodes=x.size, cost_usd=moments(x, np.ones(x.size))) for x in (learned, baseline)]

    assert metrics_of(Compared(*sides))[-2].finding is Finding.BREACHED


def test_guardrails_come_before_signals_and_each_metric_says_its_rule() -> None:
    found = metrics_of(Compared())

    assert [(metric.name, metric.role) for metric in found] == [
        ("veto_rate", MetricRole.GUARDRAIL),
        ("reward_loss", MetricRole.GUARDRAIL),
        ("reward", MetricRole.SIGNAL),
        ("cost_usd", MetricRole.SIGNAL),
        ("latency_ms", MetricRole.SIGNAL),
    ]
    assert all(metric.rule and not metric.breached for metric in found)


def test_half_a_percent_of_vetoes_among_three_hundred_is_no_doubt_and_three_percent_is() -> None:
    assert over_cap((300, 1.5), (1700, 8.5)) < 0.1
    assert over_cap((300, 9), (1700, 8.5)) > 0.1


@pytest.mark.parametrize(("turns", "floor", "days"), [(100, 0.8, 14), (100, 0.05, 39)])
def test_the_alarm_takes_as_long_as_the_design_says(turns: float, floor: float, days: float) -> None:
    assert alarm_delay_days(turns, floor) == days


@given(st.floats(1, 1e5), st.floats(0.05, 0.95))
def test_more_traffic_never_makes_the_alarm_slower_and_without_a_side_it_never_comes(
    turns: float, floor: float
) -> None:
    assert alarm_delay_days(2 * turns, floor) <= alarm_delay_days(turns, floor)
    assert alarm_delay_days(turns, 1.0) == alarm_delay_days(0.0, floor) == float("inf")
