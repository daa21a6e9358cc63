"""A decision can be made again from the database alone, and a record that was tampered with does not go unseen."""

import random
from dataclasses import replace

import pytest

from kedge_bandit.application.replay import Replay, Replayed
from kedge_bandit.domain.decision import Decision
from kedge_bandit.domain.draw import uniform
from kedge_bandit.domain.eligibility import PLAIN, Wish, choose
from kedge_bandit.domain.learners import LEARNERS
from kedge_bandit.domain.lifecycle import stage
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.published import COLD, Allocation
from kedge_bandit.domain.switch import QuarantineChoice
from tests.bandit.application.scene import CLEAN, LEAKED, SPEC, SUPPORT, Row, Scene, Scenes

TRUTH = {"small": 0.5, "large": 0.8, "other": 0.9}


async def allocations(scene: Scene) -> dict[str, Allocation]:
    async with scene.ledgers.open(scene.tenant) as ledger:
        return {a.bucket: a async for a in ledger.decisions.allocations(SUPPORT)}


def decide(scene: Scene, episode: str, task: str, served: dict[str, Allocation], wish: Wish, mode: Mode) -> Decision:
    """Decide as a replica does."""
    allocation = served.get(f"task={task}", served[COLD])
    u = uniform(scene.tenant, SUPPORT, episode, allocation.seed_epoch, allocation.version)
    choice = choose(allocation, wish, mode, u)
    return scene.decide(
        episode,
        action=allocation.actions[choice.index],
        bucket=f"task={task}",
        propensity=choice.propensity,
        reason=choice.reason,
        is_randomised=choice.is_randomised,
        available=wish.available or None,
        policy_version=allocation.policy_version,
        allocation_version=allocation.version,
        seed_epoch=allocation.seed_epoch,
        mode=mode,
    )


async def play(scene: Scene, count: int, *, name: str = "e", mode: Mode = Mode.APPLY) -> None:
    """Play episodes of two tasks with every kind of wish; one arm leaks now and then."""
    rng = random.Random(name)
    keys = {scene.key(arm): arm for arm in TRUTH}
    wishes = (PLAIN, PLAIN, PLAIN, Wish(best=True), Wish(no_exploration=True), Wish(pinned=scene.key("other")))
    for start in range(0, count, 40):
        served = await allocations(scene)
        rows: list[Row] = []
        for i in range(start, min(count, start + 40)):
            wish = rng.choice((*wishes, Wish(available=(scene.key("small"), scene.key("large")))))
            decision = decide(scene, f"{name}{i}", rng.choice(["math", "code"]), served, wish, mode)
            arm = keys[decision.action]
            trajectory = LEAKED if arm == "other" and rng.random() < 0.2 else CLEAN
            success = float(rng.random() < TRUTH[arm])
            rows += [decision, scene.log(f"{name}{i}", trajectory), scene.outcome(f"{name}{i}", success)]
        scene.write(*rows)
        scene.sql("UPDATE bucket_state SET publish_time = publish_time - interval '2 seconds'")
        await scene.learn()


async def replayed(scene: Scene) -> list[Replayed]:
    return await Replay(scene.ledgers).sample(scene.tenant, SUPPORT, size=1_000)


@pytest.mark.parametrize("learner", ["auto", *LEARNERS])
async def test_decisions_replay_under_every_learner(scenes: Scenes, learner: str) -> None:
    scene = await scenes(replace(SPEC, learner=learner))
    await play(scene, 120)
    await scene.play(*(scene.thumb(f"e{i}", -1.0) for i in range(0, 120, 9)))
    await play(scene, 40, name="f")

    found = await replayed(scene)

    assert len(found) == 160
    assert [each.detail for each in found if not each.matches] == []
    assert max(each.vector_error for each in found) <= 1e-9


async def test_every_decision_replays_through_changes_freezes_and_corrections(scenes: Scenes) -> None:
    scene = await scenes(replace(SPEC, exploration=replace(SPEC.exploration, budget_off=False)))
    await play(scene, 160, name="a")
    await scene.play(*(scene.thumb(f"a{i}", -1.0) for i in range(0, 160, 9)))
    await scene.change(lambda policy, change: stage(policy, change, floor=0.05))
    await scene.learn()
    await play(scene, 120, name="b")
    await scene.freeze()
    await play(scene, 40, name="c", mode=Mode.FROZEN)
    await scene.unfreeze(QuarantineChoice.REPLAY)
    await scene.learn()
    await play(scene, 80, name="d")

    found = await replayed(scene)

    assert len(found) == 400
    assert [answer.detail for answer in found if not answer.matches] == []
    assert max(answer.vector_error for answer in found) <= 1e-9
    (allocated,) = scene.sql("SELECT count(DISTINCT allocation_version) FROM decision")
    assert allocated[0] > 10


async def test_an_episode_that_was_decided_without_an_allocation_replays_as_the_baseline(scene: Scene) -> None:
    scene.write(scene.decide("e1", "small", allocation_version=0, propensity=1.0))

    (answer,) = await replayed(scene)

    assert answer.matches


@pytest.mark.parametrize(
    ("tampering", "detail"),
    [
        ("UPDATE allocation SET p = ARRAY[p[2], p[1], p[3]]", "vector differs"),
        ("UPDATE decision SET propensity = propensity * 0.999", "vector differs"),
        ("UPDATE evidence SET reward = 1 - reward", "vector differs"),
        ("UPDATE allocation SET eligible = ARRAY[false, true, true]", "ineligible"),
        ("UPDATE allocation SET closed = 'BUDGET'", "is open"),
        ("UPDATE decision SET seed_epoch = seed_epoch + 1", "seed epoch"),
    ],
)
async def test_a_tampered_record_does_not_replay(scene: Scene, tampering: str, detail: str) -> None:
    await play(scene, 80)
    scene.sql(tampering)

    assert any(detail in answer.detail for answer in await replayed(scene))
