"""One test for each hole of the original environment: it fails as soon as the hole is there again."""

import json
from dataclasses import replace

import pytest

from relocation_env import rubric
from relocation_env.episode import Episode
from relocation_env.features import features, read
from relocation_env.ground import VERSION, parse, policy, render, start
from relocation_env.render import instructions
from relocation_env.rules import COUNTRIES, MAX_STEPS, Result
from relocation_env.scenarios import NAMED, case_of
from relocation_env.world import State
from tests.envs.relocation.play import papers, play_out, played, solved

TO_THE_EVENT = ["approve_hr", "set_tax_id", "set_payroll", *solved("easy")[:2], *solved("easy")[4:6]]


def test_a_premature_finalization_does_not_keep_the_case_from_closing() -> None:
    episode, turns = played("easy", "finalize_case", *solved("easy"))
    assert turns[0].result is Result.RULE_VIOLATION
    assert (episode.world.state, rubric.grade(episode.world)) == (State.SUCCESS, 0.95)


def test_a_second_violation_costs_as_much_as_the_first() -> None:
    _, turns = played("hard", "set_tax_id:UAE", "set_tax_id:UAE")
    assert [turn.reward for turn in turns] == [-0.30, -0.30]


def test_a_number_at_a_taxless_register_is_charged_after_the_right_one_too() -> None:
    episode, turns = played("hard", "set_tax_id:Germany", "set_tax_id:UAE")
    assert turns[1].result is Result.RULE_VIOLATION
    assert episode.world.charges.tax_breach


@pytest.mark.parametrize("spelled", ["uae", " UAE ", "Uae"])
def test_another_spelling_dodges_no_rule(spelled: str) -> None:
    episode = start("hard", 0)
    assert episode.step({"action_type": " SET_tax_id", "target": spelled}).result is Result.RULE_VIOLATION
    assert episode.world.charges.tax_breach


@pytest.mark.parametrize(
    "beside",
    [
        "approve_legal",
        "approve_finance",
        "set_pdpa:Germany",
        "set_tax_id:Singapore",
        "request_document:diary",
        "verify_document:ict_permit",
        "dance",
        "resolve_conflict",
        "acknowledge_regulatory_change",
    ],
)
def test_every_action_beside_the_point_reaches_the_parsimony_count(beside: str) -> None:
    episode, _ = played("easy", beside, *solved("easy"))
    assert episode.world.charges.junk == 1
    assert rubric.grade(episode.world) == 0.92


def test_a_success_beside_the_point_earns_nothing() -> None:
    _, turns = played("easy", *solved("easy")[:8], "approve_legal")
    assert (turns[-1].result, turns[-1].reward) == (Result.SUCCESS, 0.0)


def test_parsimony_is_capped_and_one_action_is_charged_once() -> None:
    episode, _ = played("hard", "set_tax_id:UAE", "set_tax_id:UAE", *["dance"] * 7, *solved("hard"))
    assert rubric.grade(episode.world) == pytest.approx(0.65 - 0.25 - 0.15)


def test_the_first_observation_knows_nothing_of_what_is_to_come() -> None:
    for task in ("crisis", "crisis-blind"):
        shown = json.dumps(start(task, 0).observe()) + render(start(task, 0).observe())
        assert [word for word in ("ict_permit", "DE-VISA", "suspen", "valid", "event") if word in shown] == []


def test_the_change_of_rules_is_seen_before_the_eighth_action_is_chosen() -> None:
    episode, _ = played("crisis", *TO_THE_EVENT)
    seen = episode.observe()
    assert episode.world.steps == 7
    assert seen["documents"]["visa"] == "invalidated"
    assert seen["documents"]["ict_permit"] == "missing"
    assert seen["available_actions"][0] == "acknowledge_regulatory_change"
    before = played("crisis", *TO_THE_EVENT[:6])[0].observe()
    assert "ict_permit" not in before["documents"]
    assert before["announcements"] == []


def test_a_struck_visa_does_not_count_as_verified() -> None:
    episode, _ = played("crisis", "request_document:visa", "verify_document:visa", *["approve_hr"] * 5)
    assert episode.observe()["documents"]["visa"] == "invalidated"
    assert rubric.grade(episode.world) == pytest.approx(0.08)


def test_blind_mode_gives_no_rule_away() -> None:
    for task in NAMED:
        seen = start(task + "-blind", 0).observe()
        hidden = {"required_departments", "required_compliance", "current_blockers", "available_actions", "progress"}
        assert hidden & set(seen) == set()
        text = render(seen)
        country_rules = [COUNTRIES[name].notice[1] for name in COUNTRIES] + ["tax register", "UAE keeps"]
        assert [rule for rule in country_rules if rule in text] == []


def test_the_list_keeps_the_traps_and_never_offers_a_violation_for_ever_without_saying_so() -> None:
    episode, _ = played("hard", "set_tax_id:UAE")
    assert "set_tax_id:UAE" in episode.observe()["available_actions"]
    assert "no tax_id" in episode.observe()["last_action_error"]


