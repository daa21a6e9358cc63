"""One test for each hole of the original environment: it fails as soon as the hole is there again."""

from typing import Any

import pytest

from brief_routing_env.baselines import policy
from brief_routing_env.episode import VETO, Episode
from brief_routing_env.ground import start, switches
from brief_routing_env.scenarios import NAMES, PLAIN, case_of
from brief_routing_env.tasks import AUDIT, QUESTIONS, TASKS, Expert
from brief_routing_env.train import play_out
from brief_routing_env.world import Event
from tests.envs.brief.play import CLOSE, DEV, EVERYBODY, action, graded, honest_or_not, played

FARMS = {
    "summaries": lambda left: ["summarize"] * left,
    "summaries and questions in turn": lambda left: ["summarize", "ask finance downside_case"] * (left // 2),
    "every question": lambda left: [f"ask {e} {q}" for e, asked in QUESTIONS.items() for q in asked][:left],
    "one question for ever": lambda left: ["ask analyst category_breakdown"] * left,
    "everybody again": lambda left: (list(EVERYBODY) * 3)[:left],
    "nothing": lambda left: ["noop"] * left,
}


def honest(task: str, **switched: Any) -> float:
    moves = [str(expert) for expert in TASKS[task].required]
    return played(task, *moves, *CLOSE, **switched)[0].metrics()["return"]


@pytest.mark.parametrize("farm", FARMS)
@pytest.mark.parametrize("eval_mode", [True, False])
@pytest.mark.parametrize("profile", ["compat", "v2"])
def test_no_bonus_can_be_farmed(farm: str, profile: str, eval_mode: bool) -> None:
    """Padding the honest route, or padding alone, to the limit never returns more than the honest route."""
    switched: dict[str, Any] = switches(profile=profile, eval_mode=eval_mode)
    for task in PLAIN[:6]:
        limit, required = TASKS[task].max_steps, [str(expert) for expert in TASKS[task].required]
        for before in (required, required[:2], []):
            padding = FARMS[farm](limit - len(before) - 1)
            found, _ = played(task, *before, *padding, *["submit"] * 2, **switched)
            assert found.over
            assert found.metrics()["return"] < honest(task, **switched)


def test_repeated_summaries_pay_once() -> None:
    _, turns = played("hard_brief", *EVERYBODY, *["summarize"] * 3)
    assert [turn.signals["shaping"] for turn in turns[4:]] == [0.02, 0.0, 0.0]
    assert [turn.event for turn in turns[4:]] == [Event.SUMMARIZED, Event.SUMMARIZED_AGAIN, Event.SUMMARIZED_AGAIN]


def test_a_bonus_is_paid_once_even_where_the_report_is_renewed() -> None:
    seed = honest_or_not(lied=True)
    finding_out = ("ask finance reconcile_revenue", "ask analyst recheck_duplicates", "finance")
    _, turns = played(AUDIT, "analyst", "finance", *finding_out, seed=seed)
    assert [turn.reward for turn in turns] == [0.08, 0.08, 0.0, 0.0, -0.02]
    assert turns[-1].event is Event.RENEWED


def test_rewards_of_the_strict_regime() -> None:
    moves = ("summarize", "analyst", "analyst", "analyst", "noop", "consult", "finance", "strategy", "hr", "summarize")
    _, turns = played("hard_brief-compat", *moves)
    assert [turn.reward for turn in turns] == [-0.07, 0.08, -0.07, -0.12, -0.03, -0.05, 0.08, 0.08, 0.08, 0.0]


@pytest.mark.parametrize(
    ("moves", "returned"),
    [
        ((*EVERYBODY, *CLOSE), 1.183),
        ((*EVERYBODY[:3], *CLOSE), 0.879),
        (("analyst", *CLOSE), 0.255),
        (("submit",), -0.019),
        ((*EVERYBODY[:3], *["strategy"] * 9), -0.061),
        ((*EVERYBODY, *["summarize"] * 8), 1.063),
    ],
    ids=["oracle", "no HR", "naive", "at once", "strategy for ever", "padded"],
)
def test_undiscounted_returns_under_the_published_rules(moves: tuple[str, ...], returned: float) -> None:
    episode, _ = played("hard_brief-compat", *moves)
    assert episode.metrics()["return"] == pytest.approx(returned, abs=6e-4)


def test_an_unknown_task_is_refused_and_never_another_one() -> None:
    with pytest.raises(KeyError):
        start("impossible_brief", 0)
    with pytest.raises(ValueError, match="v2"):
        start(AUDIT, 0, **switches(profile="compat"))
    with pytest.raises(ValueError, match="harbour"):
        start("hard_brief", 0, tenant="nobody")
    for wrong in ({"rag": "yes"}, {"profile": "gold"}, {"tenant": 7}):
        with pytest.raises(ValueError, match=r"is true or false|not a valid|is a name"):
            switches(**wrong)


def test_nobody_is_run_behind_the_policys_back() -> None:
    episode, turns = played("hard_brief", "strategy", "hr", "finance")
    assert [turn.event for turn in turns] == [Event.LACKING] * 3
    seen = episode.observe()
    assert seen["consulted_experts"] == ["strategy", "hr", "finance"]
    assert "finance: missing_input:analyst" in seen["issues"]
    assert set(seen["expert_reports"]["finance"]["metrics"]) == {"break_even_units", "plan"}  # type: ignore[call-overload]
    assert seen["expert_reports"]["strategy"]["bullet_points"] == []


def test_the_published_rules_compute_what_is_missing_and_count_nobody_for_it() -> None:
    episode, [turn] = played("hard_brief-compat", "hr")
    assert turn.event is Event.FIRST
    assert episode.observe()["consulted_experts"] == ["hr"]
    assert "Projection" in str(episode.observe()["expert_reports"]["hr"]["memo"])


def test_a_brief_is_composed_again_at_the_submission() -> None:
    early = graded("hard_brief-compat", "summarize", *EVERYBODY)
    assert early == graded("hard_brief-compat", *EVERYBODY, "summarize")


def test_numbers_that_were_corrected_have_to_be_built_on_again() -> None:
    seed = honest_or_not(lied=True)
    exposed = ("analyst", "finance", "ask finance reconcile_revenue", "ask analyst recheck_duplicates")
    stale = graded(f"{AUDIT}-rag", *exposed, "strategy", "hr", "summarize", seed=seed)
    fresh = graded(f"{AUDIT}-rag", *exposed, "finance", "strategy", "hr", "summarize", seed=seed)
    assert fresh == 0.999
    assert stale < fresh - 0.09


def test_a_lying_analyst_stands_by_its_figures_until_it_is_confronted() -> None:
    seed = honest_or_not(lied=True)
    episode, _ = played(AUDIT, "analyst", "ask analyst recheck_duplicates", seed=seed)
    before = episode.observe()["expert_reports"]["analyst"]["metrics"]
    assert before["duplicates_removed"] == 0  # type: ignore[index]
    for words in ("finance", "ask finance reconcile_revenue", "ask analyst recheck_duplicates"):
        episode.step(action(words))
    after = episode.observe()["expert_reports"]["analyst"]["metrics"]
    assert after["duplicates_removed"] == TASKS[AUDIT].faults.duplicates  # type: ignore[index]
    assert 1.15 <= before["total_revenue"] / after["total_revenue"] <= 1.30  # type: ignore[index]


def test_a_question_is_answered_once_and_only_about_a_report() -> None:
    _, turns = played(
        "hard_brief", "ask finance downside_case", "analyst", "finance", *["ask finance downside_case"] * 2
    )
    assert [turn.event for turn in turns] == [
        Event.REFUSED, Event.FIRST, Event.FIRST, Event.ANSWERED, Event.REPEATED,
    ]  # fmt: skip
    _, turns = played("hard_brief", "analyst", "ask analyst downside_case")
    assert turns[-1].event is Event.REFUSED


def test_a_question_is_answered_again_on_other_inputs_and_paid_once() -> None:
    seed = honest_or_not(lied=True)
    question = "ask finance downside_case"
    exposed = ("ask finance reconcile_revenue", "ask analyst recheck_duplicates", "finance")
    episode, turns = played(AUDIT, "analyst", "finance", question, *exposed, question, seed=seed)
    assert (turns[2].event, turns[-1].event) == (Event.ANSWERED_BESIDE, Event.ANSWERED_BESIDE)
    assert list(episode.world.reports[Expert.FINANCE].sections) == ["downside_case"]
    twice = ("analyst", "ask analyst recheck_prices", "finance", question, "ask analyst recheck_duplicates", "finance")
    _, turns = played("hard_brief", *twice, question, question)
    assert sum(turn.signals["shaping"] for turn in turns if turn.event is Event.ANSWERED) == 0.02


@pytest.mark.parametrize("name", NAMES)
def test_every_question_changes_the_report_that_it_is_put_to(name: str) -> None:
    case = case_of(name, DEV)
    if case.compat:
        return
    for expert, asked in QUESTIONS.items():
        for question in asked:
            episode, _ = played(name, *EVERYBODY, f"ask {expert} {question}")
            report = episode.observe()["expert_reports"][str(expert)]
            assert list(report["sections"]) == [question]  # type: ignore[call-overload]


@pytest.mark.parametrize("field", ["notes", "expert_id", "sub_question_id"])
def test_a_citation_of_another_tenants_memory_is_a_veto_wherever_it_stands(field: str) -> None:
    quoted = "memory:harbour/sop/finance-forecasting.md#chunk0"
    for tenant, breach in (("default", VETO), ("harbour", None)):
        episode = Episode(case_of("hard_brief-rag", DEV, tenant=tenant))
        turn = episode.step({"action_type": "noop", field: f"{'as is known, ' * 40} {quoted.title()} says"})
        assert turn.veto == breach
        assert episode.metrics()["breaches"] == (breach is not None)


def test_a_citation_of_ones_own_or_none_at_all_is_no_veto() -> None:
    episode = Episode(case_of("hard_brief-rag", DEV))
    own = str(episode.world.case.desk.recall("projection")[0].citation)
    assert episode.step({"action_type": "noop", "notes": f"see {own}"}).veto is None
    assert episode.step({"action_type": "noop", "notes": "my memory: fine"}).veto is None


def test_the_checkpoints_do_not_loop() -> None:
    for name in NAMES:
        metrics = play_out(Episode(case_of(name, DEV)), policy("trained", name, DEV))
        assert metrics["steps"] < TASKS[name.partition("-")[0]].max_steps
