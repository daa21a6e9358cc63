"""The published table to four decimals, and the fixed points of our own grader."""

import json
from importlib.resources import files

import pytest

from brief_routing_env.baselines import policy
from brief_routing_env.episode import Episode
from brief_routing_env.measure import ROUTES, route_grade
from brief_routing_env.rubric import Parts, components, total
from brief_routing_env.scenarios import PLAIN, case_of
from brief_routing_env.tasks import AUDIT, TASKS
from brief_routing_env.train import play_out
from tests.envs.brief.play import CLOSE, DEV, EVERYBODY, graded, honest_or_not, played
from tests.trust.size import of

SIX = PLAIN[:6]
SEEDS = range(DEV, DEV + of(2, 100))
PUBLISHED = {
    "nothing": "  .001/.001   .001/.001   .001/.001   .001/.001   .001/.001   .001/.001",
    "analyst": " .3454/.4025 .2646/.3217 .2646/.3217 .2646/.3217 .2646/.3217 .2646/.3217",
    "analyst, finance": ".6906/.7049 .5289/.5432 .5289/.5432 .5289/.5432 .5289/.5432 .5289/.5432",
    "all but HR": " .6906/.7049 .7286/.7429 .7286/.7429 .7286/.7429 .7286/.7429 .7286/.7429",
    "all but strategy": " .8659/.8802 .6875/.6973 .6830/.6973 .6830/.6928 .6842/.6951 .6808/.6917",
    "everybody": " .8659/.8802 .8872/.8970 .8827/.8970 .8827/.8925 .8839/.8948 .8805/.8914",
}


def policy_play(who: str, name: str, seed: int, **switched: object) -> float:
    return play_out(Episode(case_of(name, seed, **switched)), policy(who, name, seed))["grade"]


def random_play(name: str, seed: int, *, eval_mode: bool) -> float:
    return policy_play("random", name, seed, eval_mode=eval_mode)


@pytest.mark.parametrize("route", ROUTES)
def test_the_published_grader_gives_the_published_grades_to_four_decimals_whatever_the_data(route: str) -> None:
    for task, cell in zip(SIX, PUBLISHED[route].split(), strict=True):
        off, on = map(float, cell.split("/"))
        for seed in SEEDS:
            assert route_grade(route, f"{task}-compat", seed) == off
            assert route_grade(route, f"{task}-compat-rag", seed) == on


@pytest.mark.parametrize(
    ("experts", "off", "on"),
    [(1, 0.250, 0.225), (2, 0.500, 0.450), (3, 0.700, 0.675)],
    ids=["naive", "two experts", "all but HR"],
)
def test_our_grader_keeps_its_fixed_points_where_the_numbers_are_right(experts: int, off: float, on: float) -> None:
    episode, _ = played("hard_brief-rag", *EVERYBODY[:experts], *CLOSE)
    parts = components(episode.world)
    assert total(parts, compat=False, rag=True, needs_strategy=True) == on
    assert total(parts, compat=False, rag=False, needs_strategy=True) == off


def test_without_memory_the_whole_route_misses_the_projection_alone() -> None:
    for task in ("medium_brief", "hard_brief", "expert_brief", "risk_brief", "crisis_brief"):
        for seed in SEEDS:
            assert graded(f"{task}-rag", *EVERYBODY, "summarize", seed=seed) == 0.999
            assert graded(task, *EVERYBODY, "summarize", seed=seed) == 0.9333
    assert graded("easy_brief", "analyst", "finance", "hr", "summarize") == 0.9083


@pytest.mark.parametrize(("waste", "lost"), [(1, 0.1 / 6), (3, 0.3 / 6), (6, 0.1)])
def test_each_wasted_step_costs_its_share_of_the_path(waste: int, lost: float) -> None:
    moves = [*EVERYBODY, "summarize", *["noop"] * (waste - 1)]
    episode, _ = played("hard_brief-rag", "noop", *moves, "submit")
    assert episode.metrics()["grade"] == pytest.approx(1.0 - lost, abs=6e-5)


