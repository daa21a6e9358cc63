"""The database's clock is carried on by the monotonic one: it is measured now and then, and no wall clock moves it."""

from datetime import UTC, datetime, timedelta
from time import monotonic

import pytest

from kedge_bandit.adapters.postgres.snapshot import DatabaseClock

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_until_it_is_measured_it_shows_the_time_here() -> None:
    assert abs(DatabaseClock().now() - datetime.now(UTC)) < timedelta(minutes=1)


def test_it_shows_what_was_measured_and_goes_on() -> None:
    clock = DatabaseClock()
    clock.measure(monotonic(), NOON, monotonic())
    first, second = clock.now(), clock.now()
    assert NOON <= first <= second < NOON + timedelta(minutes=1)


@pytest.mark.parametrize(
    ("there", "zero"),
    [
        (NOON + timedelta(seconds=100.2), NOON),
        (NOON + timedelta(seconds=103), NOON + timedelta(seconds=2.75)),
        (NOON - timedelta(hours=1), NOON - timedelta(hours=1, seconds=100.25)),
    ],
    ids=["not contradicted", "ahead", "stepped back"],
)
def test_a_reading_moves_it_only_where_it_contradicts(there: datetime, zero: datetime) -> None:
    clock = DatabaseClock(zero=NOON)
    clock.measure(100.0, there, 100.5)
    assert clock.zero == zero
