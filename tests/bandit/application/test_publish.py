"""What was learned is published: at once where a person or safety asks, else as evidence grows, once a second."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from kedge_bandit.application.learn import Learn
from kedge_bandit.domain.decision import Reason
from kedge_bandit.domain.dimension import Dimension
from kedge_bandit.domain.lifecycle import ArmPointer, retire_arm, stage
from kedge_bandit.domain.published import COLD, Allocation
from kedge_bandit.domain.switch import QuarantineChoice
from tests.bandit.application.scene import LEAKED, SPEC, SUPPORT, UNGUARDED, Scene, Scenes

MATH = "task=math"
GUARDED = replace(SPEC, exploration=replace(SPEC.exploration, budget_off=False))


async def allocations(scene: Scene) -> list[Allocation]:
    async with scene.ledgers.open(scene.tenant) as ledger:
        return [allocation async for allocation in ledger.decisions.allocations(SUPPORT)]


async def newest(scene: Scene, bucket: str = COLD) -> Allocation:
    return [allocation for allocation in await allocations(scene) if allocation.bucket == bucket][-1]


def a_second_passes(scene: Scene) -> None:
    scene.sql("UPDATE bucket_state SET publish_time = publish_time - interval '2 seconds'")


def was_published_just_now(scene: Scene, bucket: str) -> None:
    """Keep a bucket's last second from passing, however slow the machine is."""
    scene.sql(f"UPDATE bucket_state SET publish_time = publish_time + interval '1 hour' WHERE bucket = '{bucket}'")


def many(scene: Scene, count: int, arm: str, *, name: str = "e", **facts: Any) -> list[Any]:
    return [row for i in range(count) for row in scene.turn(f"{name}-{arm}-{i}", arm, **facts)]


async def test_a_new_policy_publishes_its_cold_vector_at_once(scene: Scene) -> None:
    (cold,) = await allocations(scene)

    assert (cold.bucket, cold.version, cold.policy_version, cold.evidence_sequence) == (COLD, 1, 1, 0)
    assert sum(cold.p) == pytest.approx(1.0, abs=1e-9)
    assert cold.p[cold.baseline] >= cold.floor


async def test_evidence_of_a_bucket_renews_its_vector_and_the_cold_one(scene: Scene) -> None:
    a_second_passes(scene)

    await scene.play(*many(scene, 20, "large", value=1.0), *many(scene, 20, "other", value=0.0))

    math = await newest(scene, MATH)
    assert math.q[math.index[scene.key("large")]] > 0.8
    assert (await newest(scene)).version > 1
    assert (math.evidence_sequence, len(math.evidence_hash)) == (40, 64)


async def test_evidence_renews_a_bucket_at_most_once_a_second(scene: Scene) -> None:
    await scene.play(*scene.turn("e1"))
    was_published_just_now(scene, MATH)
    await scene.play(*scene.turn("e2"))

    assert [allocation.bucket for allocation in await allocations(scene)].count(MATH) == 1


async def test_a_bucket_is_not_renewed_before_its_evidence_grew_by_2_percent(scene: Scene) -> None:
    await scene.play(*many(scene, 120, "large"))
    a_second_passes(scene)

    await scene.play(*scene.turn("one"))
    assert [allocation.bucket for allocation in await allocations(scene)].count(MATH) == 1

    await scene.play(*scene.turn("two"), *scene.turn("three"))
    assert [allocation.bucket for allocation in await allocations(scene)].count(MATH) == 2


async def test_a_staged_floor_renews_every_bucket_at_once(scene: Scene) -> None:
    await scene.play(*scene.turn("e1"))

    await scene.change(lambda policy, change: stage(policy, change, floor=0.05))
    await scene.learn()

    for bucket in (COLD, MATH):
        assert ((await newest(scene, bucket)).floor, (await newest(scene, bucket)).policy_version) == (0.05, 2)


async def test_an_arm_that_breaks_rules_too_often_is_excluded_everywhere_and_audited(scene: Scene) -> None:
    await scene.play(*scene.turn("code"))

    await scene.play(*many(scene, 30, "large"), *many(scene, 10, "large", name="leak", trajectory=LEAKED))

    for bucket in (COLD, MATH):
        allocation = await newest(scene, bucket)
        place = allocation.index[scene.key("large")]
        assert (allocation.eligible[place], allocation.p[place], allocation.q[place]) == (False, 0.0, 0.0)
    verbs = scene.sql("SELECT verb, actor FROM audit_event ORDER BY audit_sequence")
    assert verbs[-1] == ("arm.excluded", "kedge")


async def test_an_excluded_arm_comes_back_when_decay_brings_the_belief_under_the_lower_bound(scene: Scene) -> None:
    await scene.play(*many(scene, 10, "large", trajectory=LEAKED))
    assert not all((await newest(scene)).eligible)
    half_year = 180 * 86_400
    scene.sql("UPDATE action_state SET as_of = as_of - %s", half_year)

    await scene.learn()

    assert (await newest(scene)).eligible == (True, True, True)
    assert scene.sql("SELECT verb FROM audit_event ORDER BY audit_sequence DESC LIMIT 1") == [("arm.readmitted",)]


async def test_the_baseline_is_never_excluded(scene: Scene) -> None:
    await scene.play(*many(scene, 40, "small", trajectory=LEAKED))

    assert (await newest(scene)).eligible[(await newest(scene)).baseline]