def test_finalizing_ignores_its_target() -> None:
    episode = played("easy", *solved("easy", without=("finalize_case",)))[0]
    assert episode.step({"action_type": "finalize_case", "target": "all"}).result is Result.SUCCESS
    assert rubric.grade(episode.world) == 0.95


def test_progress_is_paid_with_the_step_that_makes_it_and_once() -> None:
    _, turns = played("easy", "request_document:passport", "verify_document:passport", "verify_document:passport")
    assert [round(turn.signals.get("progress", 0.0), 5) for turn in turns] == [0.02375, 0.02375, 0.0]


def test_no_bonus_is_paid_twice_when_a_document_is_struck() -> None:
    episode = Episode("crisis", replace(NAMED["crisis"], documents=("passport", "visa", "employment_letter")))
    turns = [episode.step(read(one)) for one in [*papers("passport", "visa", "employment_letter"), "approve_hr"]]
    assert episode.observe()["documents"]["visa"] == "invalidated"
    turns += [episode.step(read(one)) for one in papers("ict_permit")]
    assert [sum(part in turn.signals for turn in turns) for part in ("documents", "struck")] == [1, 1]
    assert sum(turn.signals.get("struck", 0.0) for turn in turns) == pytest.approx(-0.60)


def test_the_finalization_counts_in_the_grade_that_it_returns() -> None:
    _, turn = play_out("medium", "oracle")
    assert turn.grade == 0.80


def test_a_case_can_be_graded_as_itself_only_and_after_its_end() -> None:
    episode, turn = play_out("hard", "oracle")
    later = episode.step({"action_type": "finalize_case"})
    assert (later.grade, later.reward, later.terminated) == (turn.grade, 0.0, True)
    assert episode.world.steps == 15


def test_an_ignored_event_earns_no_credit() -> None:
    _, turn = play_out("crisis", "repeat")
    assert turn.grade == rubric.LEAST


def test_an_answer_that_cannot_be_read_is_nobody_elses_action() -> None:
    episode = start("easy", 0)
    turn = episode.step(parse("I would rather not."))
    assert (turn.result, turn.reward, episode.world.steps) == (Result.INVALID, -0.30, 1)


def test_one_constant_limits_every_case() -> None:
    assert max(case_of("generated", seed).deadline for seed in range(500)) <= MAX_STEPS
    assert str(MAX_STEPS) in instructions("generated")


def test_the_example_of_an_answer_names_no_action_of_a_case() -> None:
    example = instructions("easy").rsplit("{", 1)[1]
    assert not any(word in example for word in ("document", "visa", "Germany", "approve", "set_"))


def test_the_reward_of_a_step_is_not_clipped_below_its_parts() -> None:
    turns = played("easy", *solved("easy"))[1]
    assert turns[-1].reward == pytest.approx(0.30 + 0.50)
    assert len({round(turn.reward, 4) for turn in turns}) >= 4


def test_no_reward_enters_what_is_shown() -> None:
    """The last reward would be an oracle on what the case needs."""
    right, wrong = played("easy-blind", "approve_hr")[0].observe(), played("easy-blind", "approve_legal")[0].observe()
    assert not any("reward" in key or "score" in key or "grade" in key for key in {*right, *wrong})


def test_the_same_seed_is_another_case_in_no_process_and_each_seed_its_own() -> None:
    assert case_of("generated", 11) == case_of("generated", 11)
    cases = [case_of("generated", seed) for seed in range(100)]
    assert [seed for seed, case in enumerate(cases) if case in cases[:seed]] == []


@pytest.mark.parametrize("task", ["generated", "generated-blind"])
def test_nothing_that_is_shown_tells_the_seed(task: str) -> None:
    """Who knew the seed could look up all that is hidden."""
    assert {start(task, seed).observe()["case_id"] for seed in range(300)} == {"generated"}
    one, other = 2, 838
    assert start(task, one).observe() == start(task, other).observe()
    assert (case_of(task, one).event is None) != (case_of(task, other).event is None)


def test_no_public_name_of_an_episode_shows_what_is_hidden() -> None:
    episode = start("crisis", 0)
    shown = {name for name in dir(episode) if not name.startswith("_")} - {"world"}
    assert shown == {"metrics", "observe", "over", "play", "step", "task"}


def test_features_and_texts_carry_one_version() -> None:
    assert VERSION == "1.0.0"
    assert features(start("easy", 0).observe()).shape == features(start("hard-blind", 0).observe()).shape == (67,)


def test_the_players_own_actions_alone_are_scored() -> None:
    """No autopilot: nothing is finalized or replaced for a player, and its score is the environment's grade."""
    player = policy("finalizer", "easy", 0)
    episode = start("easy", 0)
    turns = [episode.step(player(episode.observe())) for _ in range(20)]
    assert episode.world.history == ("finalize_case",) * 20
    assert turns[-1].grade == rubric.LEAST
