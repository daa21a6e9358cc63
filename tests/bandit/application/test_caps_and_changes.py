"""Caps live with changes of the policy, with learning that is held, and with evidence that is settled anew."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kedge_bandit.domain.decision import Reason
from kedge_bandit.domain.lifecycle import replace_spec
from tests.bandit.application.capped_scene import HOURLY, capped, costing, windows_move_on
from tests.bandit.application.scene import SPEC, Scenes
from tests.bandit.application.test_publish import allocations, newest


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
