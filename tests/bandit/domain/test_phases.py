"""A criterion is met by what was measured and by nothing else: what is off unmeets the lines that rest on it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kedge_bandit.domain.divergence import ALARM, Lift
from kedge_bandit.domain.experiment_report import ExperimentDecision
from kedge_bandit.domain.identifiers import PolicyName
from kedge_bandit.domain.mitigations import mitigations
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.phases import criteria
from kedge_bandit.domain.readiness import (
    Experimented,
    Phase,
    PolicyFacts,
    Readiness,
    Settled,
    Stopped,
    TenantFacts,
    Watched,
)
from kedge_bandit.domain.reward_spec import RewardSpec, SafetySource
from tests.bandit.domain.test_lifecycle import SPEC

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
GOOD = PolicyFacts(
    name=PolicyName("support"),
    spec=SPEC,
    mode=Mode.APPLY,
    unaccounted=0,
    counts={"SETTLED": 1_500, "VETOED": 3},
    feedback=200,
    preferences=0,
    configured="stated by person:ann on 2026-11-01: agreed with the team",
    settled=Settled(
        episodes=1_503,
        signals={"human": 200, "judge": 400, "task_success": 1_500, "guarded": 1_503},
        newest_human=NOW - timedelta(hours=1),
        vetoed=3,
        corrected=20,
        least=0.0,
        most=0.9,
        most_vetoed=0.0,
    ),
    stopped=Stopped(time=NOW - timedelta(days=3), drawn=1, latest_drawn=timedelta(seconds=0.05), frozen=40),
    watched=Watched(
        reward=Lift(0.05, 0.01),
        holdout=Lift(0.02, 0.02),
        checks=12,
        evidence=0.4,
        threshold=ALARM,
        success_time=NOW - timedelta(hours=20),
        interval=timedelta(days=1),
        is_blind=False,
    ),
    holdout_version="0a1b2c3d4e5f6a7b",
    learning_held="",
    p_value=0.5,
    serving=(),
    open_incidents=0,
    experiment=None,
)
assert GOOD.watched is not None
WATCHED = GOOD.watched
FEW = "feedback is kept for a meaningful sample of the traffic"
JUDGE, VETO, STABLE = "judge and guardrails answer", "a safety veto zeroes the reward", "rewards are stable"
NO_REGRESSION, NO_LESS = "no regression on the holdout", "reward no less than the control's"
ALARM_LIVE, ROLLBACK = "the divergence alarm is live", "instant rollback is demonstrated"


def of(*policies: PolicyFacts, attempts: int = 400, faults: tuple[str, ...] = ()) -> Readiness:
    facts = TenantFacts(now=NOW, policies=policies, attempts=attempts, faults=faults)
    return Readiness(criteria(facts), mitigations(facts))


def unmet(readiness: Readiness) -> set[str]:
    return {one.criterion for one in readiness.criteria if not one.met and one.phase < Phase.P3}


def watched(**facts: object) -> PolicyFacts:
    return replace(GOOD, watched=replace(WATCHED, **facts))  # type: ignore[arg-type]  # fields of Watched


def settled(**facts: object) -> PolicyFacts:
    return replace(GOOD, settled=replace(GOOD.settled, **facts))  # type: ignore[arg-type]  # fields of Settled


def test_a_tenant_that_did_all_of_it_passes_p0_to_p2_and_no_more() -> None:
    found = of(GOOD)
    assert unmet(found) == set()
    assert list(found.passed) == [Phase.P0, Phase.P1, Phase.P2]
    assert [one.mitigation for one in found.mitigations if not one.holds] == []
    assert len(found.mitigations) == 10


@pytest.mark.parametrize(
    ("made", "lines"),
    [
        (lambda: replace(GOOD, feedback=99), {FEW}),
        (lambda: settled(signals={**GOOD.settled.signals, "human": 0}), {"feedback is shown"}),
        (lambda: settled(newest_human=NOW - timedelta(days=8)), {"feedback flows"}),
        (lambda: settled(signals={**GOOD.settled.signals, "guarded": 1_400}), {JUDGE}),
        (lambda: settled(signals={**GOOD.settled.signals, "judge": 0}), {JUDGE}),
        (lambda: replace(GOOD, unaccounted=1), {"every completed turn has a reward row"}),
        (lambda: settled(most_vetoed=0.1), {VETO}),
        (lambda: replace(GOOD, configured=""), {"the weights are reviewed"}),
        (lambda: settled(corrected=400), {STABLE}),
        (lambda: replace(GOOD, learning_held="the self-check alarms"), {STABLE}),
        (lambda: replace(GOOD, holdout_version=""), {"floor and gate are in place"}),
        (lambda: watched(holdout=Lift(-0.03, 0.02)), {NO_REGRESSION}),
        (lambda: watched(reward=Lift(-0.01, 0.02)), {NO_LESS}),
        (lambda: watched(reward=None, holdout=None), {NO_REGRESSION, NO_LESS}),
        (lambda: watched(success_time=NOW - timedelta(hours=49)), {ALARM_LIVE}),
        (lambda: watched(is_blind=True), {ALARM_LIVE}),
        (lambda: replace(GOOD, watched=None), {NO_REGRESSION, NO_LESS, ALARM_LIVE}),
        (lambda: replace(GOOD, stopped=None), {ROLLBACK}),
        (lambda: replace(GOOD, experiment=Experimented("q4", ExperimentDecision.HACKED)), {NO_LESS}),
        (lambda: replace(GOOD, experiment=Experimented("q4", ExperimentDecision.PROMOTE)), set()),
    ],
)
def test_a_fact_that_is_off_unmeets_what_rests_on_it(made: Callable[[], PolicyFacts], lines: set[str]) -> None:
    assert unmet(of(made())) == lines


def test_a_rollback_that_let_draws_through_or_met_no_traffic_is_none() -> None:
    assert GOOD.stopped is not None
    late = replace(GOOD.stopped, latest_drawn=timedelta(seconds=7))
    assert unmet(of(replace(GOOD, stopped=late))) == {ROLLBACK}
    assert unmet(of(replace(GOOD, stopped=replace(GOOD.stopped, frozen=0)))) == {ROLLBACK}


def test_a_tenant_without_guardrails_does_not_pass_p1() -> None:
    spec = replace(GOOD.spec, reward=replace(GOOD.spec.reward, safety_source=SafetySource.NONE))
    assert list(of(replace(GOOD, spec=spec)).passed) == [Phase.P0]


def test_one_policy_that_lags_holds_its_tenant_back() -> None:
    lagging = replace(GOOD, name=PolicyName("billing"), feedback=3)
    found = of(GOOD, lagging)
    assert unmet(found) == {FEW}
    assert list(found.passed) == []
    line = next(one for one in found.criteria if one.criterion == FEW)
    assert line.measured == "support: 200 outcomes of people, 100 or more; billing: 3 outcomes of people, 100 or more"


def test_a_wall_that_gave_way_and_one_that_nobody_tried_are_no_isolation() -> None:
    for found in (of(GOOD, faults=("table t_b.outcome",)), of(GOOD, attempts=0)):
        assert [one.mitigation for one in found.mitigations if not one.holds] == ["per-tenant isolation"]


def test_a_judge_without_a_clamp_would_be_seen() -> None:
    loose = RewardSpec(
        cost_reference_usd=1.0, latency_reference_ms=1.0, judge_floor=0.0, judge_knee=1.0, judge_ceiling=1.0
    )
    found = of(replace(GOOD, spec=replace(GOOD.spec, reward=loose)))
    assert [one.mitigation for one in found.mitigations if not one.holds] == ["clamped judge"]
