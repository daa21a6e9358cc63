"""Experiments on the demo's traffic: better and no worse on the holdout, a flattered reward, a split that broke."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from kedge_bandit.application.experiments import Experimenting
from kedge_bandit.application.govern import Order
from kedge_bandit.application.measure_experiment import measure
from kedge_bandit.application.read_kpis import ReadKpis
from kedge_bandit.domain.audit import Actor
from kedge_bandit.domain.decision import Reason
from kedge_bandit.domain.errors import IllegalTransition, InvalidValue
from kedge_bandit.domain.experiment import (
    Experiment,
    ExperimentExists,
    ExperimentMetric,
    ExperimentNotFound,
    ExperimentSide,
    ExperimentUnit,
    side_of,
)
from kedge_bandit.domain.experiment_report import ExperimentDecision, ExperimentReport
from kedge_bandit.entrypoints.retention import LocalClock
from kedge_demo.world import World
from kedge_demo.worlds import build_worlds
from tests.bandit.application.demo_scene import DemoTraffic, demo_spec
from tests.bandit.application.scene import SUPPORT, Scene, Scenes

FLOOR = 0.5
LEARN_FIRST, TURNS = 750, 1_250
ORDER = Order(Actor("person:https://login.example#ada"), "does what it learned help?")


@pytest.fixture(scope="module")
def world() -> World:
    return build_worlds()[1]


@dataclass(frozen=True)
class Stage:
    """A scene of the demo with its experiments."""

    scene: Scene
    traffic: DemoTraffic
    experiments: Experimenting

    async def create(self, experiment_id: str = "spring", **facts: object) -> Experiment:
        def draft(now: datetime) -> Experiment:
            usual = Experiment(
                experiment_id=experiment_id,
                policy=SUPPORT,
                unit=ExperimentUnit.EPISODE,
                start=now,
                end=now + timedelta(days=14),
                control_share=None,
                primary=(ExperimentMetric.REWARD,),
                guardrails=(ExperimentMetric.VETO_RATE,),
                because="",
                create_time=now,
            )
            return replace(usual, **facts)  # type: ignore[arg-type]  # a test's own choice of fields

        return await self.experiments.create(self.scene.tenant, draft, ORDER)

    async def shown(self, experiment_id: str = "spring") -> ExperimentReport:
        report = (await self.experiments.get(self.scene.tenant, experiment_id)).report
        assert report is not None
        return report

    async def check_holdout(self) -> None:
        """Put down what a divergence check would find: the lift on the world's true scores."""
        lift, error = await self.traffic.true_lift(600)
        self.scene.sql(
            "INSERT INTO divergence_check (policy, begin_time, check_time, policy_time, outcome, because, actor,"
            " learned_episodes, baseline_episodes, through, holdout_lift, holdout_error, holdout_version, pool, cases,"
            " answers, cost_usd, judged, readings)"
            " VALUES ('support', now(), now(), 0, 'COMPARED', '', 'kedge', 0, 0, 0,"
            " %s, %s, 'v', 600, 600, 1200, 0, array_fill(0.5, ARRAY[10]) || array_fill(1.0, ARRAY[30]), '[]')",
            lift,
            error,
        )


async def staged(scenes: Scenes, world: World) -> Stage:
    scene = await scenes(demo_spec(world, floor=FLOOR))
    return Stage(scene, DemoTraffic(scene, world), Experimenting(scene.ledgers, LocalClock()))


async def test_what_is_better_online_and_no_worse_on_the_holdout_is_promoted(scenes: Scenes, world: World) -> None:
    stage = await staged(scenes, world)
    await stage.traffic.play(LEARN_FIRST)
    await stage.create()
    await stage.traffic.play(TURNS)
    assert (await stage.shown()).decision is ExperimentDecision.HOLDOUT_UNKNOWN
    await stage.check_holdout()
    report = await stage.shown()
    [reward] = [finding for finding in report.findings if finding.is_primary]
    assert report.decision is ExperimentDecision.PROMOTE
    assert 0.0 < reward.learned.lower < reward.learned.value < 0.27  # the truth of the best action
    assert reward.served.value == pytest.approx(reward.learned.value * (1 - FLOOR))
    assert report.holdout is not None
    assert report.holdout.lower > 0.0
    assert report.ratio.p_value > 1e-3
    assert report.crossed == 0
    await check_key_figures(stage)