def test_a_summary_before_the_last_news_earns_no_path() -> None:
    assert graded("hard_brief-rag", *EVERYBODY[:3], "summarize", "hr") == pytest.approx(0.9)
    assert graded("hard_brief-rag", *EVERYBODY) == pytest.approx(0.9)


def test_with_the_net_on_a_random_policy_gets_the_same_grade_whatever_it_does() -> None:
    found = {}
    for task in SIX:
        for memory in ("", "-rag"):
            name = f"{task}-compat{memory}"
            grades = set()
            for seed in range(DEV, DEV + of(6, 100)):
                grades.add(
                    play_out(Episode(case_of(name, seed, eval_mode=False)), policy("random", name, seed))["grade"]
                )
            assert len(grades) == 1
            found[name] = grades.pop()
    off = [grade for name, grade in found.items() if not name.endswith("-rag")]
    on = [grade for name, grade in found.items() if name.endswith("-rag")]
    assert (round(min(off), 3), round(max(off), 3)) == (0.866, 0.887)
    assert (round(min(on), 3), round(max(on), 3)) == (0.880, 0.897)


def test_without_the_net_a_random_policys_grades_are_spread() -> None:
    grades = {random_play("hard_brief-compat", seed, eval_mode=True) for seed in range(DEV, DEV + 20)}
    assert max(grades) - min(grades) > 0.3


@pytest.mark.parametrize("memory", ["", "-rag"])
def test_who_trusts_a_lying_analyst_is_graded_well_below_who_validates(memory: str) -> None:
    lying = [seed for seed in range(DEV, DEV + of(30, 400)) if case_of(AUDIT, seed).lies]
    for seed in lying:
        name = f"{AUDIT}{memory}"
        trusting, validating = (
            play_out(Episode(case_of(name, seed)), policy(who, name, seed))["grade"]
            for who in ("trusting", "validating")
        )
        assert validating - trusting >= 0.15


def test_doubting_an_honest_analyst_costs_one_step() -> None:
    seed = honest_or_not(lied=False)
    plain = graded(f"{AUDIT}-rag", *EVERYBODY, "summarize", seed=seed)
    moves = ("analyst", "finance", "ask finance reconcile_revenue", "strategy", "hr", "summarize")
    assert (plain, graded(f"{AUDIT}-rag", *moves, seed=seed)) == (0.999, 0.9833)


def test_half_of_the_audits_lie_and_no_other_task() -> None:
    count = of(400, 20_000)
    share = sum(case_of(AUDIT, seed).lies for seed in range(count)) / count
    assert abs(share - 0.5) <= 4 * 0.5 / count**0.5
    assert not any(case_of(task, seed).lies for task in SIX for seed in range(20))


def test_the_route_table_of_the_datasheet_is_what_the_grader_gives() -> None:
    text = (files("brief_routing_env") / "data" / "measured.json").read_text(encoding="utf-8")
    table = json.loads(text)["routes"]
    for name, row in table.items():
        for route, grades in row.items():
            low, high = grades[0], grades[-1]
            assert low <= route_grade(route, name, 2_000_000) <= high


def test_weights_sum_to_one_whatever_is_switched() -> None:
    every = Parts(coverage=1.0, metrics=1.0, hr=1.0, strategy=1.0, grounding=1.0, path=1.0)
    for compat in (True, False):
        for rag in (True, False):
            for needed in (True, False):
                assert total(every, compat=compat, rag=rag, needs_strategy=needed) == 0.999


def test_an_easy_brief_does_not_need_strategy() -> None:
    assert [str(expert) for expert in TASKS["easy_brief"].required] == ["analyst", "finance", "hr"]
    assert graded("easy_brief-rag", "analyst", "finance", "hr", "summarize") == 0.999
