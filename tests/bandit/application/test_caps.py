"""A cap on what is not the baseline closes exploring as part of the allocation, and gives way by itself."""

import itertools
from typing import Any

import pytest

from kedge_bandit.adapters.seals import HmacSeals
from kedge_bandit.application.rebuild import Rebuild
from kedge_bandit.application.replay import Replay
from kedge_bandit.domain.decision import Reason
from tests.bandit.application.capped_scene import DAILY, HOURLY, capped, costing, decided_by, windows_move_on
from tests.bandit.application.scene import SUPPORT, Row, Scenes
from tests.bandit.application.test_publish import newest


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
        point = await ledger.learning.lock(limit=10)

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
    scene = await scenes(capped(decisions=2))
    for part in range(3):
        for i in itertools.count():
            served = await newest(scene)
            await scene.play(decided_by(served, scene, f"e{part}-{i}"))
            if served.closed is not None:
                break
        windows_move_on(scene, 90)
        await scene.learn()

    found = await Replay(scene.ledgers).sample(scene.tenant, SUPPORT, size=1_000)

    assert {Reason.CAP, Reason.DRAWN} == {decision.reason for decision in scene.decisions.values()}
    assert [answer.detail for answer in found if not answer.matches] == []
    assert len(found) == len(scene.decisions)


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

    await Rebuild(scene.ledgers, HmacSeals({}))(scene.tenant, SUPPORT, verify_only=False)

    assert (await scene.rebuilt()).agrees
