"""Frozen, belief stays exactly as it is; what arrived meanwhile waits for a person's choice."""

import pytest

from kedge_bandit.application.ports import OutcomeEvent
from kedge_bandit.domain.outcome import SignalKind, VetoReason
from kedge_bandit.domain.switch import QuarantineChoice
from tests.bandit.application.scene import LEAKED, Scene, near


def belief(scene: Scene) -> list[object]:
    return [
        scene.sql("SELECT bucket, action, n, s, as_of FROM cell ORDER BY 1, 2"),
        scene.sql("SELECT action, veto_episodes, vetoes, episodes, reward_sum FROM action_state ORDER BY 1"),
        scene.sql("SELECT count(*) FROM allocation"),
    ]


async def test_while_frozen_belief_and_allocations_stay_exactly(scene: Scene) -> None:
    await scene.play(*scene.turn("before"), *scene.turn("corrected"))
    await scene.freeze()
    before = belief(scene)

    await scene.play(*scene.turn("during"), scene.thumb("corrected", -1.0), *scene.turn("veto", trajectory=LEAKED))

    assert belief(scene) == before
    assert (await scene.episode("during")).weight_reason == "QUARANTINED"
    assert [(await scene.episode(name)).quarantined for name in ("before", "during", "corrected", "veto")] == [
        False,
        True,
        True,
        True,
    ]
    assert (await scene.rebuilt()).agrees


async def test_replay_folds_the_quarantined_evidence_at_its_decisions_policy_time(scene: Scene) -> None:
    await scene.play(*scene.turn("corrected"))
    await scene.freeze()
    await scene.play(*scene.turn("during"), scene.thumb("corrected", -1.0))

    await scene.unfreeze(QuarantineChoice.REPLAY)
    await scene.learn()

    during, corrected = await scene.episode("during"), await scene.episode("corrected")
    assert (during.weight, during.reward_version, during.quarantined) == (1.0, 2, False)
    assert (corrected.weight, corrected.reward_version) == (1.0, 2)
    assert scene.cells()["task=math", scene.key("large")] == near(2.0, 0.9 + 0.9 * 0.25 / 0.65)
    stopped = scene.sql("SELECT extract(epoch FROM change_time) FROM mode_change WHERE mode = 'FROZEN'")[0][0]
    assert during.policy_time == pytest.approx(float(stopped), abs=1e-3)
    assert (await scene.rebuilt()).agrees


async def test_drop_keeps_the_rows_with_weight_0_and_nothing_more_is_learned_of_them(scene: Scene) -> None:
    await scene.play(*scene.turn("corrected"))
    await scene.freeze()
    await scene.play(*scene.turn("during"), scene.thumb("corrected", -1.0))
    before = scene.cells()

    await scene.unfreeze(QuarantineChoice.DROP)
    await scene.play(scene.thumb("during", 1.0), scene.thumb("corrected", -1.0))

    during, corrected = await scene.episode("during"), await scene.episode("corrected")
    assert (during.weight, during.weight_reason, during.quarantined) == (0.0, "DROPPED", False)
    assert (corrected.weight, corrected.reward, corrected.quarantined) == (1.0, 0.9, False)
    assert scene.cells() == before
    assert (await scene.rebuilt()).agrees


async def test_a_veto_is_never_dropped_whether_it_comes_during_the_freeze_or_later(scene: Scene) -> None:
    await scene.play(*scene.turn("during"), *scene.turn("later"))
    await scene.freeze()
    await scene.play(leak(scene, "during"), scene.thumb("later", 1.0))
    await scene.unfreeze(QuarantineChoice.DROP)
    await scene.play(leak(scene, "later"))

    for name in ("during", "later"):
        found = await scene.episode(name)
        assert (found.state, found.reward, found.veto_reasons) == ("VETOED", 0.0, ("GUARDRAIL_PII",))
    assert scene.vetoes("large")[1] == pytest.approx(2.0, rel=1e-6)
    assert (await scene.rebuilt()).agrees


def leak(scene: Scene, episode: str) -> OutcomeEvent:
    return scene.outcome(episode, 0.0, signal=SignalKind.SAFETY, veto_reason=VetoReason.GUARDRAIL_PII)


async def test_keep_leaves_the_evidence_where_it_is_for_a_later_replay(scene: Scene) -> None:
    await scene.freeze()
    await scene.play(*scene.turn("during"))
    await scene.unfreeze(QuarantineChoice.KEEP)
    await scene.play(scene.thumb("during", 1.0), *scene.turn("after"))
    assert (await scene.episode("during")).quarantined
    assert (await scene.episode("after")).weight == 1.0

    await scene.freeze()
    await scene.unfreeze(QuarantineChoice.REPLAY)
    await scene.learn()

    assert (await scene.episode("during")).weight == 1.0


@pytest.mark.parametrize(
    ("choice", "reason"),
    [(QuarantineChoice.REPLAY, ""), (QuarantineChoice.DROP, "DROPPED"), (QuarantineChoice.KEEP, "QUARANTINED")],
)
async def test_rows_received_while_frozen_follow_the_choice_though_the_worker_comes_later(
    scene: Scene, choice: QuarantineChoice, reason: str
) -> None:
    await scene.freeze()
    scene.write(*scene.turn("during"))
    await scene.unfreeze(choice)

    await scene.learn()

    assert (await scene.episode("during")).weight_reason == reason


async def test_policy_time_does_not_run_while_frozen(scene: Scene) -> None:
    await scene.play(*scene.turn("before"))
    await scene.freeze()
    await scene.unfreeze(QuarantineChoice.KEEP)
    scene.sql("UPDATE mode_change SET change_time = change_time - interval '10 days' WHERE mode = 'FROZEN'")
    await scene.play(*scene.turn("after"))

    (after,) = scene.sql(
        "SELECT policy_time, extract(epoch FROM decision_time) FROM evidence WHERE episode_id = 'after'"
    )
    assert after[0] == pytest.approx(float(after[1]) - 10 * 86_400, abs=2.0)
