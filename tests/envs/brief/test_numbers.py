"""Files tell their story, experts add up, memos are worth what they should be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brief_routing_env.finance import break_even
from brief_routing_env.ledger import Cleaning, Fill, balance, straight_line, trailing
from brief_routing_env.memos import original_score, score, tone
from brief_routing_env.orders import MONTHS, orders_of
from brief_routing_env.reports import Report
from brief_routing_env.rubric import matches, recommended
from brief_routing_env.scenarios import PLAIN, case_of
from brief_routing_env.strategy import STRESSED, stances
from brief_routing_env.tasks import AUDIT, TASKS, Expert
from tests.envs.brief.play import DEV, EVERYBODY, played
from tests.trust.size import of

SEEDS = range(DEV, DEV + of(12, 500))
MEMO_SCORES = {
    "easy_brief": (0.7250, 0.7250),
    "medium_brief": (0.7250, 0.6955),
    "hard_brief": (0.6955, 0.6955),
    "expert_brief": (0.6955, 0.6655),
    "risk_brief": (0.7030, 0.6805),
    "crisis_brief": (0.6805, 0.6580),
}


@pytest.mark.parametrize("name", PLAIN)
def test_a_file_tells_the_tasks_story(name: str) -> None:
    task = TASKS[name]
    for seed in SEEDS:
        case = case_of(name, seed)
        ledger = balance(case.orders, Cleaning(fill=Fill.CATEGORY_MEDIAN))
        assert abs(ledger.revenue / task.plan - 1.0 - task.variance) < 0.025
        assert float(case.truth["projection_next_quarter"]) > 0
        assert min(ledger.by_month) > 0
        faults = (ledger.duplicates, ledger.imputed, ledger.bad_dates, ledger.bad_quantities)
        wanted = task.faults
        assert faults == (wanted.duplicates, wanted.missing_prices, wanted.bad_dates, wanted.bad_quantities)
        assert ledger.quality == round(1 - (wanted.bad_dates + wanted.bad_quantities) / task.rows, 4)
        first, second = (total for _, total in ledger.by_category[:2])
        assert first > 1.1 * second


def test_crisis_and_risk_are_behind_plan_and_fall() -> None:
    for name in ("risk_brief", "crisis_brief"):
        for seed in SEEDS:
            truth = case_of(name, seed).truth
            assert float(truth["variance_pct"]) < -5.0
            assert float(truth["projection_next_quarter"]) < TASKS[name].plan / 2


@pytest.mark.parametrize("name", PLAIN)
def test_a_wrong_rule_for_prices_is_within_the_tolerance_and_a_straight_line_is_not(name: str) -> None:
    for seed in SEEDS:
        orders = orders_of(TASKS[name], seed)
        wrong, right = (balance(orders, Cleaning(fill=fill)) for fill in (Fill.MEAN, Fill.CATEGORY_MEDIAN))
        assert matches("total_revenue", wrong.revenue, right.revenue, compat=False)
        assert wrong.by_category[0][0] == right.by_category[0][0]
        drawn, true = straight_line(wrong.by_month)[0], trailing(right.by_month, 3)
        assert not matches("projection_next_quarter", drawn, true, compat=False)


def test_duplicates_of_the_audit_are_worth_hiding() -> None:
    for seed in SEEDS:
        orders = orders_of(TASKS[AUDIT], seed)
        all_in, distinct = (balance(orders, Cleaning(keeps_duplicates=keeps)).revenue for keeps in (True, False))
        assert 1.15 <= all_in / distinct <= 1.30


@pytest.mark.parametrize("task", MEMO_SCORES)
@pytest.mark.parametrize("memory", [False, True])
def test_the_published_memo_has_its_published_score(task: str, memory: bool) -> None:
    for seed in SEEDS:
        episode, _ = played(f"{task}-compat", *EVERYBODY, seed=seed, rag=memory)
        memo = episode.world.reports[Expert.HR].memo or ""
        assert original_score(memo, TASKS[task]) == MEMO_SCORES[task][memory]
        assert tone(memo) == 0.39


def test_our_memo_is_perfect_only_with_every_desks_present_words() -> None:
    episode, _ = played("hard_brief", *EVERYBODY)
    reports, task = episode.world.reports, TASKS["hard_brief"]
    memo = reports[Expert.HR].memo or ""
    assert score(memo, task, reports) == 1.0
    without: dict[Expert, Report] = {
        expert: report for expert, report in reports.items() if expert is not Expert.FINANCE
    }
    assert score(memo, task, without) == 0.9
    assert score(memo.replace("CFO", "friends"), task, reports) == 0.8
    assert score(memo + " word" * 300, task, reports) == 0.9
    assert score("", task, reports) == 0.0


def test_numbers_in_recommendations_match_as_whole_tokens() -> None:
    lines = ["NVDA on 12 Beauty", "AAPL on 12 Home", "JPM on 12, variance"]
    assert recommended(lines, {"total_revenue": 12}, whole_tokens=True) == 1.0
    assert recommended(lines, {"total_revenue": 2}, whole_tokens=True) == 0.75
    assert recommended(lines, {"total_revenue": 2}, whole_tokens=False) == 1.0


def test_a_missed_plan_makes_the_stance_defensive() -> None:
    behind: dict[str, float | int | str] = {
        "variance_pct": -4.0,
        "projection_next_quarter": 40_000.0,
        "top_category": "Electronics",
    }
    assert stances(behind, 76_000) == STRESSED
    ahead = behind | {"variance_pct": 4.0}
    assert [one.action for one in stances(ahead, 76_000)] == ["buy_more", "add", "hold"]
    assert [one.action for one in stances(ahead | {"top_category": "Home"}, 76_000)] == ["add", "buy_more", "hold"]
    assert stances(ahead | {"projection_next_quarter": 30_000.0}, 76_000) == STRESSED


def test_break_even_units_are_the_published_ones_where_the_money_is() -> None:
    units = [break_even(TASKS[name]) for name in PLAIN[:6]]
    assert units == [14.12, 15.0, 16.67, 16.0, 25.88, 26.67]


revenues = st.lists(st.floats(0, 1e6), min_size=MONTHS, max_size=MONTHS).map(np.array)


@given(by_month=revenues, months=st.sampled_from([2, 3, 4, 6]))
def test_a_trailing_projection_is_a_quarter_of_the_months_it_follows(by_month: np.ndarray, months: int) -> None:
    found = trailing(by_month, months)
    assert 3 * min(by_month) - 0.01 <= found <= 3 * max(by_month) + 0.01


@given(level=st.floats(0, 1e5), slope=st.floats(-1e3, 1e3))
def test_a_straight_line_is_continued(level: float, slope: float) -> None:
    found, band = straight_line((level + slope * np.arange(MONTHS)).astype(np.float64))
    assert found == pytest.approx(3 * level + slope * (6 + 7 + 8), abs=0.02)
    assert band == pytest.approx(0.0, abs=0.02)


@given(said=st.floats(-1e6, 1e6), true=st.floats(-1e6, 1e6))
def test_what_our_rule_takes_for_right_the_published_one_does_too(said: float, true: float) -> None:
    if matches("total_revenue", said, true, compat=False):
        assert matches("total_revenue", said, true, compat=True)


def test_a_report_that_lacks_nothing_says_so() -> None:
    assert not Report(expert=Expert.HR, title="", summary="").lacks
    assert Report(expert=Expert.HR, title="", summary="", issues=("missing_input:finance",)).lacks
