"""What a log says of a policy that was never served: from the record alone, only from rows that may count."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kedge_bandit.application.evaluate import EvaluatePolicy, Target
from kedge_bandit.domain.eligibility import Wish
from kedge_bandit.domain.errors import InvalidValue, UnknownAction
from kedge_bandit.domain.evaluation import Estimator, Evaluation
from kedge_bandit.domain.lifecycle import stage
from kedge_bandit.domain.mode import Mode
from tests.bandit.application.scene import SPEC, SUPPORT, Row, Scene, Scenes
from tests.bandit.application.test_replay import allocations, decide, play

EVEN = replace(SPEC, exploration=replace(SPEC.exploration, floor=0.6, uniform_slice=0.5))


async def of(scene: Scene, target: Target) -> tuple[Evaluation, dict[str, int]]:
    found = await EvaluatePolicy(scene.ledgers)(scene.tenant, SUPPORT, target, start=None, end=None)
    assert found.evaluation is not None
    return found.evaluation, dict(found.left_out)


@pytest.fixture
async def played(scenes: Scenes) -> Scene:
    """Give a tenant with 600 episodes under every kind of wish, and some of a frozen time."""
    scene = await scenes(EVEN)
    await play(scene, 600)
    await play(scene, 40, name="frozen", mode=Mode.FROZEN)
    return scene


async def test_values_are_those_that_the_record_gives_of_drawn_decisions_alone(played: Scene) -> None:
    small, large = played.key("small"), played.key("large")
    found, left_out = await of(played, Target({small: 0.5, large: 0.5}))
    by_reason = dict(played.sql("SELECT reason, count(*) FROM decision GROUP BY 1"))
    assert (found.episodes, left_out) == (by_reason.pop("DRAWN"), by_reason)
    ((weights, total),) = played.sql(
        "SELECT sum(0.5 / propensity), sum(0.5 / propensity * coalesce(e.reward, 0)) FROM decision d"
        " JOIN evidence e USING (policy, episode_id) WHERE reason = 'DRAWN' AND d.action = ANY(%s)",
        [small, large],
    )
    assert found.target.refusal == ""
    assert found.target.estimates[Estimator.SNIPS].value == pytest.approx(total / weights)
    assert found.target.mean_weight == pytest.approx(weights / found.episodes)
    assert found.lifts[Estimator.SNIPS].value == pytest.approx(
        found.target.estimates[Estimator.SNIPS].value - found.baseline.estimates[Estimator.SNIPS].value
    )

    everywhere, _ = await of(played, Target({small: 1.0}))
    named, _ = await of(played, Target({large: 1.0}, {"task=math": {small: 1.0}, "task=code": {small: 1.0}}))
    assert named.target.estimates[Estimator.DR].value == everywhere.target.estimates[Estimator.DR].value
    assert everywhere.lifts[Estimator.SNIPS].value == 0.0


async def test_what_a_caller_could_not_serve_counts_as_the_baseline(scenes: Scenes) -> None:
    """Half of the callers cannot serve the target: there its weights are the baseline's."""
    scene = await scenes(EVEN)
    served = await allocations(scene)
    small, large, other = (scene.key(arm) for arm in ("small", "large", "other"))
    rows: list[Row] = []
    for i in range(300):
        wish = Wish(available=(small, other, other) if i % 2 else (small, large))
        decide(scene, f"e{i}", "math", served, wish, Mode.APPLY)
        rows += [scene.decisions[f"e{i}"], scene.log(f"e{i}"), scene.outcome(f"e{i}", 1.0)]
    await scene.play(*rows)
    found, _ = await of(scene, Target({other: 1.0}))
    weights = [
        (decision.action == (other if other in (decision.available or ()) else small)) / decision.propensity
        for decision in scene.decisions.values()
    ]
    assert found.episodes == 300
    assert found.target.mean_weight == pytest.approx(sum(weights) / 300)


async def test_a_log_with_too_little_of_the_target_gives_no_number(scenes: Scenes) -> None:
    scene = await scenes(SPEC)
    await scene.change(lambda policy, change: stage(policy, change, floor=0.95))
    await scene.learn()
    await play(scene, 200)
    found, _ = await of(scene, Target({scene.key("large"): 1.0}))
    assert "effective sample size" in found.target.refusal
    assert not found.target.estimates
    assert not found.lifts


async def test_what_is_no_distribution_over_the_policys_actions_is_refused(scene: Scene) -> None:
    with pytest.raises(InvalidValue):
        await of(scene, Target({scene.key("small"): 0.7}))
    with pytest.raises(InvalidValue):
        await of(scene, Target({scene.key("small"): 1.5, scene.key("large"): -0.5}))
    with pytest.raises(UnknownAction):
        await of(scene, Target({"unheard@of": 1.0}))
    fine = {scene.key("small"): 1.0}
    for bucket in ("target", "task=math"):
        with pytest.raises(UnknownAction):
            await of(scene, Target({"unheard@of": 1.0}, {bucket: fine}))
        with pytest.raises(InvalidValue, match=bucket):
            await of(scene, Target(fine, {bucket: {scene.key("small"): 2.0, scene.key("large"): -1.0}}))


async def test_a_log_of_too_many_decisions_is_refused_also_where_few_of_them_count(scene: Scene) -> None:
    await play(scene, 30, name="frozen", mode=Mode.FROZEN)
    target = Target({scene.key("small"): 1.0})
    found = await EvaluatePolicy(scene.ledgers, most_read=30)(scene.tenant, SUPPORT, target, start=None, end=None)
    assert (found.evaluation, sum(found.left_out.values())) == (None, 30)
    with pytest.raises(InvalidValue, match="more than 29 decisions"):
        await EvaluatePolicy(scene.ledgers, most_read=29)(scene.tenant, SUPPORT, target, start=None, end=None)


async def test_a_time_without_episodes_gives_no_evaluation(scene: Scene) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    target = Target({scene.key("small"): 1.0})
    found = await EvaluatePolicy(scene.ledgers)(scene.tenant, SUPPORT, target, start=later, end=None)
    assert found.evaluation is None
    assert not found.left_out
