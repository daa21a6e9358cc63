"""Holes of the original that must stay closed: what tools give, what is paid, and what a report tells."""

import json
from collections.abc import Mapping

import pytest

from call_audit_env import moves
from call_audit_env.ground import start
from call_audit_env.scenarios import Profile, base
from call_audit_env.world import STEPS
from tests.envs.call_audit.audits import audit, play, played, result

TRUTH = (
    "violation_f1", "missed", "DETECTED", "span", "shape", "tier", "difficulty", "ground_truth", "compliant", "call_0",
)  # fmt: skip


@pytest.mark.parametrize("number", range(1, 13))
def test_nothing_of_the_truth_is_in_any_observation_to_the_last(number: int) -> None:
    episode = audit(number)
    details = [one.detail for one in base(number).breaches]
    turns = len(base(number).turns)
    actions = [*moves_of_every_kind(turns), moves.submit(passed=True), moves.metadata()]
    for action in actions:
        episode.step(action)
        told = json.dumps(episode.observe())
        assert not any(word in told for word in (*TRUTH, *details))


def moves_of_every_kind(turns: int) -> list[dict[str, object]]:
    last = turns - 1
    return [
        moves.metadata(),
        moves.sentiment(),
        moves.length(),
        moves.chunk(0, 4),
        moves.analyze(last),
        moves.flag("pii_exposure_risk", "low", 1),
        {"action_type": "dance"},
    ]


def test_a_tool_gives_what_the_datasheet_says_and_costs_it() -> None:
    episode = audit(6)
    left = episode.world.total
    about = {"call_id", "department", "call_reason", "call_duration_seconds", "call_summary", "turns"}
    close = {"turn_index", "window", "silence_before_seconds", "position"}
    used: list[tuple[Mapping[str, object], int, set[str]]] = [
        (moves.metadata(), 5, about),
        (moves.sentiment(), 5, {"shifts"}),
        (moves.length(), 1, {"turns", "first_turn", "last_turn", "chunk_limit"}),
        (moves.chunk(2, 4), 9, {"turns"}),
        (moves.analyze(6, "incorrect_hold_procedure"), 10, close | {"policy"}),
        (moves.analyze(0, "no such"), 10, close | {"remark"}),
        (moves.flag("failed_escalation", "low"), 2, {"recorded", "findings"}),
        ({"action_type": "dance"}, 5, set()),
        (moves.submit(passed=True), 0, {"draft_incident_report"}),
    ]
    for action, price, keys in used:
        episode.step(action)
        left -= price
        assert set(result(episode)) == keys
        assert episode.observe()["checklist"]["budget_remaining_units"] == left


@pytest.mark.parametrize(
    ("turn", "position"), [(0, "opening"), (2, "opening"), (3, "mid-call"), (13, "closing"), (15, "closing")]
)
def test_analyzing_tells_where_a_turn_lies_and_how_long_it_was_silent_before(turn: int, position: str) -> None:
    episode = audit(6)
    play(episode, moves.analyze(turn))
    assert result(episode)["position"] == position
    assert result(episode)["silence_before_seconds"] == base(6).silence_before(turn)
    opened = [one["turn_index"] for one in episode.observe()["opened"]]
    assert opened == [near for near in (turn - 1, turn, turn + 1) if 0 <= near < 16]


@pytest.mark.parametrize(
    ("first", "last"), [(None, 2), (0, None), (-1, 2), (0, 16), (3, 2), (0, 5), ("0", 2), (True, 2), (1.5, 2)]
)
def test_a_chunk_that_cannot_be_read_costs_a_step_and_no_units(first: object, last: object) -> None:
    episode = audit(6)
    [turn] = play(episode, {"action_type": "read_transcript_chunk", "start_turn": first, "end_turn": last})
    assert turn.reward == pytest.approx(0.25 * -0.02)
    assert episode.observe()["error"]
    assert (episode.world.left, episode.world.steps, episode.observe()["opened"]) == (98, 1, [])


