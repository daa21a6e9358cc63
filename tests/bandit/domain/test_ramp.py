"""A ramp gives traffic stage by stage, never past what was approved, and takes it back when a guardrail is breached."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge_bandit.domain.errors import IllegalTransition
from kedge_bandit.domain.identifiers import PolicyName
from kedge_bandit.domain.ramp import (
    Looked,
    Ramp,
    RampKind,
    RampState,
    abort,
    advance,
    begin_cap,
    begin_floor,
    judge,
    pause,
    roll_back,
)
from kedge_bandit.domain.ramp_metrics import Compared, MetricRole, Moments, Side
from kedge_bandit.domain.ramp_step import FloorNotApproved, Step, approve_floor, check_floor, due_of, moved_by_hand
from tests.bandit.domain.policy_strategies import NOON, change

SUPPORT = PolicyName("support")
READY = Looked(now=NOON + timedelta(hours=1), settled=2000, learned=300, learned_over_cap=0.01)


def floor_ramp(floor: float = 0.8) -> Ramp:
    return begin_floor(SUPPORT, floor, NOON)


def side(episodes: int, reward: float, *, vetoes: int = 0, cost: float = 0.01) -> Side:
    """Episodes of weight 1 whose rewards are 0 or 1, and whose costs lie within a tenth of their mean."""
    n = float(episodes)
    spread = (cost * 0.1) ** 2
    cost_sums = Moments(episodes, n, n * cost, n, n * cost, n * (cost * cost + spread))
    return Side(
        episodes=episodes,
        vetoes=vetoes,
        reward=Moments(episodes, n, n * reward, n, n * reward, n * reward),
        cost_usd=cost_sums,
    )


def seen(learned: Side, baseline: Side) -> Looked:
    return replace(READY, compared=Compared(learned, baseline))


def step(ramp: Ramp, looked: Looked) -> Step:
    return due_of(ramp, judge(ramp, looked), looked).step


def at_half() -> Ramp:
    return advance(floor_ramp(), change(), judge(floor_ramp(), READY))[0]


def test_the_floor_steps_to_a_half_by_itself_when_every_condition_holds() -> None:
    ramp, event = advance(floor_ramp(), change(), judge(floor_ramp(), READY))

    assert step(floor_ramp(), READY) is Step.ADVANCE
    assert (ramp.stage.value, ramp.permitted, ramp.next) == (0.5, 0.5, None)
    assert (event.verb, event.payload["before"], event.payload["value"]) == ("ramp.advanced", 0.8, 0.5)


@pytest.mark.parametrize(
    ("lacking", "sentence"),
    [
        ({"settled": 1999}, "2,000 settled episodes; there are 1,999"),
        ({"learned": 299}, "300 settled episodes on the learned side; there are 299"),
        ({"learned_over_cap": 0.1}, "P(veto rate over its cap) below 0.1; it is 0.1"),
    ],
)
def test_one_condition_that_lacks_keeps_the_first_stage(lacking: dict[str, float], sentence: str) -> None:
    looked = replace(READY, **lacking)  # type: ignore[arg-type]  # a field each
    judged = judge(floor_ramp(), looked)

    assert step(floor_ramp(), looked) is Step.STAY
    assert judged.waits_for == (sentence,)
    with pytest.raises(IllegalTransition, match="waits for"):
        advance(floor_ramp(), change(), judged)


@pytest.mark.parametrize(
    "holding",
    [
        {"incidents": ("tenants/acme/incidents/1",)},
        {"ratio_p": 0.0009},
        {"is_applied": False},
        {"now": NOON + timedelta(hours=25)},
    ],
)
def test_a_hold_keeps_the_stage_and_no_person_gets_past_it(holding: dict[str, object]) -> None:
    looked = replace(READY, **holding)  # type: ignore[arg-type]  # a field each
    judged = judge(floor_ramp(), looked)

    assert step(floor_ramp(), looked) is Step.STAY
    assert len(judged.holds) == 1
    with pytest.raises(IllegalTransition, match="held"):
        advance(floor_ramp(), change(), judged)


def test_a_ramp_that_stands_may_go_on_while_it_is_held_but_not_while_an_incident_is_open() -> None:
    paused, _ = pause(floor_ramp(), change())
    silent = replace(READY, now=NOON + timedelta(days=3))
    alarmed = replace(READY, incidents=("tenants/acme/incidents/1",))

    resumed, _ = advance(paused, change(), judge(paused, silent))
    assert (resumed.state, resumed.stage.value) == (RampState.RUNNING, 0.8)
    with pytest.raises(IllegalTransition, match="incident"):
        advance(paused, change(), judge(paused, alarmed))


def test_a_policy_that_began_at_a_half_or_lower_never_steps_by_itself() -> None:
    assert (floor_ramp(0.5).next, floor_ramp(0.05).next) == (None, None)
    assert step(floor_ramp(0.5), READY) is Step.STAY


def test_a_breached_guardrail_rolls_back_and_the_ramp_stands_there() -> None:
    vetoed = seen(side(400, 0.6, vetoes=40), side(400, 0.6, vetoes=2))
    assert step(at_half(), vetoed) is Step.ROLL_BACK

    ramp, event = roll_back(at_half(), change("veto rate"), {"metric": "veto_rate"})

    assert (ramp.stage.value, ramp.state, ramp.permitted, event.verb) == (
        0.8,
        RampState.ROLLED_BACK,
        0.8,
        "ramp.rolled_back",
    )
    assert step(ramp, READY) is Step.STAY
    with pytest.raises(FloorNotApproved):
        check_floor(ramp, 0.5)


def test_a_breached_signal_pauses_and_a_person_lets_it_go_on() -> None:
    dear = seen(side(500, 0.6, cost=0.02), side(500, 0.6, cost=0.01))
    assert step(floor_ramp(), dear) is Step.PAUSE

    paused, _ = pause(floor_ramp(), change("cost"))
    assert (paused.state, paused.why, step(paused, READY)) == (RampState.PAUSED, "cost", Step.STAY)

    unready = replace(READY, settled=10)
    resumed, event = advance(paused, change("looked into it"), judge(paused, unready))
    assert (resumed.state, resumed.stage.value, event.verb) == (RampState.RUNNING, 0.8, "ramp.resumed")
    assert advance(paused, change(), judge(paused, READY))[0].stage.value == 0.5


def test_a_guardrail_at_the_first_stage_pauses_because_nothing_lies_behind_it() -> None:
    assert step(floor_ramp(), seen(side(400, 0.6, vetoes=40), side(400, 0.6, vetoes=2))) is Step.PAUSE


def test_a_large_loss_is_a_guardrail_and_a_small_sure_one_a_signal() -> None:
    large, small = seen(side(4000, 0.3), side(4000, 0.6)), seen(side(40_000, 0.57), side(40_000, 0.6))

    assert step(at_half(), large) is Step.ROLL_BACK
    assert step(at_half(), small) is Step.PAUSE


def test_an_aborted_ramp_is_at_its_first_stage_and_stays_there() -> None:
    ramp, event = abort(at_half(), change("we stop"))

    assert (ramp.stage.value, ramp.state, event.verb) == (0.8, RampState.ABORTED, "ramp.aborted")
    assert step(ramp, READY) is Step.STAY
    with pytest.raises(IllegalTransition):
        abort(ramp, change())


def test_an_arm_is_given_more_only_where_its_lift_is_surely_above_zero() -> None:
    ramp, event = begin_cap(SUPPORT, "warm@0123456789ab", (0.05, 0.3, 1.0), "tenants/acme/proposals/1", change())
    better, equal = seen(side(2000, 0.8), side(2000, 0.6)), seen(side(2000, 0.6), side(2000, 0.6))

    assert (ramp.kind, ramp.stage.value, event.verb) == (RampKind.ARM_CAP, 0.05, "ramp.begun")
    assert (step(ramp, better), step(ramp, equal)) == (Step.ADVANCE, Step.STAY)
    assert step(ramp, seen(side(299, 0.9), side(2000, 0.6))) is Step.STAY


def test_the_last_stage_completes_after_two_thousand_episodes_without_a_breach() -> None:
    assert step(at_half(), seen(side(1000, 0.6), side(999, 0.6))) is Step.STAY
    assert step(at_half(), seen(side(1000, 0.6), side(1000, 0.6))) is Step.COMPLETE


def test_an_approved_floor_is_a_stage_with_the_one_before_behind_it() -> None:
    ramp, _ = approve_floor(at_half(), 0.2, "tenants/acme/proposals/7", change())
    back, _ = roll_back(ramp, change(), {})

    assert (ramp.stage.value, ramp.stage.proposal, ramp.permitted) == (0.2, "tenants/acme/proposals/7", 0.2)
    assert back.stage.value == 0.5
    for floor in (0.04, 0.5, 0.6):
        with pytest.raises(IllegalTransition):
            approve_floor(at_half(), floor, "tenants/acme/proposals/8", change())


@given(st.floats(0.05, 1.0), st.floats(0.05, 1.0), st.floats(0.05, 1.0))
def test_by_hand_the_floor_may_go_up_and_back_but_never_below_what_was_reached(
    start: float, up: float, wanted: float
) -> None:
    ramp = floor_ramp(start)
    if up > start:
        ramp = moved_by_hand(ramp, up, NOON)
    assert ramp.permitted == pytest.approx(start)
    if wanted < start - 1e-9:
        with pytest.raises(FloorNotApproved):
            check_floor(ramp, wanted)
    else:
        check_floor(ramp, wanted)
        moved = moved_by_hand(ramp, wanted, NOON)
        assert moved.stage.value == pytest.approx(wanted)
        assert moved.permitted == pytest.approx(start)


looks = st.builds(
    Looked,
    now=st.just(NOON + timedelta(hours=1)) | st.just(NOON + timedelta(days=3)),
    settled=st.integers(0, 4000),
    learned=st.integers(0, 600),
    learned_over_cap=st.floats(0, 1),
    compared=st.builds(
        Compared,
        st.builds(side, st.integers(0, 3000), st.floats(0, 1), vetoes=st.integers(0, 20), cost=st.floats(0.001, 1)),
        st.builds(side, st.integers(0, 3000), st.floats(0, 1), vetoes=st.integers(0, 20), cost=st.floats(0.001, 1)),
    ),
    ratio_p=st.floats(0, 1),
    incidents=st.sampled_from([(), ("tenants/acme/incidents/1",)]),
    is_applied=st.booleans(),
)


@given(st.lists(looks, max_size=12))
def test_whatever_is_seen_the_floor_alone_falls_to_a_half_at_lowest_and_only_as_allowed(seen: list[Looked]) -> None:
    ramp = floor_ramp()
    for looked in seen:
        judged = judge(ramp, looked)
        due = due_of(ramp, judged, looked)
        if due.step is Step.ADVANCE:
            assert looked.settled >= 2000
            assert looked.learned >= 300
            assert looked.learned_over_cap < 0.1
            assert not looked.incidents
            assert judged.breached(MetricRole.GUARDRAIL) is judged.breached(MetricRole.SIGNAL) is None
            ramp, _ = advance(ramp, change(), judged)
        elif due.step is Step.PAUSE:
            ramp, _ = pause(ramp, change())
        elif due.step is Step.ROLL_BACK:
            ramp, _ = roll_back(ramp, change(), {})
        assert ramp.stage.value in (0.8, 0.5)
        assert ramp.permitted == ramp.stage.value
