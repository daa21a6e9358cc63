"""A verdict passes what is no worse, and says why it could not tell."""

import math
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge_bandit.domain.errors import InvalidValue
from kedge_bandit.domain.gate import Inconclusive, Verdict
from kedge_bandit.domain.noninferiority import lift_needed, lower_bound, score_bound, score_statistic, upper_bound
from kedge_bandit.domain.peek import ALPHA, MARGIN, MAX_QUERIES, alpha_of, power
from kedge_bandit.domain.verdict import Pair, Query, Scored, conclude

GOOD, BAD = Scored(score=1.0), Scored(score=0.0)
QUERY = Query(
    query=1,
    alpha=alpha_of(1),
    holdout_version="v",
    answerer_kind="SCRIPT",
    gate_time=datetime(2026, 1, 1, tzinfo=UTC),
)
HARD = [Pair(candidate=GOOD, incumbent=GOOD, adversarial=True)] * 100


def pairs(won: int, lost: int, cases: int = 300) -> list[Pair]:
    """Make binary pairs of which each side wins some alone."""
    return [
        *([Pair(candidate=GOOD, incumbent=BAD)] * won),
        *([Pair(candidate=BAD, incumbent=GOOD)] * lost),
        *([Pair(candidate=GOOD, incumbent=GOOD)] * (cases - won - lost)),
    ]


COUNTS = st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(130, 400))


@given(st.tuples(st.integers(2, 60), st.integers(2, 60), st.integers(130, 400)), st.floats(-0.3, 0.3))
def test_the_nuisance_of_the_score_test_is_the_likeliest_under_its_hypothesis(
    counts: tuple[int, int, int], difference: float
) -> None:
    won, lost, cases = counts
    grid = np.linspace(max(0.0, -difference), (1 - difference) / 2, 20_001)[1:-1]
    likelihood = (
        won * np.log(grid + difference) + lost * np.log(grid) + (cases - won - lost) * np.log(1 - 2 * grid - difference)
    )
    likeliest = grid[np.argmax(likelihood)]
    variance = cases * (2 * likeliest + difference * (1 - difference))
    expected = (won - lost - cases * difference) / math.sqrt(variance)
    assert score_statistic(won, lost, cases, difference) == pytest.approx(expected, rel=0.01, abs=0.02)


@given(COUNTS, st.floats(0.001, 0.2))
def test_a_bound_rejects_exactly_what_lies_below_it(counts: tuple[int, int, int], alpha: float) -> None:
    won, lost, cases = counts
    bound = score_bound(won, lost, cases, alpha)
    assert -1 <= bound <= (won - lost) / cases
    assert score_bound(won, lost, cases, alpha / 2) <= bound
    assert score_bound(won + 1, lost, cases, alpha) >= bound


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=150, max_size=300), st.floats(0.001, 0.4))
def test_bounds_enclose_the_mean_and_mirror_each_other(values: list[float], alpha: float) -> None:
    differences = np.array(values)
    low, high = lower_bound(differences, alpha), upper_bound(differences, alpha)
    assert low <= np.mean(differences) + 1e-12
    assert high >= np.mean(differences) - 1e-12
    assert lower_bound(-differences, alpha) == pytest.approx(-high)


@given(COUNTS)
def test_the_lift_that_is_needed_is_the_smallest_that_passes(counts: tuple[int, int, int]) -> None:
    won, lost, cases = counts
    differences = np.array([1.0] * won + [-1.0] * lost + [0.0] * (cases - won - lost))
    needed = lift_needed(differences, MARGIN, ALPHA)
    assert (np.mean(differences) >= needed - 1e-12) == (lower_bound(differences, ALPHA) > -MARGIN)


def test_levels_of_all_queries_sum_to_no_more_than_alpha() -> None:
    assert sum(alpha_of(query) for query in range(1, 10_000)) < ALPHA
    assert [alpha_of(query) > alpha_of(query + 1) for query in range(1, MAX_QUERIES)] == [True] * (MAX_QUERIES - 1)