@pytest.mark.parametrize(
    ("action", "price", "paid"),
    [
        (moves.analyze(16), 10, -0.02),
        ({"action_type": "analyze_turn"}, 10, -0.02),
        (moves.flag("no such", "high"), 2, -0.02),
        (moves.flag("failed_escalation", "grave"), 2, -0.02),
        ({"action_type": "flag_violation", "violation_type": "failed_escalation"}, 2, -0.02),
        (moves.flag("failed_escalation", "high", 16), 2, -0.02),
        ({"action_type": "submit_report"}, 0, -0.02),
        ({"action_type": "submit_report", "compliance_pass": "yes"}, 0, -0.02),
        ({}, 5, -0.05),
        ({"action_type": ["submit_report"]}, 5, -0.05),
    ],
)
def test_what_is_refused_costs_its_price_and_does_nothing(action: dict[str, object], price: int, paid: float) -> None:
    episode = audit(6)
    [turn] = play(episode, action)
    assert turn.reward == pytest.approx(0.25 * paid)
    assert episode.world.left == 98 - price
    assert episode.observe()["error"]
    assert not episode.over
    assert episode.observe()["findings"] == []


def test_a_bonus_comes_once_and_reading_pays_for_what_is_new() -> None:
    episode = audit(10)
    turns = play(
        episode,
        *(moves.metadata(), moves.metadata(), moves.sentiment(), moves.sentiment(), moves.length(), moves.length()),
        *(moves.chunk(0, 4), moves.chunk(1, 3), moves.chunk(3, 6), moves.analyze(2), moves.analyze(20)),
    )
    found = [round(turn.reward / 0.25, 4) for turn in turns]
    assert found == [0.05, 0, 0.05, 0, 0.02, 0, 0.02, 0, 0.02, 0, 0.02]


def test_a_type_is_one_finding_whose_severity_may_change() -> None:
    episode = audit(3)
    play(episode, moves.chunk(4, 4), moves.flag("pii_exposure_risk", "low"), moves.flag("pii_exposure_risk", "high", 4))
    [finding] = episode.observe()["findings"]
    assert (finding["violation_severity"], finding["turn_index"]) == ("high", 4)
    play(episode, moves.submit(passed=False))
    assert episode.metrics()["f1"] == 1.0
    assert len(episode.world.flags) == 1


def test_the_original_records_duplicates_takes_low_for_left_out_and_passes_by_default() -> None:
    episode = audit(3, Profile.COMPAT)
    left_out = {"action_type": "flag_violation", "violation_type": "pii_exposure_risk"}
    play(episode, left_out, left_out, moves.flag("pii_exposure_risk", "high", 99), {"action_type": "submit_report"})
    assert [one["violation_severity"] for one in episode.observe()["findings"]] == ["low", "low", "high"]
    assert episode.world.passed


def test_a_flag_needs_a_turn_of_its_breach_and_not_the_very_one_that_is_cited() -> None:
    for opened, found in ((moves.chunk(11, 11), 1.0), (moves.chunk(10, 10), 0.0)):
        episode = audit(5)
        play(episode, opened, moves.flag("failed_escalation", "high", 3), moves.submit(passed=False))
        assert bool(episode.metrics()["f1"]) == bool(found)


def test_a_verdict_that_contradicts_the_findings_earns_nothing() -> None:
    grades = {}
    for passed in (True, False):
        episode = audit(1)
        play(
            episode, moves.chunk(0, 0), moves.flag("regulatory_disclosure_failure", "high"), moves.submit(passed=passed)
        )
        grades[passed] = episode.grade()
    assert grades[False] - grades[True] >= 0.18


@pytest.mark.parametrize(
    ("opened", "grade"), [([], 0.001), ([(1, 5), (6, 10)], 0.001), ([(0, 3)], 0.001), ([(0, 4), (5, 5)], 0.957)]
)
def test_a_clean_call_passes_only_if_it_was_looked_at(opened: list[tuple[int, int]], grade: float) -> None:
    episode = audit(2)
    play(episode, *(moves.chunk(first, last) for first, last in opened), moves.submit(passed=True))
    assert episode.grade() == pytest.approx(grade, abs=0.001)