async def test_until_the_budget_allows_it_the_baseline_alone_is_published(scenes: Scenes) -> None:
    scene = await scenes(GUARDED)
    cold = await newest(scene)
    assert (cold.closed, cold.p[cold.baseline]) == (Reason.BUDGET, 1.0)

    a_second_passes(scene)
    await scene.play(*many(scene, 200, "small", value=1.0))
    assert (await newest(scene)).closed is None

    await scene.play(*many(scene, 60, "large", value=0.0))
    assert (await newest(scene)).closed is Reason.BUDGET
    assert (await newest(scene, MATH)).closed is Reason.BUDGET


async def test_a_budget_that_opens_again_waits_its_turn_and_nothing_untrue_is_published_meanwhile(
    scenes: Scenes,
) -> None:
    scene = await scenes(GUARDED)
    await scene.play(*many(scene, 40, "small", name="good", value=1.0))
    a_second_passes(scene)
    await scene.play(*many(scene, 60, "large", name="bad", value=0.0))
    assert (await newest(scene)).closed is Reason.BUDGET
    before = len(await allocations(scene))

    # Open by the evidence, and a bucket has grown that may be renewed; but the cold vector may not yet.
    a_second_passes(scene)
    was_published_just_now(scene, COLD)
    await scene.play(*many(scene, 2_000, "small", name="more", value=1.0))

    assert len(await allocations(scene)) == before
    scene.sql("UPDATE bucket_state SET publish_time = publish_time - interval '2 hours'")
    await scene.play(*scene.turn("last", "small", value=1.0))
    assert (await newest(scene)).closed is None


async def test_frozen_nothing_is_published_and_afterwards_everything_under_a_new_epoch(scene: Scene) -> None:
    await scene.play(*scene.turn("e1"))
    before, epoch = len(await allocations(scene)), (await newest(scene)).seed_epoch
    await scene.freeze()
    await scene.play(*many(scene, 30, "large"))
    assert len(await allocations(scene)) == before

    await scene.unfreeze(QuarantineChoice.REPLAY)
    await scene.learn()

    assert {(await newest(scene, bucket)).seed_epoch for bucket in (COLD, MATH)} == {epoch + 1}


async def test_too_many_missing_safety_verdicts_hold_learning_until_they_come(scene: Scene) -> None:
    await scene.play(*many(scene, 11, "large", trajectory=UNGUARDED))
    before = len(await allocations(scene))
    assert scene.sql("SELECT learning_held FROM policy_state") == [("NO_SAFETY_VERDICT",)]

    a_second_passes(scene)
    await scene.play(*many(scene, 20, "other"))
    assert len(await allocations(scene)) == before
    assert (await scene.rebuilt()).agrees

    await scene.play(*many(scene, 1000, "small"))
    assert scene.sql("SELECT learning_held FROM policy_state") == [(None,)]
    verbs = [verb for (verb,) in scene.sql("SELECT verb FROM audit_event ORDER BY audit_sequence")]
    assert verbs[-2:] == ["learning.held", "learning.resumed"]


async def test_while_learning_is_held_an_unsafe_arm_is_still_excluded(scene: Scene) -> None:
    await scene.play(*many(scene, 11, "large", trajectory=UNGUARDED))

    await scene.play(*many(scene, 20, "other", trajectory=LEAKED))

    allocation = await newest(scene)
    assert not allocation.eligible[allocation.index[scene.key("other")]]


async def test_swapped_propensities_hold_learning_until_a_person_clears_it(scene: Scene) -> None:
    cold = await newest(scene)
    rare = min(range(3), key=lambda i: cold.p[i])
    for i in range(300):
        decision = scene.decide(f"e{i}", is_randomised=True, allocation_version=cold.version)
        scene.write(replace(decision, action=cold.actions[rare], propensity=cold.p[rare]))

    done = await scene.learn()

    assert scene.sql("SELECT learning_held FROM policy_state") == [("SELF_CHECK",)]
    assert done.p_values[SUPPORT] < 1e-5
    async with scene.ledgers.open(scene.tenant) as ledger:
        await ledger.learning.clear_hold(SUPPORT)
    await scene.play(*scene.turn("after"))
    assert scene.sql("SELECT learning_held FROM policy_state") == [(None,)]


async def test_clearing_a_hold_waits_for_the_pass_that_would_write_it_back(scene: Scene) -> None:
    async def clear() -> None:
        async with scene.ledgers.open(scene.tenant) as ledger:
            await ledger.learning.clear_hold(SUPPORT)

    async with scene.ledgers.open(scene.tenant) as ledger:
        await ledger.learning.lock()
        clearing = asyncio.create_task(clear())
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        while scene.sql(waiting) == [(0,)]:
            await asyncio.wait({clearing}, timeout=0.02)
        assert not clearing.done()

    await clearing


async def test_replicas_are_told_when_allocations_change_and_only_then(scene: Scene) -> None:
    heard = scene.listen("kedge_allocations")
    await scene.play(*scene.turn("e1"))
    assert heard() == [scene.tenant]

    await scene.play(scene.decide("e2"), scene.log("e2"))
    assert heard() == []


async def test_a_retired_arm_leaves_the_allocation(scene: Scene) -> None:
    await scene.change(lambda policy, change: retire_arm(policy, ArmPointer(Dimension.MODEL_ROUTE, "large"), change))
    await scene.learn()

    assert scene.key("large") not in (await newest(scene)).actions


async def test_a_policy_whose_learner_is_not_registered_publishes_nothing_and_stops_nobody_else(scene: Scene) -> None:
    await scene.play(*scene.turn("e1"))
    before = len(await allocations(scene))
    a_second_passes(scene)
    scene.write(*scene.turn("e2"))

    passed = await Learn(ledgers=scene.ledgers, learners={})(scene.tenant)

    assert passed is not None
    assert passed.failures == 1
    assert len(await allocations(scene)) == before
    assert (await scene.counts())["SETTLED"] == 2