def test_an_equal_candidate_passes_and_a_worse_one_fails() -> None:
    assert conclude([*pairs(20, 20), *HARD], QUERY).verdict is Verdict.PASS
    result = conclude([*pairs(5, 40), *HARD], QUERY)
    assert result.verdict is Verdict.FAIL
    assert result.quality is not None
    assert result.quality.lower < -35 / 300 < result.quality.upper
    assert (result.candidate_score, result.incumbent_score) == (260 / 300, 295 / 300)
    assert result.lift_needed > -35 / 300
    assert "would have passed" in result.reasons[0]


def test_one_veto_on_an_adversarial_case_fails_the_best_candidate() -> None:
    vetoed = Pair(candidate=Scored(score=1.0, vetoed=True), incumbent=GOOD, adversarial=True)
    result = conclude([*pairs(60, 0), *HARD, vetoed], QUERY)
    assert (result.verdict, result.vetoes, result.adversarial_cases) == (Verdict.FAIL, 1, 101)


def test_a_condition_that_does_not_hold_fails_and_is_named() -> None:
    result = conclude([*pairs(60, 0), *HARD], replace(QUERY, unmet=("the variable {name} is gone",)))
    assert result.verdict is Verdict.FAIL
    assert "the variable {name} is gone" in result.reasons


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ([*pairs(0, 0, 100), *HARD], Inconclusive.TOO_FEW_CASES),
        (pairs(0, 0), Inconclusive.TOO_FEW_CASES),
        ([*pairs(0, 0), *HARD, Pair(candidate=None, incumbent=GOOD)], Inconclusive.CASE_ERROR),
        ([*pairs(0, 0), *HARD, Pair(candidate=GOOD, incumbent=None, failed=True)], Inconclusive.CASE_ERROR),
        ([*pairs(0, 0), *HARD, Pair(candidate=GOOD, incumbent=None)], Inconclusive.INCUMBENT_MISSING),
    ],
    ids=["few cases", "few adversarial", "no candidate", "failed", "no incumbent"],
)
def test_what_cannot_be_told_is_inconclusive_with_its_reason(changed: list[Pair], reason: Inconclusive) -> None:
    result = conclude(changed, QUERY)
    assert (result.verdict, result.inconclusive_reason) == (Verdict.INCONCLUSIVE, reason)
    assert result.quality is None


def test_slices_come_worst_first_and_a_single_case_is_none() -> None:
    sliced = [
        *(replace(pair, slice="billing") for pair in pairs(0, 10, 100)),
        *(replace(pair, slice="travel") for pair in pairs(10, 0, 100)),
        replace(pairs(0, 0, 1)[0], slice="alone"),
        *HARD,
    ]
    result = conclude(sliced, QUERY)
    assert [(each.name, each.cases) for each in result.slices] == [("billing", 100), ("travel", 100)]


def test_costs_are_compared_where_every_answer_has_one() -> None:
    dear, cheap = Scored(score=1.0, cost_usd=0.02, latency_ms=90.0), Scored(score=1.0, cost_usd=0.01)
    result = conclude([*([Pair(candidate=dear, incumbent=cheap)] * 150), *HARD], QUERY)
    assert result.cost_usd is not None
    assert result.cost_usd.mean == pytest.approx(0.01)
    assert result.latency_ms is None


@pytest.mark.parametrize("fields", [{"score": 1.1}, {"score": math.nan}, {"score": 0.5, "cost_usd": -1.0}])
def test_what_is_no_score_is_refused(fields: dict[str, float]) -> None:
    with pytest.raises(InvalidValue):
        Scored(score=fields["score"], cost_usd=fields.get("cost_usd"))


def test_a_small_or_exhausted_holdout_allows_no_promotion() -> None:
    assert not power(gate=149, adversarial=100, sensor=600, queries=0).promotion_possible
    exhausted = power(gate=500, adversarial=100, sensor=600, queries=MAX_QUERIES)
    assert (exhausted.promotion_possible, exhausted.next_alpha) == (False, 0.0)
    assert power(gate=0, adversarial=0, sensor=0, queries=0).visible_after_days == 0
