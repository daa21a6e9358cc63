"""Hold relocation cases to their marks: exact scores, proved lengths, and what chance and habit reach."""

from dataclasses import replace
from math import sqrt
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relocation_env.baselines import solution
from relocation_env.episode import Episode
from relocation_env.ground import TASKS
from relocation_env.rubric import LEAST, MOST, grade
from relocation_env.rules import MAX_STEPS, MOVES, Move, Result
from relocation_env.scenarios import NAMED, SPLITS, generate
from relocation_env.search import shortest
from relocation_env.world import State, World, available, begin, blockers, judge, play
from tests.envs.relocation.play import play_out, played, solved
from tests.trust.size import of

SCORES = {"easy": 0.95, "medium": 0.80, "hard": 0.65, "crisis": 0.75}
LENGTHS = {"easy": 12, "medium": 12, "hard": 15, "crisis": 14}
RETURNS = {"easy": 5.075, "medium": 5.075, "hard": 6.265, "crisis": 5.675}
EPISODES = of(150, 2_000)


@pytest.mark.parametrize("mode", ["", "-blind"])
@pytest.mark.parametrize("task", SCORES)
def test_the_oracle_scores_exactly_its_mark_in_the_shortest_number_of_steps(task: str, mode: str) -> None:
    episode, turn = play_out(task + mode, "oracle")
    assert (turn.grade, episode.world.steps) == (SCORES[task], LENGTHS[task])
    assert turn.terminated
    assert not turn.truncated
    assert episode.metrics()["return"] == pytest.approx(RETURNS[task])


@pytest.mark.parametrize("task", SCORES)
def test_a_breadth_first_search_finds_no_shorter_solution(task: str) -> None:
    found = shortest(NAMED[task])
    assert found is not None
    assert len(found) == NAMED[task].optimum == LENGTHS[task]


@pytest.mark.parametrize("changing", [False, True])
def test_a_breadth_first_search_agrees_with_the_stored_optimum_of_generated_cases(*, changing: bool) -> None:
    cases = [case for case in map(generate, SPLITS["dev"][:400]) if bool(case.event) is changing]
    small = [case for case in cases if case.optimum <= of(12, 15)][: of(3, 40)]
    assert small
    assert [case.optimum for case in small if len(shortest(case) or ()) != case.optimum] == []


def test_every_generated_case_is_solved_in_its_stored_optimum_with_a_perfect_grade() -> None:
    wrong = []
    for split in SPLITS.values():
        for seed in split[: of(100, 2_000)]:
            case = generate(seed)
            world = begin(case)
            for move in solution(case):
                world, _, _ = play(world, move)
            if (world.state, world.steps, grade(world)) != (State.SUCCESS, case.optimum, 0.95):
                wrong.append(seed)
    assert wrong == []


@given(seed=st.integers(0, 2_100_000), moves=st.lists(st.sampled_from(MOVES), max_size=MAX_STEPS))
def test_no_action_clears_more_than_one_need_so_that_the_optimum_cannot_be_beaten(seed: int, moves: list[Move]) -> None:
    case = generate(seed)
    world = begin(case)
    for move in moves:
        before = _needs(world)
        world, _, _ = play(world, move)
        assert before - _needs(world) <= 1
    assert _needs(begin(case)) + (3 - 2 if case.event else 0) + 1 <= case.optimum


def _needs(world: World) -> int:
    missing = sum(status == "missing" for status in world.papers)
    return len(blockers(world)) + missing


@pytest.mark.parametrize(
    ("task", "name", "mark"),
    [
        ("easy-blind", "random", 0.126),
        ("medium-blind", "random", 0.084),
        ("hard-blind", "random", 0.022),
        ("crisis-blind", "random", 0.024),
        ("easy", "listed", 0.740),
        ("medium", "listed", 0.671),
        ("hard", "listed", 0.221),
        ("crisis", "listed", 0.596),
    ],
)
def test_chance_reaches_its_mark(task: str, name: str, mark: float) -> None:
    grades = [play_out(task, name, seed)[1].grade or 0.0 for seed in range(EPISODES)]
    assert abs(fmean(grades) - mark) <= 4 * stdev(grades) / sqrt(EPISODES)


