"""A bucket of tokens admits at its rate and no faster, whatever the order of arrivals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge_bandit.domain.errors import InvalidValue
from kedge_bandit.domain.quota import MAX_RATE, MIN_RATE, Quota, QuotaExhausted, TokenBucket

RATES = st.floats(0.1, 1000.0)
PAUSES = st.lists(st.tuples(st.floats(0.0, 3.0), st.integers(1, 20)), min_size=1, max_size=60)


@given(RATES, PAUSES)
def test_no_more_is_admitted_than_the_rate_and_a_burst_allow(rate: float, arrivals: list[tuple[float, int]]) -> None:
    bucket, now, admitted, largest = TokenBucket(rate=rate, now=0.0), 0.0, 0, 0
    for pause, count in arrivals:
        now += pause
        if not bucket.take(count, now=now):
            admitted += count
            largest = max(largest, count)
    assert admitted <= bucket.burst + rate * now + largest + 1e-6


@given(RATES, PAUSES)
def test_a_refused_request_is_admitted_after_the_delay_it_was_told(
    rate: float, arrivals: list[tuple[float, int]]
) -> None:
    bucket, now = TokenBucket(rate=rate, now=0.0), 0.0
    for pause, count in arrivals:
        now += pause
        if seconds := bucket.take(count, now=now):
            now += seconds * (1 + 1e-9) + 1e-9
            assert bucket.take(count, now=now) == 0.0


def test_who_stays_below_the_rate_is_never_refused() -> None:
    bucket = TokenBucket(rate=10.0, now=0.0)
    assert [bucket.take(1, now=0.1 * step) for step in range(1000)] == [0.0] * 1000


def test_a_batch_larger_than_the_burst_is_admitted_from_a_full_bucket_and_owed() -> None:
    bucket = TokenBucket(rate=10.0, now=0.0)
    assert bucket.take(500, now=0.0) == 0.0
    assert bucket.take(1, now=0.0) == pytest.approx(49.1)


@pytest.mark.parametrize("rate", [-1.0, 5e-324, MIN_RATE / 2, float("nan"), float("inf"), MAX_RATE * 2])
def test_what_is_no_rate_is_refused(rate: float) -> None:
    with pytest.raises(InvalidValue):
        Quota(decisions_per_second=rate)
    with pytest.raises(InvalidValue):
        Quota(rows_per_second=rate)


def test_the_refusal_says_when_to_come_again() -> None:
    error = QuotaExhausted(retry_seconds=0.25)
    assert (error.reason, error.retry_seconds) == ("QUOTA_EXHAUSTED", 0.25)
    assert "0.25 s" in str(error)
