"""What an experiment concludes, by what it saw; its lifts are honest about units, and less noisy for what was known."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge_bandit.domain.arrays import FloatArray
from kedge_bandit.domain.cluster_lift import Assigned, MetricLift, lift
from kedge_bandit.domain.divergence import Lift
from kedge_bandit.domain.errors import InvalidName, InvalidValue
from kedge_bandit.domain.experiment import (
    Experiment,
    ExperimentMetric,
    ExperimentSide,
    ExperimentUnit,
    parse_experiment,
    side_of,
)
from kedge_bandit.domain.experiment_report import SENTENCES, ExperimentDecision, ExperimentReport, Measured, report
from kedge_bandit.domain.identifiers import PolicyName

N = 8_000
REWARD, COST, VETO = ExperimentMetric.REWARD, ExperimentMetric.COST_USD, ExperimentMetric.VETO_RATE
UP, DOWN = (Lift(0.06, 0.01),), (Lift(-0.06, 0.01),)
START = datetime(2026, 3, 1, tzinfo=UTC)


def halves(n: int = N) -> Assigned:
    return Assigned(
        learned=np.arange(n) % 2 == 0,
        learned_share=np.full(n, 0.5),
        weight=np.ones(n),
        unit=np.arange(n),
        known=np.zeros(n),
    )


def concluded(gain: float, checks: tuple[Lift, ...] = (), *, costs: float = 1.0, n: int = N) -> ExperimentReport:
    random, assigned = np.random.default_rng(7), halves(n)
    reward = (random.random(n) < 0.5 + gain * assigned.learned).astype(np.float64)
    cost = random.uniform(0.8, 1.2, n) * np.where(assigned.learned, costs, 1.0)
    measured = Measured(
        assigned=assigned,
        values={REWARD: reward, COST: cost},
        crossed=0,
        served_share=0.5,
        with_floor=False,
        checks=checks,
    )
    return report(measured, (REWARD,), (COST,))


@pytest.mark.parametrize(
    ("gain", "checks", "costs", "n", "decision"),
    [
        (0.2, UP, 1.0, N, "PROMOTE"),
        (0.2, (Lift(-0.01, 0.01),), 1.0, N, "PROMOTE"),
        (0.2, (), 1.0, N, "HOLDOUT_UNKNOWN"),
        (0.2, (Lift(-0.02, 0.03),), 1.0, N, "HOLDOUT_UNKNOWN"),
        (0.2, DOWN, 1.0, N, "HACKED"),
        (0.2, DOWN, 2.0, N, "HACKED"),
        (0.2, UP, 2.0, N, "GUARDRAIL"),
        (0.0, UP, 1.0, N, "NO_BETTER"),
        (0.0, UP, 1.0, 1_000, "UNDECIDED"),
        (-0.2, UP, 1.0, N, "WORSE"),
        (0.2, UP, 1.0, 150, "TOO_FEW"),
    ],
)
def test_the_decision_follows_from_lift_holdout_and_guardrails(
    gain: float, checks: tuple[Lift, ...], costs: float, n: int, decision: str
) -> None:
    assert concluded(gain, checks, costs=costs, n=n).decision == decision


def test_where_the_learned_policy_is_no_better_it_is_said_to_stop_or_raise_the_floor() -> None:
    assert "stop, or raise the floor" in concluded(0.0).sentence


def test_every_decision_has_its_sentence() -> None:
    assert set(SENTENCES) == set(ExperimentDecision)


def test_less_is_better_of_costs() -> None:
    assigned = halves()
    cost = np.random.default_rng(1).uniform(0.8, 1.2, N) * np.where(assigned.learned, 0.5, 1.0)
    measured = Measured(
        assigned=assigned, values={COST: cost}, crossed=0, served_share=1.0, with_floor=False, checks=UP
    )
    assert report(measured, (COST,), ()).decision is ExperimentDecision.PROMOTE


def test_of_a_policy_that_served_the_baseline_alone_nothing_is_known_without_the_floor() -> None:
    measured = Measured(
        assigned=halves(), values={REWARD: np.ones(N)}, crossed=0, served_share=0.0, with_floor=True, checks=()
    )
    [reward] = report(measured, (REWARD,), ()).findings
    assert (reward.served.value, reward.learned.lower) == (0.0, -inf)


def test_what_was_known_before_takes_noise_off_and_moves_nothing() -> None:
    random, plain = np.random.default_rng(3), halves()
    known: FloatArray = random.normal(0.0, 0.3, N)
    y: FloatArray = 0.1 * plain.learned + known + random.normal(0.0, 0.1, N)
    without, with_it = lift(y, plain, 0.05), lift(y, replace(plain, known=known), 0.05)
    assert with_it.variance_kept == pytest.approx(0.1, abs=0.02)
    assert with_it.difference == pytest.approx(0.1, abs=3 * 0.1 * (4 / N) ** 0.5)
    assert with_it.upper - with_it.lower < (without.upper - without.lower) / 2


def test_turns_of_one_unit_count_as_one() -> None:
    units, turns = 400, 10
    random = np.random.default_rng(4)
    learned = np.repeat(np.arange(units) % 2 == 0, turns)
    y: FloatArray = np.repeat(random.normal(0.0, 1.0, units), turns).astype(np.float64)
    rows = replace(halves(units * turns), learned=learned, unit=np.repeat(np.arange(units), turns))
    clustered, naive = lift(y, rows, 0.05), lift(y, replace(rows, unit=np.arange(units * turns)), 0.05)
    assert clustered.variance == pytest.approx(4.0 / units, rel=0.2)
    assert naive.variance == pytest.approx(clustered.variance / turns, rel=0.2)
    assert clustered.units == units // 2


@given(st.floats(0.05, 0.95), st.floats(-0.5, 0.5))
def test_weights_bring_a_floors_control_to_the_contexts_of_the_learned_side(floor: float, gain: float) -> None:
    n = 400
    random = np.random.default_rng(5)
    phi = np.where(np.arange(n) < n // 2, floor, 0.5)
    learned = random.random(n) < 1.0 - phi
    rows = Assigned(
        learned=learned,
        learned_share=1.0 - phi,
        weight=np.where(learned, 1.0, (1.0 - phi) / phi),
        unit=np.arange(n),
        known=np.zeros(n),
    )
    found = lift((0.3 + gain * learned).astype(np.float64), rows, 0.05)
    assert found.difference == pytest.approx(gain, abs=1e-9) or found.lower == -inf


def test_the_floors_draws_of_a_time_that_was_all_floor_are_compared_with_nothing() -> None:
    everything = np.arange(2_000) < 1_000
    assigned = replace(halves(2_000), learned=~everything, weight=np.where(everything, 0.0, 1.0))
    assert lift(np.ones(2_000), assigned, 0.05) == MetricLift()


def test_a_hash_assigns_as_many_as_it_says_and_always_the_same() -> None:
    sides = [side_of("acme", "spring", f"s-{n}", 0.2) for n in range(5_000)]
    share = sides.count(ExperimentSide.BASELINE) / 5_000
    assert abs(share - 0.2) < 4 * (0.2 * 0.8 / 5_000) ** 0.5
    assert sides == [side_of("acme", "spring", f"s-{n}", 0.2) for n in range(5_000)]
    assert sides != [side_of("acme", "autumn", f"s-{n}", 0.2) for n in range(5_000)]


def experiment(**facts: object) -> Experiment:
    usual = Experiment(
        experiment_id="spring",
        policy=PolicyName("support"),
        unit=ExperimentUnit.EPISODE,
        start=START,
        end=START + timedelta(days=14),
        control_share=None,
        primary=(REWARD,),
        guardrails=(VETO,),
        because="why",
        create_time=START,
    )
    return replace(usual, **facts)  # type: ignore[arg-type]  # a test's own choice of fields


@pytest.mark.parametrize(
    "facts",
    [
        {"end": START},
        {"end": START + timedelta(days=181)},
        {"control_share": 0.5},
        {"unit": ExperimentUnit.SESSION},
        {"unit": ExperimentUnit.SESSION, "control_share": 0.01},
        {"primary": ()},
        {"guardrails": (REWARD,)},
    ],
)
def test_what_could_not_be_judged_is_refused(facts: dict[str, object]) -> None:
    with pytest.raises(InvalidValue):
        experiment(**facts)


@pytest.mark.parametrize("name", ["spring", "tenants/acme/experiments/", "tenants/acme/policies/x", "a/b/c/d/e"])
def test_another_form_of_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        parse_experiment(name)


def test_an_id_with_a_slash_is_refused() -> None:
    with pytest.raises(InvalidName):
        experiment(experiment_id="a/b")