async def check_key_figures(stage: Stage) -> None:
    """Look at the same traffic as a person who steers it: the dear model is better, and people prefer it."""
    rows = stage.scene.sql("SELECT episode_id, action FROM decision ORDER BY decision_id")
    baseline = stage.traffic.world.action_keys[stage.traffic.world.baseline]
    dear = [episode for episode, action in rows if action != baseline]
    known = [episode for episode, action in rows if action == baseline]
    for number, (better, worse) in enumerate(zip(dear[:40], known[:40], strict=True)):
        stage.scene.sql(
            "INSERT INTO preference VALUES (%s, 'support', %s, %s, %s, 'person:x#ada', now())",
            f"pair-{number}",
            *((better, worse, "FIRST") if number % 2 else (worse, better, "SECOND" if number % 4 else "TIE")),
        )
    kpis = await ReadKpis(stage.experiments.ledgers, LocalClock())(stage.scene.tenant, SUPPORT)
    assert kpis.reward.learned.lower > 0.0
    assert kpis.people.pairs == 40
    assert kpis.people.value == pytest.approx(0.5 + 0.5 * 30 / 40)
    assert (kpis.judge.pairs, kpis.judge.ties, kpis.judge.value) == (40, 10, 0.875)
    assert kpis.regret is not None
    assert kpis.latency.learned.value > 0.0
    cheapest = kpis.pareto[0]
    assert (cheapest.action, cheapest.is_on_front) == (baseline, True) or cheapest.cost_usd <= kpis.pareto[1].cost_usd
    assert kpis.coverage["task_success"] == pytest.approx(0.5, abs=0.05)
    assert kpis.coverage["judge"] == 1.0
    assert 0.2 < kpis.non_baseline_share < 0.5
    assert kpis.advice == ()


async def test_a_reward_that_rises_while_the_holdout_falls_is_said_to_be_hacked(scenes: Scenes, world: World) -> None:
    stage = await staged(scenes, world)
    await stage.traffic.play(LEARN_FIRST, blind_to="planted-flatterer")
    await stage.create()
    await stage.traffic.play(TURNS, blind_to="planted-flatterer")
    await stage.check_holdout()
    report = await stage.shown()
    assert report.decision is ExperimentDecision.HACKED
    assert report.findings[0].learned.lower > 0.0
    assert report.holdout is not None
    assert report.holdout.upper < 0.0
    await check_that_it_stays_said(stage)


async def check_that_it_stays_said(stage: Stage) -> None:
    """End it, and another that was made only to be the newest: what was concluded is still what is read."""
    async with stage.experiments.ledgers.open(stage.scene.tenant) as ledger:
        assert await ledger.experiments.concluded(SUPPORT) is None
    hacked = await stage.experiments.end(stage.scene.tenant, "spring", ORDER)
    await stage.create("over-it")
    empty = await stage.experiments.end(stage.scene.tenant, "over-it", ORDER)
    assert empty.report is not None
    assert empty.report.decision is ExperimentDecision.TOO_FEW
    async with stage.experiments.ledgers.open(stage.scene.tenant) as ledger:
        assert await ledger.experiments.concluded(SUPPORT) == (hacked.experiment, hacked.report)


async def test_a_broken_split_shows_nothing_but_itself(scenes: Scenes, world: World) -> None:
    stage = await staged(scenes, world)
    await stage.create()
    await stage.traffic.play(TURNS, lost_every=2)
    await stage.check_holdout()
    report = await stage.shown()
    assert report.decision is ExperimentDecision.SPLIT_BROKEN
    assert report.ratio.p_value < 1e-3
    assert (report.findings, report.holdout) == ((), None)
    ended = await stage.experiments.end(stage.scene.tenant, "spring", ORDER)
    assert ended.report is not None
    assert ended.report.findings == ()


