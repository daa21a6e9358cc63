"""A new reward spec, or new buckets, judges the last four half-lives anew from raw facts; until then the old serve."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kedge_bandit.domain.change import Change
from kedge_bandit.domain.context import CategoricalFeature, Context
from kedge_bandit.domain.lifecycle import Move, replace_spec
from kedge_bandit.domain.policy import Policy, PolicySpec
from tests.bandit.application.scene import LEAKED, SPEC, Scene, near

BY_SIZE = replace(SPEC, features=(CategoricalFeature("size", ("long", "short")),))


def put(spec: PolicySpec) -> Callable[[Policy, Change], Move]:
    return lambda policy, change: replace_spec(policy, spec, change)


async def test_a_new_reward_spec_judges_settled_episodes_anew_and_refolds_them(scene: Scene) -> None:
    await scene.play(*scene.turn("good"), *scene.turn("bad", value=0.0), *scene.turn("veto", trajectory=LEAKED))
    old = scene.sql("SELECT count(*) FROM allocation WHERE policy_version = 1")

    await scene.change(put(replace(SPEC, reward=replace(SPEC.reward, weight_human=0.2, weight_judge=0.1))))
    await scene.learn()

    assert (await scene.episode("good")).reward == pytest.approx(0.55)
    assert (await scene.episode("veto")).state == "VETOED"
    assert scene.cells()["task=math", scene.key("large")] == near(3.0, 0.55)
    assert (await scene.rebuilt()).agrees
    assert scene.sql("SELECT count(*) FROM audit_event WHERE verb = 'evidence.resettled'") == [(1,)]
    assert scene.sql("SELECT count(*) FROM allocation WHERE policy_version = 1") == old


async def test_nothing_is_published_until_all_of_them_are_judged_anew(scene: Scene) -> None:
    await scene.play(*(row for i in range(10) for row in scene.turn(f"e{i}")))
    scene.worker.batch = 12

    await scene.change(put(replace(SPEC, reward=replace(SPEC.reward, weight_judge=0.1))))

    published = []
    for _ in range(4):
        done = await scene.worker(scene.tenant)
        assert done is not None
        published.append(done.allocations)
    assert published == [0, 0, 0, 2]
    assert scene.sql("SELECT count(*) FROM evidence WHERE reward_version = 2") == [(10,)]


async def test_evidence_older_than_four_half_lives_keeps_its_reward(scene: Scene) -> None:
    months_ago = datetime.now(UTC) - timedelta(days=57)
    await scene.play(scene.decide("old", time=months_ago), scene.log("old", kind="SETTLE"), scene.outcome("old"))
    before = (await scene.episode("old")).reward_version

    await scene.change(put(replace(SPEC, reward=replace(SPEC.reward, weight_judge=0.1))))
    await scene.learn()

    assert (await scene.episode("old")).reward_version == before


async def test_new_features_put_the_evidence_into_the_buckets_of_its_stored_context(scene: Scene) -> None:
    long, short = Context({"size": "long"}), Context({"size": "short"})
    for name, context in (("a", long), ("b", long), ("c", short), ("d", None)):
        await scene.play(scene.decide(name, context=context), scene.log(name), scene.outcome(name))
    scene.write(scene.decide("in-flight", context=short))

    await scene.change(put(BY_SIZE))
    await scene.learn()
    await scene.play(scene.log("in-flight"), scene.outcome("in-flight"))

    cells = {bucket: sums for (bucket, _), sums in scene.cells().items()}
    assert cells["size=long"] == near(2.0, 1.8)
    assert cells["size=short"] == near(2.0, 1.8)
    assert cells["task=math"] == near(1.0, 0.9)
    assert (await scene.rebuilt()).agrees


async def test_a_stage_settles_nothing_anew(scene: Scene) -> None:
    await scene.play(*scene.turn("e1"))

    await scene.change(put(replace(SPEC, exploration=replace(SPEC.exploration, floor=0.5))))
    await scene.learn()

    assert (await scene.episode("e1")).reward_version == 1
