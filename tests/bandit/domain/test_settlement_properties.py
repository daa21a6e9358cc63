"""Test over random episodes that settling moves forward only and that its last verdict ignores the order of arrival."""

from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from kedge_bandit.domain.episode import EpisodeState
from kedge_bandit.domain.reward_spec import RewardSpec
from kedge_bandit.domain.settlement import Arrival, EpisodeFacts, Pending, Settled, Windows, episode_state, settle
from tests.bandit.domain.outcome_strategies import NOON, after, arrived, clean_trajectories, outcomes

SPEC = RewardSpec(cost_reference_usd=0.02, latency_reference_ms=2000.0)
_WINDOWS = st.builds(
    Windows,
    task_success=st.sampled_from([timedelta(0), timedelta(minutes=10), timedelta(hours=3)]),
    safety=st.sampled_from([timedelta(0), timedelta(minutes=10)]),
    judge=st.sampled_from([timedelta(0), timedelta(hours=1)]),
)


@st.composite
def _episodes(draw: st.DrawFn, *, vetoing: bool, last_minute: int) -> EpisodeFacts:
    """Draw the facts of an episode whose outcomes arrive at any minute up to the last one; it ends at minute 30."""
    seen = draw(st.lists(outcomes(vetoing=vetoing), max_size=6))
    minutes = [draw(st.integers(0, last_minute)) for _ in seen]
    logged = draw(clean_trajectories())
    return EpisodeFacts(
        decision_time=NOON,
        verifier_expected=draw(st.booleans()),
        judge_requested=draw(st.booleans()),
        windows=draw(_WINDOWS),
        trajectory=replace(logged, terminated=True),
        ended_time=after(minutes=30),
        arrivals=tuple(arrived(outcome, minutes=minute) for outcome, minute in zip(seen, minutes, strict=True)),
        settle_requested_time=draw(st.none() | st.just(after(minutes=40))),
    )


def known_at(facts: EpisodeFacts, now: datetime) -> EpisodeFacts:
    """Leave out what had not arrived at `now`."""
    has_ended = facts.ended_time is not None and facts.ended_time <= now
    asked = facts.settle_requested_time is not None and facts.settle_requested_time <= now
    return replace(
        facts,
        trajectory=facts.trajectory if has_ended else None,
        ended_time=facts.ended_time if has_ended else None,
        settle_requested_time=facts.settle_requested_time if asked else None,
        arrivals=tuple(arrival for arrival in facts.arrivals if arrival.received_time <= now),
    )


@given(_episodes(vetoing=True, last_minute=90), st.data())
def test_the_verdict_an_episode_ends_with_does_not_depend_on_the_order_of_arrival(
    facts: EpisodeFacts, data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(facts.arrivals))
    moved = [Arrival(a.outcome, after(minutes=data.draw(st.integers(0, 90)))) for a in shuffled]
    now = after(hours=6)

    other = replace(facts, arrivals=tuple(moved), settle_requested_time=None)

    one, two = settle(facts, SPEC, now=now), settle(other, SPEC, now=now)
    assert isinstance(one, Settled)
    assert isinstance(two, Settled)
    assert one.verdict == two.verdict


@given(_episodes(vetoing=True, last_minute=60 * 24 * 40))
def test_an_episode_that_settled_is_never_pending_again_and_a_veto_stays(facts: EpisodeFacts) -> None:
    times = {facts.ended_time or NOON, after(minutes=40), after(hours=6), after(days=31), after(days=60)}
    times |= {arrival.received_time for arrival in facts.arrivals}
    states = [episode_state(settle(known_at(facts, now), SPEC, now=now)) for now in sorted(times)]

    first = next(i for i, state in enumerate(states) if state is not EpisodeState.PENDING)
    assert EpisodeState.PENDING not in states[first:]
    if EpisodeState.VETOED in states:
        assert set(states[states.index(EpisodeState.VETOED) :]) == {EpisodeState.VETOED}


@given(_episodes(vetoing=False, last_minute=60 * 24 * 40), st.integers(0, 60 * 24 * 40))
def test_a_pending_episode_names_the_time_at_which_it_settles(facts: EpisodeFacts, minute: int) -> None:
    known = known_at(facts, after(minutes=minute))
    found = settle(known, SPEC, now=after(minutes=minute))

    if isinstance(found, Pending):
        assert found.due_time > after(minutes=minute)
        assert isinstance(settle(known, SPEC, now=found.due_time - timedelta(microseconds=1)), Pending)
        assert not isinstance(settle(known, SPEC, now=found.due_time), Pending)


@given(st.lists(st.tuples(_episodes(vetoing=True, last_minute=90), st.booleans(), st.integers(0, 120)), max_size=8))
def test_every_episode_is_in_exactly_one_state_and_the_counts_add_up(
    episodes: list[tuple[EpisodeFacts, bool, int]],
) -> None:
    counts = dict.fromkeys(EpisodeState, 0)
    for facts, cancelled, minute in episodes:
        now = after(minutes=minute)
        counts[episode_state(settle(replace(known_at(facts, now), is_cancelled=cancelled), SPEC, now=now))] += 1

    assert sum(counts.values()) == len(episodes)
