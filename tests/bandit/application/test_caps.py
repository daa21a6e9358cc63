"""A cap on what is not the baseline closes exploring as part of the allocation, and gives way by itself."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kedge_bandit.application.rebuild import Rebuild
from kedge_bandit.application.replay import Replay
from kedge_bandit.domain.decision import Reason
from kedge_bandit.domain.draw import uniform
from kedge_bandit.domain.eligibility import PLAIN, choose
from kedge_bandit.domain.episode import LlmCall, Trajectory
from kedge_bandit.domain.lifecycle import replace_spec
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.policy import PolicySpec
from kedge_bandit.domain.published import Allocation
from tests.bandit.application.scene import CLEAN, SPEC, SUPPORT, Row, Scene, Scenes
from tests.bandit.application.test_publish import allocations, newest


def capped(*, decisions: int = 0, usd: float = 0.0) -> PolicySpec:
    exploration = replace(
        SPEC.exploration, max_non_baseline_decisions_per_hour=decisions, max_non_baseline_cost_usd_per_day=usd
    )
    return replace(SPEC, exploration=exploration)


HOURLY = capped(decisions=3)
DAILY = capped(usd=1.0)


def costing(usd: float) -> Trajectory:
    return replace(CLEAN, llm_calls=(LlmCall(model_id="m", prompt_tokens=1, completion_tokens=1, cost_usd=usd),) * 2)


def windows_move_on(scene: Scene, minutes: int) -> None:
    """Move everything that the caps count into the past."""
    scene.sql("UPDATE bucket_state SET publish_time = publish_time - interval '2 seconds'")
    scene.sql(
        """UPDATE policy_state SET capped_until = capped_until - make_interval(mins => %s), usage = usage ||
            jsonb_build_object('decisions', (
                SELECT coalesce(jsonb_agg(jsonb_build_array((slot ->> 0)::bigint - %s, slot -> 1)), '[]')
                FROM jsonb_array_elements(usage -> 'decisions') slot))""",
        minutes,
        minutes,
    )


def decided_by(allocation: Allocation, scene: Scene, episode: str) -> Row:
    """Decide as a replica does that serves this allocation."""
    u = uniform(scene.tenant, SUPPORT, episode, allocation.seed_epoch, allocation.version)
    choice = choose(allocation, PLAIN, Mode.APPLY, u)
    return scene.decide(
        episode,
        action=allocation.actions[choice.index],
        propensity=choice.propensity,
        reason=choice.reason,
        is_randomised=choice.is_randomised,
        policy_version=allocation.policy_version,
        allocation_version=allocation.version,
        seed_epoch=allocation.seed_epoch,
    )


async def test_the_hourly_cap_publishes_the_baseline_alone_and_says_why(scenes: Scenes) -> None:
    scene = await scenes(HOURLY)

    await scene.play(scene.decide("e1"), scene.decide("e2", "other"))
    assert (await newest(scene)).closed is None
    await scene.play(scene.decide("e3"))

    cold = await newest(scene)
    assert (cold.closed, cold.non_baseline_decisions, cold.p[cold.baseline]) == (Reason.CAP, 3, 1.0)


async def test_every_bucket_is_closed_at_once(scenes: Scenes) -> None:
    scene = await scenes(HOURLY)
    await scene.play(*scene.turn("e1"))

    await scene.play(scene.decide("e2"), scene.decide("e3"))

    assert [(await newest(scene, bucket)).closed for bucket in ("", "task=math")] == [Reason.CAP, Reason.CAP]


@pytest.mark.parametrize(
    ("facts", "counts"),
    [
        ({"reason": Reason.PINNED}, True),
        ({"reason": Reason.BEST_ACTION}, True),
        ({"reason": Reason.BASELINE_UNAVAILABLE}, True),
        ({"arm": "small"}, False),
        ({"arm": "small", "reason": Reason.OBSERVE}, False),
    ],
)
async def test_whatever_is_not_the_baseline_counts(scenes: Scenes, facts: dict[str, Any], counts: bool) -> None:
    scene = await scenes(HOURLY)

    await scene.play(*(scene.decide(f"e{i}", **facts) for i in range(3)))

    assert ((await newest(scene)).closed is Reason.CAP) is counts
    assert (await scene.rebuilt()).agrees


async def test_a_second_decision_of_an_episode_does_not_count(scenes: Scenes) -> None:
    scene = await scenes(HOURLY)

    await scene.play(*(scene.decide("the same", arm) for arm in ("large", "other", "large", "other")))

    assert (await newest(scene)).closed is None
    assert (await scene.rebuilt()).agrees


async def test_exploring_goes_on_by_itself_when_the_window_has_moved_on(scenes: Scenes) -> None:
    scene = await scenes(HOURLY)
    await scene.play(*(scene.decide(f"e{i}") for i in range(3)))

    windows_move_on(scene, 30)
    await scene.learn()
    assert (await newest(scene)).closed is Reason.CAP
    windows_move_on(scene, 31)
    await scene.learn()

    cold = await newest(scene)
    assert (cold.closed, cold.non_baseline_decisions) == (None, 0)
    assert scene.sql("SELECT usage -> 'decisions', capped_until FROM policy_state") == [([], None)]


async def test_a_cap_that_gives_way_within_the_second_is_looked_at_again(scenes: Scenes) -> None:
    scene = await scenes(HOURLY)
    await scene.play(*(scene.decide(f"e{i}") for i in range(3)))
    windows_move_on(scene, 61)
    scene.sql("UPDATE bucket_state SET publish_time = publish_time + interval '1 hour'")
    await scene.learn()
    assert (await newest(scene)).closed is Reason.CAP

    scene.sql("UPDATE bucket_state SET publish_time = publish_time - interval '2 hours'")
    await scene.learn()

    assert (await newest(scene)).closed is None


async def test_an_idle_capped_policy_asks_for_no_pass(scenes: Scenes) -> None:
    scene = await scenes(HOURLY)
    await scene.play(*(scene.decide(f"e{i}") for i in range(3)))

    async with scene.ledgers.open(scene.tenant) as ledger:
        point = await ledger.learning.lock()

    assert point is not None
    assert not point.has_work


async def test_the_daily_cap_adds_up_what_logged_calls_beside_the_baseline_cost(scenes: Scenes) -> None:
    scene = await scenes(DAILY)
    dear: list[Row] = [scene.decide("base", "small"), scene.log("base", costing(9.0))]

    await scene.play(*dear, scene.decide("e1"), scene.log("e1", costing(0.3)))
    assert (await newest(scene)).closed is None
    await scene.play(scene.decide("e2"), scene.log("e2", costing(0.1)), scene.log("e2", costing(0.1)))

    cold = await newest(scene)
    assert cold.closed is Reason.CAP
    assert cold.non_baseline_cost_usd == pytest.approx(1.0)
    assert (await scene.rebuilt()).agrees


async def test_cost_that_was_logged_before_its_decision_arrived_counts_when_it_does(scenes: Scenes) -> None:
    scene = await scenes(DAILY)
    await scene.play(scene.log("early", costing(2.0)))
    assert (await scene.rebuilt()).agrees

    await scene.play(scene.decide("early"))

    assert (await newest(scene)).closed is Reason.CAP
    assert (await scene.rebuilt()).agrees


async def test_the_action_that_was_really_served_says_whose_cost_it_is(scenes: Scenes) -> None:
    scene = await scenes(DAILY)

    await scene.play(scene.decide("e1"), scene.log("e1", costing(2.0), served="small"))
    assert (await newest(scene)).closed is None
    await scene.play(scene.decide("e2", "small"), scene.log("e2", costing(2.0), served="large"))

    assert (await newest(scene)).closed is Reason.CAP
    assert (await scene.rebuilt()).agrees


async def test_decisions_before_under_and_after_a_cap_replay_exactly(scenes: Scenes) -> None:
    scene = await scenes(capped(decisions=5))
    for part in range(3):
        for i in range(10):
            await scene.play(decided_by(await newest(scene), scene, f"e{part}-{i}"))
        windows_move_on(scene, 90)
        await scene.learn()

    found = await Replay(scene.ledgers).sample(scene.tenant, SUPPORT, size=1_000)

    assert {Reason.CAP, Reason.DRAWN} == {decision.reason for decision in scene.decisions.values()}
    assert [answer.detail for answer in found if not answer.matches] == []
    assert len(found) == 30


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE allocation SET closed = NULL WHERE closed = 'CAP'",
        "UPDATE allocation SET closed = 'BUDGET' WHERE closed = 'CAP'",
        "UPDATE allocation SET non_baseline_decisions = 2 WHERE closed = 'CAP'",
    ],
)
async def test_a_cap_that_was_made_up_does_not_replay(scenes: Scenes, tampering: str) -> None:
    scene = await scenes(HOURLY)
    await scene.play(*(scene.decide(f"e{i}") for i in range(3)))
    await scene.play(decided_by(await newest(scene), scene, "under"))
    scene.sql(tampering)

    answer = await Replay(scene.ledgers)(scene.tenant, scene.decisions["under"].decision_id)

    assert not answer.matches


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE policy_state SET usage = usage || '{\"decisions\": []}'",
        "UPDATE policy_state SET usage = usage || '{\"cost\": []}'",
        "UPDATE policy_state SET usage = jsonb_set(usage, '{cost,0,1}', '0.1')",
    ],
)
async def test_a_count_that_was_damaged_is_found_and_mended(scenes: Scenes, damage: str) -> None:
    scene = await scenes(capped(decisions=100, usd=100.0))
    await scene.play(scene.decide("e1"), scene.log("e1", costing(0.4)))
    assert (await scene.rebuilt()).agrees
    scene.sql(damage)
    assert not (await scene.rebuilt()).agrees

    await Rebuild(scene.ledgers)(scene.tenant, SUPPORT, verify_only=False)

    assert (await scene.rebuilt()).agrees


async def test_a_cap_that_comes_later_counts_what_its_windows_hold_already(scenes: Scenes) -> None:
    scene = await scenes()
    long_ago = datetime.now(UTC) - timedelta(minutes=90)
    await scene.play(*(scene.decide(f"old{i}", time=long_ago) for i in range(5)))
    await scene.play(scene.decide("e1"), scene.log("e1", costing(0.6)), scene.decide("e2"), scene.decide("e3"))
    before = (await newest(scene)).closed

    await scene.change(lambda policy, change: replace_spec(policy, HOURLY, change))
    await scene.play(scene.decide("e4"))

    cold = await newest(scene)
    assert (before, cold.closed, cold.non_baseline_decisions) == (None, Reason.CAP, 4)
    assert cold.non_baseline_cost_usd == pytest.approx(1.2)
    assert (await scene.rebuilt()).agrees


async def test_another_baseline_is_counted_anew(scenes: Scenes) -> None:
    scene = await scenes(HOURLY)
    await scene.play(*(scene.decide(f"e{i}") for i in range(3)))
    other = replace(HOURLY, baseline={next(iter(SPEC.baseline)): "large"})

    await scene.change(lambda policy, change: replace_spec(policy, other, change))
    await scene.learn()

    assert ((await newest(scene)).closed, (await newest(scene)).non_baseline_decisions) == (None, 0)
    assert (await scene.rebuilt()).agrees


async def test_without_caps_nothing_is_counted_and_taking_them_away_opens(scenes: Scenes) -> None:
    scene = await scenes(HOURLY)
    await scene.play(*(scene.decide(f"e{i}") for i in range(3)))

    await scene.change(lambda policy, change: replace_spec(policy, SPEC, change))
    await scene.learn()

    assert (await newest(scene)).closed is None
    assert scene.sql("SELECT usage, capped_until FROM policy_state") == [(None, None)]


async def test_a_changed_cap_leaves_the_exploration_budgets_counts_as_they_are(scenes: Scenes) -> None:
    scene = await scenes(HOURLY)
    await scene.play(*scene.turn("e1"))

    changed = await scene.change(lambda policy, change: replace_spec(policy, capped(decisions=9), change))

    assert (changed.version, changed.configuration_version) == (2, 1)


async def test_a_cap_closes_while_learning_is_held_and_opens_when_it_is_not(scenes: Scenes) -> None:
    scene = await scenes(HOURLY)
    await scene.play(scene.decide("e0"))
    scene.sql("UPDATE policy_state SET learning_held = 'SELF_CHECK'")

    await scene.play(scene.decide("e1"), scene.decide("e2"))
    assert (await newest(scene)).closed is Reason.CAP
    windows_move_on(scene, 61)
    await scene.learn()
    assert (await newest(scene)).closed is Reason.CAP
    scene.sql("UPDATE policy_state SET learning_held = NULL")
    await scene.learn()

    assert (await newest(scene)).closed is None


async def test_a_cap_closes_while_episodes_are_settled_anew_and_the_new_ones_serve_after(scenes: Scenes) -> None:
    scene = await scenes(capped(decisions=12))
    await scene.play(*(row for i in range(10) for row in scene.turn(f"e{i}")))
    scene.worker.batch = 12
    reward = replace(SPEC.reward, weight_judge=0.1)
    await scene.change(lambda policy, change: replace_spec(policy, replace(policy.spec, reward=reward), change))

    scene.write(scene.decide("x1"), scene.decide("x2"))
    first = await scene.worker(scene.tenant)
    closed = (await newest(scene)).closed
    await scene.learn()

    assert first is not None
    assert (first.is_truncated, closed) == (True, Reason.CAP)
    assert (await newest(scene)).policy_version == 2
    assert scene.sql("SELECT policy_version FROM policy_state") == [(2,)]
    assert (await scene.rebuilt()).agrees


async def test_what_is_kept_for_the_caps_stays_small(scenes: Scenes) -> None:
    scene = await scenes(capped(decisions=10_000))
    now = datetime.now(UTC)

    await scene.play(*(scene.decide(f"e{i}", time=now - timedelta(seconds=20 * i)) for i in range(400)))

    (kept,) = scene.sql("SELECT jsonb_array_length(usage -> 'decisions') FROM policy_state")
    assert kept[0] <= 61
    assert len(await allocations(scene)) == 1
