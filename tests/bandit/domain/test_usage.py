"""What counts against the caps: trailing windows that hold never less than they say, and a bound on the overshoot."""

from hypothesis import given
from hypothesis import strategies as st

from kedge_bandit.domain.policy import Exploration
from kedge_bandit.domain.usage import DAY, HOUR, MINUTE, Usage, is_capped

NONE = Usage(baseline="a")
TIMES = st.lists(st.floats(0.0, 3.0 * HOUR), max_size=60)
COSTS = st.lists(st.tuples(st.floats(0.0, 3.0 * DAY), st.floats(0.01, 5.0)), max_size=40)


@given(TIMES, st.floats(0.0, 4.0 * HOUR))
def test_the_window_holds_the_last_hour_and_up_to_a_minute_more(times: list[float], now: float) -> None:
    past = [time for time in times if time <= now]

    counted = NONE.plus(past).at(now).decided

    assert sum(now - HOUR < time for time in past) <= counted <= sum(now - HOUR - MINUTE < time for time in past)


@given(COSTS, st.floats(0.0, 4.0 * DAY))
def test_the_window_holds_the_last_day_and_up_to_an_hour_more(costs: list[tuple[float, float]], now: float) -> None:
    past = [(time, usd) for time, usd in costs if time <= now]

    counted = NONE.plus([], past).at(now).cost_usd

    least = sum(usd for time, usd in past if now - DAY < time)
    assert least - 1e-9 <= counted <= sum(usd for time, usd in past if now - DAY - HOUR < time) + 1e-9


@given(TIMES, COSTS, st.integers(0, 60), st.floats(0.0, 4.0 * DAY))
def test_leaving_the_past_out_early_or_late_comes_to_the_same(
    times: list[float], costs: list[tuple[float, float]], cut: int, now: float
) -> None:
    at_once = NONE.plus(times, costs).at(now)
    in_steps = NONE.plus(times[:cut]).at(min(now, 1.0)).plus(times[cut:], costs).at(now)

    assert in_steps.decisions == at_once.decisions
    assert in_steps.cost == at_once.cost
    assert len(at_once.decisions) <= 3 * HOUR // MINUTE + 1


@given(st.lists(st.floats(0.0, HOUR - 1.0), min_size=1, max_size=60), st.integers(1, 60))
def test_a_reached_cap_gives_way_at_the_time_that_is_said_and_not_before(times: list[float], cap: int) -> None:
    exploration = Exploration(max_non_baseline_decisions_per_hour=cap)
    usage = NONE.plus(times)

    until = usage.capped_until(exploration)

    assert (until is not None) is is_capped(exploration, decisions=usage.decided, cost_usd=0.0)
    if until is not None:
        assert is_capped(exploration, decisions=usage.at(until - 0.001).decided, cost_usd=0.0)
        assert not is_capped(exploration, decisions=usage.at(until).decided, cost_usd=0.0)


@given(
    st.lists(st.floats(0.0, 2.0 * HOUR), min_size=1, max_size=60),
    st.integers(1, 20),
    st.floats(30.0, 300.0),
    st.floats(0.0, 60.0),
)
def test_no_hour_holds_more_than_the_cap_and_what_was_decided_while_the_news_travelled(
    arrivals: list[float], cap: int, interval: float, travel: float
) -> None:
    """A worker looks every `interval` seconds; rows and vectors take `travel` seconds each."""
    exploration = Exploration(max_non_baseline_decisions_per_hour=cap)
    served: list[float] = []
    published = [(0.0, True)]
    look = interval
    for time in sorted(arrivals):
        while look <= time:
            seen = NONE.plus(moment for moment in served if moment + travel <= look).at(look).decided
            published.append((look + travel, not is_capped(exploration, decisions=seen, cost_usd=0.0)))
            look += interval
        if [is_open for since, is_open in published if since <= time][-1]:
            served.append(time)

    delay = interval + 2.0 * travel
    in_flight = max(sum(time <= other <= time + delay for other in served) for time in served)
    busiest = max(sum(time <= other < time + HOUR for other in served) for time in served)
    assert busiest < cap + in_flight
