"""Episodes settle once, from facts that arrive in any order, and what must not be learned from is not."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kedge_bandit.domain.decision import Reason
from kedge_bandit.domain.dimension import Dimension
from kedge_bandit.domain.lifecycle import ArmPointer, retire_arm
from kedge_bandit.domain.outcome import SignalKind, VetoReason
from kedge_bandit.domain.reward_spec import SafetySource
from tests.bandit.application.scene import LEAKED, SPEC, UNGUARDED, Scene, Scenes, near


async def test_an_episode_with_a_verified_success_is_settled_and_learned_from(scene: Scene) -> None:
    await scene.play(*scene.turn("e1"))

    found = await scene.episode("e1")
    assert (found.state, found.reward, found.weight, found.weight_reason) == ("SETTLED", 0.9, 1.0, "")
    assert scene.cells() == {("task=math", scene.key("large")): near(1.0, 0.9)}


async def test_an_outcome_that_names_an_unknown_decision_waits_and_joins_it(scene: Scene) -> None:
    decision = scene.decide("e1")
    await scene.play(scene.outcome("e1", by_decision=True))
    assert await scene.counts() == {"unmatched": 1}

    await scene.play(decision, scene.log("e1"))

    assert (await scene.episode("e1")).reward == 0.9
    assert await scene.counts() == {"SETTLED": 1}


async def test_an_outcome_and_a_log_that_come_before_the_decision_row_join_it(scene: Scene) -> None:
    decision = scene.decide("e1")
    await scene.play(scene.outcome("e1"))
    await scene.play(scene.log("e1"))
    assert (await scene.episode("e1")).state == "PENDING"

    await scene.play(decision)

    assert (await scene.episode("e1")).reward == 0.9


async def test_an_outcome_that_only_names_its_decision_joins_an_episode_seen_before(scene: Scene) -> None:
    await scene.play(scene.decide("e1"), scene.log("e1"))

    await scene.play(scene.outcome("e1", by_decision=True))

    assert (await scene.episode("e1")).reward == 0.9


async def test_a_decision_that_nobody_spoke_of_is_no_episode(scene: Scene) -> None:
    await scene.play(scene.decide("e1"))

    assert scene.sql("SELECT count(*) FROM episode") == [(0,)]


async def test_the_same_rows_sent_again_change_nothing(scene: Scene) -> None:
    turn = scene.turn("e1")
    await scene.play(*turn)
    before = scene.cells()

    await scene.play(*turn[1:])

    assert scene.cells() == before
    assert (await scene.episode("e1")).reward_version == 1


async def test_a_late_thumb_replaces_the_reward_and_the_state_refolds_exactly(scene: Scene) -> None:
    await scene.play(*scene.turn("e1"), *scene.turn("e2", value=0.0))

    await scene.play(scene.thumb("e1", -1.0))

    found = await scene.episode("e1")
    assert found.reward_version == 2
    assert found.reward == pytest.approx(0.9 * 0.25 / 0.65)
    assert scene.cells()["task=math", scene.key("large")] == near(2.0, 0.9 * 0.25 / 0.65)
    assert (await scene.rebuilt()).max_error <= 1e-9


async def test_a_later_thumb_up_does_not_lift_a_veto(scene: Scene) -> None:
    await scene.play(*scene.turn("e1", trajectory=LEAKED))

    await scene.play(scene.thumb("e1", 1.0))

    found = await scene.episode("e1")
    assert (found.state, found.reward, found.veto_reasons) == ("VETOED", 0.0, (VetoReason.GUARDRAIL_PII,))
    assert scene.vetoes("large") == near(1.0, 1.0)


async def test_a_veto_applies_whenever_it_comes(scene: Scene) -> None:
    await scene.play(*scene.turn("e1"))

    tripped = scene.outcome("e1", 0.0, signal=SignalKind.SAFETY, veto_reason=VetoReason.TOOL_BLOCKED)
    await scene.play(tripped)

    assert (await scene.episode("e1")).state == "VETOED"
    assert scene.vetoes("large") == near(1.0, 1.0)
    assert await scene.counts() == {"VETOED": 1}


async def test_a_cancelled_episode_is_not_scored(scene: Scene) -> None:
    await scene.play(*scene.turn("e1"), scene.log("e1", kind="CANCEL"))

    assert (await scene.episode("e1")).state == "CANCELLED"
    assert scene.cells() == {}


async def test_an_episode_cancelled_after_it_was_learned_from_is_taken_back(scene: Scene) -> None:
    await scene.play(*scene.turn("e1"))

    await scene.play(scene.log("e1", kind="CANCEL"))

    assert scene.cells()["task=math", scene.key("large")] == (0.0, 0.0)
    assert await scene.counts() == {"CANCELLED": 1}
    assert (await scene.rebuilt()).agrees


async def test_a_judge_alone_is_shown_and_not_learned_from(scene: Scene) -> None:
    decision = scene.decide("e1", judge_requested=True)

    await scene.play(decision, scene.log("e1"), scene.outcome("e1", 0.9, signal=SignalKind.JUDGE))

    found = await scene.episode("e1")
    assert (found.state, found.weight, found.weight_reason) == ("SETTLED", 0.0, "JUDGE_ONLY")
    assert found.reward is not None
    assert scene.cells() == {}
    assert scene.vetoes("large") == near(1.0, 0.0)


async def test_an_episode_without_any_signal_is_unscored_and_still_counts_as_clean(scene: Scene) -> None:
    await scene.play(scene.decide("e1"), scene.log("e1"))

    found = await scene.episode("e1")
    assert (found.state, found.reward, found.weight_reason) == ("UNSCORED", None, "UNSCORED")
    assert scene.vetoes("large") == near(1.0, 0.0)


async def test_an_episode_without_a_safety_verdict_is_not_learned_from(scene: Scene) -> None:
    await scene.play(*scene.turn("e1", trajectory=UNGUARDED))
    assert await scene.counts() == {"SETTLED": 1, "no_safety_verdict": 1}
    assert (await scene.episode("e1")).weight_reason == "NO_SAFETY_VERDICT"

    await scene.play(scene.outcome("e1", 1.0, signal=SignalKind.SAFETY))

    assert (await scene.episode("e1")).weight == 1.0
    assert await scene.counts() == {"SETTLED": 1}


async def test_a_tenant_without_guardrails_learns_without_verdicts(scenes: Scenes) -> None:
    scene = await scenes(replace(SPEC, reward=replace(SPEC.reward, safety_source=SafetySource.NONE)))

    await scene.play(*scene.turn("e1", trajectory=UNGUARDED))

    assert (await scene.episode("e1")).weight == 1.0


@pytest.mark.parametrize("reason", [Reason.PINNED, Reason.STALE, Reason.FROZEN, Reason.ERROR, Reason.TOOL_LOOP])
async def test_what_the_policy_did_not_choose_is_stored_and_not_learned_from(scene: Scene, reason: Reason) -> None:
    await scene.play(scene.decide("e1", reason=reason), scene.log("e1"), scene.outcome("e1"))

    found = await scene.episode("e1")
    assert (found.reward, found.weight, found.weight_reason) == (0.9, 0.0, reason)
    assert scene.vetoes("large") == (0.0, 0.0)


async def test_an_episode_that_served_another_action_is_stored_and_not_learned_from(scene: Scene) -> None:
    await scene.play(scene.decide("e1"), scene.log("e1", served="other"), scene.outcome("e1"))

    assert (await scene.episode("e1")).weight_reason == "OTHER_ACTION_SERVED"
    assert scene.cells() == {}


async def test_an_episode_with_two_different_actions_is_taken_back_when_the_second_is_seen(scene: Scene) -> None:
    await scene.play(*scene.turn("e1"))

    await scene.play(scene.decide("e1", "other"))

    assert (await scene.episode("e1")).weight_reason == "SUPERSEDED"
    assert scene.cells()["task=math", scene.key("large")] == (0.0, 0.0)


async def test_a_second_decision_for_the_same_action_does_no_harm(scene: Scene) -> None:
    await scene.play(scene.decide("e1"))
    await scene.play(scene.decide("e1"), scene.log("e1"), scene.outcome("e1"))

    assert (await scene.episode("e1")).weight == 1.0


async def test_a_late_outcome_of_a_retired_arm_is_kept_against_its_tombstone(scene: Scene) -> None:
    scene.write(*scene.turn("e1"))
    await scene.change(lambda policy, change: retire_arm(policy, ArmPointer(Dimension.MODEL_ROUTE, "large"), change))

    await scene.learn()

    found = await scene.episode("e1")
    assert (found.reward, found.weight_reason) == (0.9, "RETIRED_ARM")
    assert scene.sql("SELECT action FROM evidence") == [(scene.key("large"),)]


async def test_an_outcome_after_the_amendment_window_is_late_and_not_learned_from(scene: Scene) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=31)
    await scene.play(scene.decide("e1", time=long_ago), scene.log("e1"), scene.thumb("e1", 1.0))

    assert (await scene.counts())["late"] == 1


async def test_an_open_episode_falls_due_by_itself(scene: Scene) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=31)
    await scene.play(scene.decide("e1", time=long_ago), scene.log("e1", kind="ACTIVATE"))

    assert (await scene.episode("e1")).state == "UNSCORED"
    assert scene.sql("SELECT count(*) FROM episode WHERE due_time IS NOT NULL") == [(0,)]


async def test_every_logged_episode_is_in_exactly_one_state(scene: Scene) -> None:
    rows = [
        *scene.turn("settled"),
        *scene.turn("vetoed", trajectory=LEAKED),
        *(scene.decide("unscored"), scene.log("unscored")),
        *(scene.decide("open"), scene.log("open", replace(UNGUARDED, terminated=False))),
        *(scene.decide("cancelled"), scene.log("cancelled"), scene.log("cancelled", kind="CANCEL")),
        *(scene.decide("unlogged"), scene.outcome("unlogged")),
    ]
    for row in rows:
        await scene.play(row)

    assert await scene.counts() == {"SETTLED": 1, "VETOED": 1, "UNSCORED": 1, "PENDING": 1, "CANCELLED": 1}
    assert (await scene.rebuilt()).unaccounted == 0


async def test_settle_episode_settles_at_once_what_would_still_wait(scenes: Scenes) -> None:
    scene = await scenes(
        replace(
            SPEC,
            settlement=replace(
                SPEC.settlement,
                expects_task_success=True,
                windows=replace(SPEC.settlement.windows, task_success=timedelta(minutes=10)),
            ),
        )
    )
    await scene.play(scene.decide("e1"), scene.log("e1"), scene.thumb("e1", 1.0))
    assert (await scene.episode("e1")).state == "PENDING"

    await scene.play(scene.log("e1", kind="SETTLE"))

    assert (await scene.episode("e1")).state == "SETTLED"
