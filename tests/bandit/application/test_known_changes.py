"""A known change makes older evidence worth less, early or late; a successor starts from its predecessor's."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge_bandit.domain.dimension import Arm, Dimension
from kedge_bandit.domain.episode import LlmCall, Trajectory
from kedge_bandit.domain.evidence_log import EvidenceLog
from kedge_bandit.domain.known_change import CellChange, share
from kedge_bandit.domain.lifecycle import replace_spec, upsert_arm
from kedge_bandit.domain.outcome import SignalKind
from tests.bandit.application.scene import CLEAN, Row, Scene, near, route


def answered_by(model: str) -> Trajectory:
    return replace(CLEAN, llm_calls=(LlmCall(model_id=model, prompt_tokens=1, completion_tokens=1),))


def turns(scene: Scene, name: str, count: int, model: str, *, minutes_ago: float = 0.0) -> list[Row]:
    rows: list[Row] = []
    for i in range(count):
        episode = f"{name}{i}"
        time = datetime.now(UTC) - timedelta(minutes=minutes_ago)
        rows += [scene.decide(episode, time=time), scene.log(episode, answered_by(model)), scene.outcome(episode)]
    return rows


async def test_another_model_behind_a_route_leaves_40_episodes_of_its_evidence(scene: Scene) -> None:
    await scene.play(*turns(scene, "old", 100, "m-1", minutes_ago=10))

    await scene.play(*turns(scene, "new", 1, "m-2"))

    assert scene.cells()["task=math", scene.key("large")] == near(41.0, 41.0 * 0.9)
    assert scene.vetoes("large") == near(41.0, 0.0)
    assert (await scene.rebuilt()).agrees
    (event,) = scene.sql("SELECT verb, actor FROM audit_event WHERE verb = 'evidence.revalued'")
    assert event == ("evidence.revalued", "kedge")


async def test_a_row_that_comes_late_is_worth_less_too_and_one_decided_after_the_change_is_not(scene: Scene) -> None:
    await scene.play(*turns(scene, "old", 80, "m-1", minutes_ago=10))
    await scene.play(*turns(scene, "new", 1, "m-2", minutes_ago=5))

    await scene.play(*turns(scene, "late", 10, "m-1", minutes_ago=8), *turns(scene, "after", 3, "m-2"))

    assert scene.cells()["task=math", scene.key("large")][0] == pytest.approx(80 * 0.5 + 1 + 10 * 0.5 + 3, rel=1e-3)
    assert (await scene.rebuilt()).agrees


async def test_the_first_models_of_a_route_are_no_change(scene: Scene) -> None:
    await scene.play(*turns(scene, "old", 100, "m-1", minutes_ago=10))

    assert scene.sql("SELECT count(*) FROM known_change") == [(0,)]


async def judged(scene: Scene, name: str, count: int, judge: str, *, minutes_ago: float, asked: bool = True) -> None:
    rows: list[Row] = []
    for i in range(count):
        episode, time = f"{name}{i}", datetime.now(UTC) - timedelta(minutes=minutes_ago)
        score = scene.outcome(episode, 0.8, signal=SignalKind.JUDGE, judge_version=judge)
        rows += [scene.decide(episode, time=time, judge_requested=asked), scene.log(episode), score]
        rows.append(scene.outcome(episode))
    await scene.play(*rows)


async def test_another_judge_leaves_40_episodes_of_all_actions_evidence(scene: Scene) -> None:
    await scene.play(*scene.turn("other", "small"))
    await judged(scene, "old", 100, "judge-1", minutes_ago=10)
    await judged(scene, "unasked", 1, "judge-2", minutes_ago=5, asked=False)
    assert scene.sql("SELECT count(*) FROM known_change") == [(0,)]

    await judged(scene, "new", 1, "judge-2", minutes_ago=1)

    assert scene.sql("SELECT DISTINCT cause FROM known_change") == [("the judge is judge-2",)]
    assert scene.cells()["task=math", scene.key("large")][0] == pytest.approx(101 * 40 / 101 + 1, rel=1e-3)
    assert (await scene.rebuilt()).agrees


async def test_a_successor_starts_from_its_predecessors_evidence(scene: Scene) -> None:
    await scene.play(*turns(scene, "old", 80, "m-1"))
    heir = Arm(dimension=Dimension.MODEL_ROUTE, name="large-2", content="large-2", succeeds=route("large").arm_id)

    await scene.change(lambda policy, change: upsert_arm(policy, heir, change))
    await scene.learn()
    await scene.play(*scene.turn("more", "large-2"))

    cells = scene.cells()
    assert cells["task=math", heir.arm_id] == near(41.0, 41.0 * 0.9)
    assert cells["task=math", scene.key("large")] == near(80.0, 72.0)
    assert (await scene.rebuilt()).agrees


async def test_a_correction_of_a_predecessors_row_reaches_the_successor(scene: Scene) -> None:
    await scene.play(*turns(scene, "old", 80, "m-1"))
    heir = Arm(dimension=Dimension.MODEL_ROUTE, name="large-2", content="large-2", succeeds=route("large").arm_id)
    await scene.change(lambda policy, change: upsert_arm(policy, heir, change))
    await scene.learn()

    await scene.play(scene.log("old0", kind="CANCEL"))

    assert scene.cells()["task=math", heir.arm_id] == near(39.5, 39.5 * 0.9)
    assert (await scene.rebuilt()).agrees


async def test_a_new_half_life_folds_the_log_anew(scene: Scene) -> None:
    await scene.play(*turns(scene, "old", 4, "m-1", minutes_ago=60))

    await scene.change(
        lambda policy, change: replace_spec(policy, replace(policy.spec, half_life=timedelta(hours=1)), change)
    )
    await scene.learn()

    assert scene.cells()["task=math", scene.key("large")][0] == pytest.approx(2.0, rel=1e-2)
    assert (await scene.rebuilt()).agrees


CHANGES = st.lists(
    st.builds(
        CellChange,
        sequence=st.integers(1, 20),
        bucket=st.just("b"),
        action=st.sampled_from("xyz"),
        source=st.sampled_from("xyz"),
        policy_time=st.sampled_from([1.0, 2.0, 3.0, 4.0]),
        factor=st.floats(0, 1),
        cause=st.just(""),
    ),
    max_size=5,
)


@given(CHANGES, st.lists(st.tuples(st.sampled_from("xyz"), st.floats(0, 5)), min_size=1, max_size=12))
def test_the_log_weighs_every_row_as_the_definition_says(
    changes: list[CellChange], rows: list[tuple[str, float]]
) -> None:
    changes = [c for c in changes if c.source <= c.action]  # nobody succeeds a later action
    cells = tuple(("b", action) for action in "xyz")
    size = len(rows)
    log = EvidenceLog(
        cells=cells,
        sequence=np.arange(1, size + 1),
        cell=np.array(["xyz".index(action) for action, _ in rows]),
        episode=np.arange(size),
        policy_version=np.ones(size, dtype=np.int64),
        policy_time=np.array([time for _, time in rows]),
        weight=np.ones(size),
        reward=np.full(size, 0.5),
        vetoed=np.zeros(size, dtype=np.bool_),
        veto_weight=np.ones(size),
    ).with_changes(changes)

    n, s, _ = log.sums(as_of=5.0, half_life=timedelta(days=10_000), upto=None)

    for place, (_, action) in enumerate(log.cells):
        wanted = sum(share(changes, row_action=a, action=action, policy_time=t) for a, t in rows)
        assert n[place] == pytest.approx(wanted, rel=1e-6, abs=1e-9)
        assert s[place] == pytest.approx(wanted / 2, rel=1e-6, abs=1e-9)