def test_a_memorised_sequence_solves_only_its_own_case() -> None:
    assert [play_out(task, "memoriser")[1].grade for task in SCORES] == [0.95, 0.35, 0.36, 0.47]


def test_the_natural_order_of_the_crisis_takes_two_steps_more_and_scores_as_much() -> None:
    episode, turn = play_out("crisis", "reader")
    assert (episode.world.steps, turn.grade) == (16, 0.75)
    assert episode.metrics()["return"] == pytest.approx(RETURNS["crisis"])


@pytest.mark.parametrize("mode", ["", "-blind"])
def test_reading_what_is_shown_and_the_rules_is_enough(mode: str) -> None:
    assert {play_out("generated" + mode, "reader", seed)[1].grade for seed in range(of(60, 1_000))} == {0.95}


def test_no_detour_pays_more_than_the_shortest_solution() -> None:
    for seed in range(of(60, 1_000)):
        straight, detour = (play_out("generated", name, seed)[0].metrics()["return"] for name in ("oracle", "reader"))
        assert detour <= straight + 1e-9
        assert straight <= 7.5


def test_one_trap_costs_what_the_datasheet_says() -> None:
    episode, _ = played("hard", "set_tax_id:UAE", *solved("hard"))
    assert (episode.world.state, grade(episode.world)) == (State.SUCCESS, 0.40)


def test_one_use_of_the_struck_visa_costs_a_fifth() -> None:
    start = [
        *solved("easy")[:2],
        "approve_hr",
        "set_tax_id",
        "set_payroll",
        *solved("easy")[4:6],
        "verify_document:visa",
    ]
    left = ["request_document:work_permit", "verify_document:work_permit", "request_document:ict_permit"]
    left += ["verify_document:ict_permit", "acknowledge_regulatory_change", "approve_legal", "finalize_case"]
    episode, turns = played("crisis", *start, *left)
    assert turns[7].result is Result.RULE_VIOLATION
    assert grade(episode.world) == 0.55


@given(task=st.sampled_from(sorted(TASKS)), seed=st.integers(0, 999), choices=st.lists(st.sampled_from(MOVES)))
def test_a_grade_stays_inside_zero_and_one_and_never_falls_by_a_success_that_is_needed(
    task: str,
    seed: int,
    choices: list[Move],
) -> None:
    episode, _ = played(task, seed=seed)
    for move in choices:
        before = grade(episode.world)
        turn = episode.play(move)
        after = grade(episode.world)
        assert LEAST <= after <= MOST
        assert after == grade(episode.world)
        if turn.result is Result.SUCCESS and move in episode.world.case.task_set:
            assert after >= before


@given(task=st.sampled_from(sorted(TASKS)), seed=st.integers(0, 999), choices=st.lists(st.integers(0, 35)))
def test_what_the_list_leaves_out_never_succeeds(task: str, seed: int, choices: list[int]) -> None:
    world = played(task, seed=seed)[0].world
    for choice in choices:
        listed = set(available(world))
        unlisted = [move for move in MOVES if move not in listed]
        assert all(judge(world, move)[0] is not Result.SUCCESS for move in unlisted if world.state == "in_progress")
        world, _, _ = play(world, MOVES[choice])


@pytest.mark.parametrize("task", SCORES)
def test_the_length_of_an_episode_ends_with_its_deadline_or_at_the_cap(task: str) -> None:
    episode, turn = play_out(task, "repeat")
    assert episode.world.steps == min(NAMED[task].deadline, MAX_STEPS)
    assert turn.terminated
    assert turn.grade == LEAST


def test_the_cap_truncates_where_a_deadline_would_come_later() -> None:
    episode = Episode("easy", replace(NAMED["easy"], deadline=MAX_STEPS + 5))
    turns = [episode.step({}) for _ in range(MAX_STEPS)]
    assert [(turn.terminated, turn.truncated) for turn in turns[-2:]] == [(False, False), (False, True)]
    assert turns[-1].grade == LEAST