def test_exhaustion_ends_the_audit_inside_the_grade_and_is_a_veto() -> None:
    episode = audit(1)
    play(episode, moves.chunk(0, 0), moves.flag("regulatory_disclosure_failure", "high"))
    turns = play(episode, *[moves.analyze(3)] * 7)
    assert (turns[-1].terminated, turns[-1].truncated, turns[-1].veto) == (True, False, "budget_exhausted")
    assert turns[-1].grade == pytest.approx(0.6 + 0.02 - 0.10)
    assert turns[-1].signals["final"] == turns[-1].grade


def test_the_original_takes_exhaustion_from_the_reward_alone() -> None:
    episode = audit(1, Profile.COMPAT)
    turns = play(episode, *[moves.analyze(3)] * 8)
    assert turns[-1].signals["final"] == pytest.approx((turns[-1].grade or 0.0) - 0.10)


def test_an_audit_without_end_is_cut_off_and_nothing_counts_as_handed_in() -> None:
    episode = audit(1)
    play(episode, moves.chunk(0, 0), moves.flag("regulatory_disclosure_failure", "high"))
    turns = play(episode, *[moves.chunk(9, 9)] * 58)
    assert (turns[-1].terminated, turns[-1].truncated, episode.world.steps) == (False, True, STEPS[Profile.V2])
    assert turns[-1].grade == pytest.approx(0.62)


def test_a_warning_comes_before_the_budget_ends() -> None:
    episode = audit(1)
    play(episode, *[moves.analyze(3)] * 7)
    assert episode.world.left == 4
    assert "submit" in episode.observe()["system_feedback"]
    play(episode, moves.submit(passed=False))
    assert not episode.metrics()["exhausted"]


def test_personal_data_in_a_note_is_a_veto_and_reaches_no_report() -> None:
    episode = audit(3)
    noted = moves.flag("pii_exposure_risk", "high", 4) | {"note": "Hannah Voss said 512-48-7731"}
    [turn] = play(episode, noted)
    assert turn.veto == "pii_in_report"
    assert not turn.terminated
    play(episode, moves.submit(passed=False))
    told = json.dumps([episode.observe(), episode.graded_report()])
    assert "[CUSTOMER_NAME] said [SSN_REDACTED]" in told
    assert not any(private in told for private in ("Hannah", "Voss", "512-48"))
    [clean] = play(audit(3), moves.flag("pii_exposure_risk", "high", 4) | {"note": "asks for all nine digits"})
    assert clean.veto is None


def test_the_draft_comes_from_ones_own_findings_and_cites_what_was_opened() -> None:
    episode = audit(9)
    play(episode, moves.chunk(0, 0), moves.flag("regulatory_disclosure_failure", "high", 0))
    play(episode, moves.flag("failed_escalation", "medium", 12), moves.submit(passed=False))
    report = result(episode)["draft_incident_report"]
    assert isinstance(report, dict)
    assert (report["verdict"], report["recommended_action"], report["deadline"]) == ("FAIL", "ESCALATE", "same day")
    assert report["estimated_human_review_minutes"] == 11
    assert [bool(one["cited"]) for one in report["findings"]] == [True, False]


def test_the_graded_report_tells_an_evaluator_what_was_missed_and_made_up() -> None:
    episode = audit(9)
    with pytest.raises(RuntimeError):
        episode.graded_report()
    play(episode, moves.chunk(0, 0), moves.flag("regulatory_disclosure_failure", "high", 0))
    play(episode, moves.flag("pii_exposure_risk", "medium"), moves.submit(passed=True))
    report = episode.graded_report()
    findings = report["findings"]
    assert isinstance(findings, list)
    assert [one["status"] for one in findings] == ["DETECTED", "MISSED", "MISSED", "FALSE POSITIVE"]
    assert (report["verdict"], report["agent_verdict_correct"]) == ("FAIL", False)
    perfect = played("oracle", 2).graded_report()
    assert (perfect["verdict"], perfect["recommended_action"], perfect["recommendations"]) == (
        "PASS",
        "ARCHIVE",
        ["nothing to improve"],
    )


def test_an_unknown_task_is_refused() -> None:
    with pytest.raises(KeyError):
        start("no such task", 0)
