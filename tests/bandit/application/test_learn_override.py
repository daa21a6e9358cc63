"""Stopped from outside the database, a policy's belief stays; what would move it waits until the stop is gone."""

from kedge_bandit.application.learn import Learn
from kedge_bandit.domain.decision import Reason
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.settlement import EXPIRY
from tests.bandit.application.scene import LEAKED, SUPPORT, Scene


class Outside:
    """A mode from outside, as a test states it."""

    def __init__(self, mode: Mode) -> None:
        self.mode = mode

    def __call__(self, _tenant: TenantId, policy: PolicyName) -> Mode:
        return self.mode if policy == SUPPORT else Mode.APPLY


def with_outside(scene: Scene, mode: Mode) -> Outside:
    outside = Outside(mode)
    scene.worker = Learn(ledgers=scene.ledgers, override=outside)
    return outside


def belief(scene: Scene) -> list[object]:
    return [scene.sql("SELECT * FROM cell"), scene.sql("SELECT * FROM action_state"), scene.sql("TABLE allocation")]


def a_while_passes(scene: Scene) -> None:
    scene.sql("UPDATE episode SET due_time = due_time - %s", EXPIRY)


async def test_while_it_lasts_belief_and_allocations_stay_and_afterwards_everything_is_learned_once(
    scene: Scene,
) -> None:
    await scene.play(*scene.turn("before"), *scene.turn("corrected"))
    outside, before = with_outside(scene, Mode.FROZEN), belief(scene)

    await scene.play(*scene.turn("during"), scene.thumb("corrected", -1.0), *scene.turn("veto", trajectory=LEAKED))
    a_while_passes(scene)
    await scene.learn()
    assert belief(scene) == before

    outside.mode = Mode.APPLY
    a_while_passes(scene)
    await scene.learn()
    assert [(await scene.episode(name)).weight for name in ("during", "corrected", "veto")] == [1.0, 1.0, 1.0]
    assert [(await scene.episode(name)).reward_version for name in ("during", "corrected")] == [1, 2]
    assert (await scene.episode("veto")).state == "VETOED"
    assert (await scene.rebuilt()).agrees


async def test_an_episode_decided_under_it_settles_at_once_and_is_not_learned(scene: Scene) -> None:
    with_outside(scene, Mode.FROZEN)
    frozen = scene.decide("frozen", mode=Mode.FROZEN, reason=Reason.FROZEN)

    await scene.play(frozen, scene.log("frozen"), scene.outcome("frozen"))

    settled = await scene.episode("frozen")
    assert (settled.state, settled.weight, settled.weight_reason) == ("SETTLED", 0.0, "FROZEN")


async def test_what_a_stop_in_the_database_quarantines_is_quarantined_under_one_from_outside_too(scene: Scene) -> None:
    with_outside(scene, Mode.FROZEN)
    await scene.freeze()

    await scene.play(*scene.turn("during"))

    assert (await scene.episode("during")).quarantined