def controls(tenant: str, turns: int) -> frozenset[str]:
    """The sessions of so many turns that are on the baseline side, by their hash."""
    sessions = [f"s-{number}" for number in range(turns // 5)]
    return frozenset(s for s in sessions if side_of(tenant, "spring", s, 0.5) is ExperimentSide.BASELINE)


async def test_sessions_are_held_to_the_side_of_their_hash(scenes: Scenes, world: World) -> None:
    stage = await staged(scenes, world)
    await stage.traffic.play(LEARN_FIRST)
    await stage.create(unit=ExperimentUnit.SESSION, control_share=0.5)
    tenant = stage.scene.tenant
    control = controls(tenant, LEARN_FIRST + TURNS)
    assert await stage.experiments.assignment(tenant, "spring", next(iter(control))) is ExperimentSide.BASELINE
    await stage.traffic.play(TURNS, baseline_for=control)
    report = await stage.shown()
    reward = report.findings[0]
    assert report.crossed == 0
    assert 230 < report.ratio.learned + report.ratio.baseline <= TURNS // 5  # some sessions have no verifier
    assert reward.served.lower < reward.served.value
    assert reward.served.upper > 0.0
    assert reward.learned.value == pytest.approx(reward.served.value / (1 - FLOOR))


async def test_a_side_that_is_not_served_breaks_the_split(scenes: Scenes, world: World) -> None:
    stage = await staged(scenes, world)
    await stage.create(unit=ExperimentUnit.SESSION, control_share=0.5)
    await stage.traffic.play(500)
    report = await stage.shown()
    assert report.decision is ExperimentDecision.SPLIT_BROKEN
    assert report.crossed > 50


async def test_a_report_reads_so_many_decisions_and_says_so_and_figures_are_of_the_newest(
    scenes: Scenes, world: World
) -> None:
    stage = await staged(scenes, world)
    made = await stage.create()
    await stage.traffic.play(30)
    times = [time for (time,) in stage.scene.sql("SELECT decision_time FROM decision ORDER BY decision_id")]
    async with stage.experiments.ledgers.open(stage.scene.tenant) as ledger:
        whole = await measure(ledger, made, made.end, most_read=30)
        cut = await measure(ledger, made, made.end, most_read=10)
        assert (whole.is_truncated, cut.is_truncated) == (False, True)
        assert len(cut.assigned.unit) <= 10
        assert await ledger.experiments.newest_from(SUPPORT, made.start, 10) == times[-10]
        assert await ledger.experiments.newest_from(SUPPORT, made.start, 31) == made.start


async def test_a_report_is_frozen_when_it_ends_and_what_was_fixed_never_changes(scenes: Scenes, world: World) -> None:
    stage = await staged(scenes, world)
    tenant = stage.scene.tenant
    made = await stage.create()
    await stage.traffic.play(250)
    ended = await stage.experiments.end(tenant, "spring", ORDER)
    await stage.traffic.play(250)
    assert await stage.experiments.get(tenant, "spring") == ended
    assert ended.report is not None
    assert ended.report.decision is ExperimentDecision.TOO_FEW
    with pytest.raises(IllegalTransition):
        await stage.experiments.end(tenant, "spring", ORDER)
    with pytest.raises(psycopg.errors.CheckViolation, match="frozen"):
        stage.scene.sql("UPDATE experiment SET report = '{}'")
    with pytest.raises(ExperimentExists):
        await stage.create()
    with pytest.raises(ExperimentNotFound):
        await stage.experiments.get(tenant, "autumn")
    with pytest.raises(InvalidValue):
        await stage.create("late", start=datetime.now(UTC) - timedelta(days=1))
    listed = await stage.experiments.list(tenant, SUPPORT)
    assert listed == [ended]
    assert ended.experiment.experiment_id == made.experiment_id
    verbs = stage.scene.sql("SELECT verb FROM audit_event WHERE verb LIKE 'experiment.%' ORDER BY audit_sequence")
    assert verbs == [("experiment.created",), ("experiment.ended",)]


async def test_a_session_whose_policy_had_spent_its_budget_still_counts_on_its_side(
    scenes: Scenes, world: World
) -> None:
    stage = await staged(scenes, world)
    await stage.create(unit=ExperimentUnit.SESSION, control_share=0.5)
    await stage.traffic.play(100, closed_by=Reason.BUDGET, baseline_for=controls(stage.scene.tenant, 100))
    report = await stage.shown()
    assert report.episodes > 30
    assert report.ratio.learned > 0
    assert report.served_share == 0.0
    assert report.crossed == 0
