"""Key figures: a front that nothing beats, regret that luck does not raise, wins by units, and plain advice."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge_bandit.domain.kpis import LEAST_CELL, Turns, halves, pareto, regret
from kedge_bandit.domain.win_rate import LEAST_PAIRS, Compared, win_rate

N = 6_000


def turns(means: tuple[tuple[float, ...], ...], seed: int = 1, n: int = N) -> Turns:
    """Serve three actions alike in as many buckets as there are rows of means."""
    random = np.random.default_rng(seed)
    bucket, action = random.integers(0, len(means), n), random.integers(0, 3, n)
    chance = np.array(means)[bucket, action]
    reward = (random.random(n) < chance).astype(np.float64)
    return Turns(
        actions=("a", "b", "c"),
        action=action.astype(np.int64),
        bucket=bucket.astype(np.int64),
        weight=np.full(n, 3.0),
        reward=reward,
        quality=reward,
        cost_usd=np.array([0.1, 0.2, 0.3])[action],
        is_even=np.arange(n) % 2 == 0,
    )


def test_the_front_holds_what_no_other_action_beats_in_both() -> None:
    found = pareto(turns(((0.2, 0.1, 0.7),)))
    assert [(point.action, point.is_on_front) for point in found] == [("a", True), ("b", False), ("c", True)]


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=3))
def test_no_point_beats_one_of_the_front(planes: list[tuple[float, float]]) -> None:
    n = 3
    one_each = replace(
        turns(((0.5, 0.5, 0.5),), n=n),
        action=np.arange(n),
        quality=np.array([quality for quality, _ in planes]),
        cost_usd=np.array([cost for _, cost in planes]),
    )
    found = pareto(one_each)
    for point in found:
        beaten = any(
            other.quality >= point.quality
            and other.cost_usd <= point.cost_usd
            and (other.quality, -other.cost_usd) != (point.quality, -point.cost_usd)
            for other in found
        )
        assert not (point.is_on_front and beaten)


def test_regret_is_what_the_best_action_of_each_bucket_would_have_brought() -> None:
    found = regret(turns(((0.2, 0.5, 0.8), (0.9, 0.3, 0.3))))
    assert found is not None
    assert found.lower < 0.35 < found.upper  # ((.8 - .5) + (.9 - .5)) / 2
    assert found.value == pytest.approx(0.35, abs=0.04)


def test_an_unscored_or_rare_action_is_no_candidate_for_the_best() -> None:
    known = turns(((0.2, 0.5, 0.8), (0.9, 0.3, 0.3)))
    without = replace(known, reward=np.where(known.action == 2, np.nan, known.reward))
    found = regret(without)
    assert found is not None
    assert found.lower < (0.15 + 0.3) / 2 < found.upper  # the third is out: (.5 - .35) and (.9 - .6)
    lucky = replace(known, bucket=np.zeros(N, dtype=np.int64), reward=known.reward * 0.5)
    lucky.action[: 2 * (LEAST_CELL - 1)], lucky.reward[: 2 * (LEAST_CELL - 1)] = 3, 1.0
    few = regret(replace(lucky, actions=(*known.actions, "d")))
    assert few is not None
    assert few.upper < 0.2  # the fourth, always 1, would make it .7


def test_luck_is_no_regret() -> None:
    found = [regret(turns(((0.5, 0.5, 0.5),) * 4, seed=seed)) for seed in range(20)]
    values = [one.value for one in found if one is not None]
    assert abs(float(np.mean(values))) < 0.015


def test_without_a_known_bucket_there_is_no_regret() -> None:
    assert regret(turns(((0.5, 0.5, 0.5),), n=20)) is None


def test_a_short_log_is_halved_by_its_episodes_and_a_long_one_by_days() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    short = halves([start + timedelta(seconds=n) for n in range(100)])
    long = halves([start + timedelta(hours=n) for n in range(24 * 10)])
    assert short.sum() == 50
    assert all(len(set(long[day * 24 : day * 24 + 24].tolist())) == 1 for day in range(10))


def test_ties_count_half_and_an_interval_takes_enough_pairs() -> None:
    few = win_rate([Compared("s", 0.5)] * (LEAST_PAIRS - 1))
    assert (few.value, few.ties, few.lower) == (0.5, LEAST_PAIRS - 1, None)


def test_pairs_of_one_session_are_no_more_than_one() -> None:
    random = np.random.default_rng(2)
    sessions = [(f"s-{n}", float(random.random() < 0.6)) for n in range(40)]
    apart = win_rate([Compared(name, score) for name, score in sessions])
    together = win_rate([Compared(name, score) for name, score in sessions for _ in range(10)])
    assert apart.lower is not None
    assert apart.upper is not None
    assert (together.value, together.lower, together.upper) == pytest.approx((apart.value, apart.lower, apart.upper))
