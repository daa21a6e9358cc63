"""Pages about the record, over a server that answers what a test says: sums are true, what is hidden stays hidden."""

import itertools
import math
import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge.bandit.v1 import (
    audit_event_pb2,
    episode_pb2,
    experiment_pb2,
    experiment_service_pb2,
    governance_service_pb2,
    policy_pb2,
    policy_service_pb2,
)
from kedge_bandit.adapters.console import curves, over_time, reward_parts
from kedge_bandit.adapters.console.curves import Curve, Mark, Point
from kedge_bandit.adapters.grpc.wire_policy import reward_message
from kedge_bandit.application.settle import note_of
from kedge_bandit.domain.episode import SafetyVerdict
from kedge_bandit.domain.reward import Reward, Signals, reward
from kedge_bandit.domain.reward_spec import RewardSpec
from tests.bandit.adapters.console.test_proposal_pages import POLICY, page

SPEC = RewardSpec(cost_reference_usd=0.01, latency_reference_ms=1000.0)
START = datetime(2026, 5, 1, tzinfo=UTC)
share = st.floats(0.0, 1.0)


@given(
    human=st.sampled_from([None, -1.0, 0.0, 1.0]),
    judge=st.none() | share,
    success=st.none() | share,
    cost=st.none() | st.floats(0.0, 0.1),
    latency=st.none() | st.floats(0.0, 5000.0),
)
def test_the_steps_of_a_reward_add_up_to_it(
    human: float | None, judge: float | None, success: float | None, cost: float | None, latency: float | None
) -> None:
    signals = Signals(
        human=human,
        judge=judge,
        task_success=success,
        cost_usd=cost,
        latency_ms=latency,
        safety_verdict=SafetyVerdict.CLEAN,
    )
    verdict = reward(signals, SPEC)
    if not isinstance(verdict, Reward):
        return
    note = note_of(verdict, None)
    episode = episode_pb2.Episode(reward=verdict.value, signals=note.signals)
    for name, value in note.components.items():
        episode.components.add(component=name, value=value)
    *moves, total = reward_parts.steps(episode, reward_message(SPEC))
    assert total.is_sum
    assert total.value == verdict.value
    assert math.fsum(one.value for one in moves) == pytest.approx(verdict.value, abs=6e-4)
    for before, after in itertools.pairwise(moves):
        assert after.bar.start == pytest.approx(before.bar.end, abs=1e-9)


@given(
    st.lists(st.tuples(share, st.floats(-1e6, 1e6), st.floats(0.0, 1e3)), max_size=5),
    st.none() | st.floats(-1e3, 1e3),
)
def test_every_chart_has_finite_places(values: list[tuple[float, float, float]], limit: float | None) -> None:
    points = [Point(at=at, value=value, lower=value - half, upper=value + half) for at, value, half in values]
    drawn = str(curves.lines([Curve(points=points)], label="x", limit=limit, marks=[Mark(0.5, "A"), Mark(0.51, "B")]))
    drawn += str(curves.share([Point(at=at, value=at) for at, _, _ in values], label="x"))
    assert not re.search("nan|inf", drawn)
    assert drawn.count(">AB<") == 1


def history(*tallies: tuple[int, str, int, float]) -> policy_service_pb2.GetHistoryResponse:
    """Ten hours: hour, action, episodes, mean reward."""
    found = policy_service_pb2.GetHistoryResponse()
    found.start_time.FromDatetime(START)
    found.end_time.FromDatetime(START + timedelta(hours=10))
    for hour, action, episodes, mean in tallies:
        point = found.points.add()
        point.start_time.FromDatetime(START + timedelta(hours=hour))
        point.actions.add(
            action_key=action,
            decisions=episodes,
            episodes=episodes,
            reward_sum=mean * episodes,
            reward_square_sum=mean * episodes,
            costed_episodes=episodes,
            cost_usd=episodes * (0.01 if action == "b@1" else 0.001),
        )
    return found


def test_lift_and_regret_are_those_of_the_episodes_so_far() -> None:
    told = history((1, "a@1", 100, 0.4), (2, "b@1", 100, 0.6), (3, "a@1", 100, 0.4))
    story = over_time.Story(told, "a@1", [])
    first, last = story.lift.points
    assert first.value == last.value == pytest.approx(0.2)
    half = 1.959964 * math.sqrt(0.24 / 199 + 0.24 / 99)
    assert last.upper == pytest.approx(0.2 + half, rel=1e-6)
    assert story.best == "b@1"
    assert [one.value for one in story.regret.points] == pytest.approx([20.0, 20.0, 40.0])
    assert [one.value for one in story.shares("b@1")] == [0.0, 1.0, 0.0]
    assert [(key, best) for _, key, _, best in story.costed] == [("a@1", True), ("b@1", True)]


