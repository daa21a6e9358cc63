"""What the mode was around a moment, and what that means for a decision that a client made by itself."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from kedge_bandit.domain.decision import SetAside
from kedge_bandit.domain.local_decision import LATEST, Grounds, ModeHistory, mode_history, set_aside
from kedge_bandit.domain.mode import Mode, ModeChange, most_restrictive, policy_clock
from tests.fixtures.decisions import decision

START = datetime(2026, 3, 1, tzinfo=UTC)


def after(seconds: int) -> datetime:
    return START + timedelta(seconds=seconds)


changes = st.lists(
    st.builds(
        ModeChange,
        st.sampled_from(["global", "tenant", "policy"]),
        st.sampled_from(Mode),
        st.integers(0, 50).map(after),
    ),
    unique_by=lambda change: change.time,
    max_size=12,
)


def test_before_any_change_the_mode_is_apply() -> None:
    assert ModeHistory().at(START) is Mode.APPLY
    assert ModeHistory().between(START, after(9)) == {Mode.APPLY}


@given(changes, st.integers(-5, 60))
def test_the_mode_of_a_moment_is_the_most_restrictive_of_the_levels_newest(made: list[ModeChange], second: int) -> None:
    moment = after(second)
    newest = {c.level: c.mode for c in sorted(made, key=lambda c: c.time) if c.time <= moment}

    assert mode_history(made).at(moment) is most_restrictive(newest.values())


@given(changes, st.integers(-5, 60), st.integers(0, 20))
def test_an_interval_has_the_modes_of_its_moments_and_no_others(
    made: list[ModeChange], start: int, length: int
) -> None:
    history = mode_history(made)

    found = history.between(after(start), after(start + length))

    assert found == {history.at(after(second)) for second in range(start, start + length + 1)}


@given(changes, st.integers(0, 60))
def test_policy_time_stands_still_exactly_while_the_history_says_so(made: list[ModeChange], second: int) -> None:
    clock, history = policy_clock(made), mode_history(made)
    moves = clock.at(after(second + 1)) - clock.at(after(second))

    assert (moves == 0.0) is history.at(after(second)).stops_time


def test_what_is_reported_long_after_its_time_is_kept_and_not_learned_from() -> None:
    said = decision(time=START)

    def reported(age: timedelta) -> SetAside | None:
        modes = ModeHistory()
        grounds = Grounds(policies=(), allocation=None, replaced_time=None, modes=modes, now=START + age)
        return set_aside(said, grounds)

    assert reported(LATEST) is None
    assert reported(LATEST + timedelta(milliseconds=1)) is SetAside.LATE