def test_what_happened_is_marked_if_it_concerns_the_policy_and_fell_into_the_span() -> None:
    told = history((1, "a@1", 1, 0.5))
    told.changes.add(cause="model m-2 behind a").change_time.FromDatetime(START + timedelta(hours=5))
    events = []
    for hour, verb, subject in (
        (3, "policy.frozen", POLICY),
        (4, "policy.frozen", f"{POLICY}-other"),
        (6, "ramp.advanced", POLICY),
        (7, "key.created", "tenants/acme"),
        (12, "policy.unfrozen", POLICY),
    ):
        event = audit_event_pb2.AuditEvent(verb=verb, subject=subject, actor="person:kedge#bob", because=f"at {hour}")
        event.event_time.FromDatetime(START + timedelta(hours=hour))
        events.append(event)
    notes = over_time.notes_of(events, told, POLICY)
    assert [(one.letter, one.why) for one in notes] == [("A", "at 3"), ("B", "model m-2 behind a"), ("C", "at 6")]
    assert [one.at for one in over_time.Story(told, "a@1", notes).marks] == [0.3, 0.5, 0.6]


def checks(*, blind: bool = False) -> governance_service_pb2.ListDivergenceChecksResponse:
    """Two checks of a policy that games its reward."""
    found = governance_service_pb2.ListDivergenceChecksResponse(watched=True, blind=blind)
    for number, lift, holdout, evidence in ((2, 0.08, -0.06, 512.0), (1, 0.07, -0.05, 3.0)):
        one = found.checks.add(
            number=number,
            outcome=governance_service_pb2.DIVERGENCE_OUTCOME_COMPARED,
            reward_lift=lift,
            reward_error=0.01,
            holdout_lift=holdout,
            holdout_error=0.02,
            pool=600,
            cases=300,
        )
        one.readings.add(detector="divergence", evidence=evidence, threshold=400.0, tripped=evidence > 400)
    found.checks[0].incident = "tenants/acme/incidents/7"
    return found


async def test_both_lifts_and_the_evidence_of_every_check_are_told() -> None:
    said = await page(f"/{POLICY}/divergence", more={"ListDivergenceChecks": checks(blind=True)})
    for words in ("Blind.", "+0.080 ± 0.020", "−0.060 ± 0.039", "divergence 512 of 400", "incident 7", "300 of 600"):
        assert words in said
    assert 'href="/tenants/acme/incidents/7"' in said


async def test_the_overview_shows_the_holdout_beside_the_reward() -> None:
    assert "holdout −0.060" in await page("/tenants/acme", more={**QUIET, "ListDivergenceChecks": checks(blind=True)})
    assert "The newest divergence check" in await page(f"/{POLICY}", more={**QUIET, "ListDivergenceChecks": checks()})


QUIET = {
    "GetMode": governance_service_pb2.GetModeResponse(mode=policy_pb2.MODE_APPLY, effective_mode=policy_pb2.MODE_APPLY),
    "ListAuditEvents": governance_service_pb2.ListAuditEventsResponse(),
    "ListIncidents": governance_service_pb2.ListIncidentsResponse(),
}


async def test_an_experiment_with_a_broken_split_shows_nothing_but_the_split() -> None:
    broken = experiment_pb2.Experiment(name="tenants/acme/experiments/e1", policy=POLICY, because="try it")
    report = broken.report
    report.decision = experiment_pb2.EXPERIMENT_DECISION_SPLIT_BROKEN
    report.sentence = "The split is broken: nothing else is shown."
    report.sample_ratio.learned_units, report.sample_ratio.baseline_units = 900, 100
    hacked = experiment_pb2.Experiment(name="tenants/acme/experiments/e2", policy=POLICY)
    hacked.report.decision = experiment_pb2.EXPERIMENT_DECISION_HACKED
    hacked.report.sentence = "The reward rose and the holdout fell."
    metric = hacked.report.metrics.add(metric="reward", is_primary=True, learned_mean=0.7, baseline_mean=0.6)
    metric.learned_lift.value, metric.learned_lift.lower, metric.learned_lift.upper = 0.1, 0.05, 0.15
    said = await page(
        f"/{POLICY}/experiments",
        more={
            "ListExperiments": experiment_service_pb2.ListExperimentsResponse(experiments=[broken, hacked]),
            "GetPolicyKpis": experiment_service_pb2.GetPolicyKpisResponse(),
        },
    )
    first, second = said.split("e2", 1)
    assert "900 learned, 100 baseline" in first
    assert "Lift" not in first
    assert "+0.050 to +0.150" in second
