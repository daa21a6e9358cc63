"""The reviewer: a second role that is paid for the change it makes to an auditor's grade."""

import json

import pytest

from call_audit_env import moves
from call_audit_env.review import Outcome, Review
from tests.envs.call_audit.audits import audit, play, played


def edit(verb: str, policy: str, severity: str | None = None, turn: int | None = None) -> dict[str, object]:
    return {"action_type": verb, "violation_type": policy, "violation_severity": severity, "turn_index": turn}


def reviewed(review: Review, *actions: dict[str, object]) -> Outcome:
    outcomes = [review.step(action) for action in actions]
    return outcomes[-1]


def sloppy() -> Review:
    """Take up a draft that has one finding right at the wrong severity, one made up, and one missing."""
    episode = audit(9)
    play(episode, moves.chunk(0, 0), moves.flag("regulatory_disclosure_failure", "low", 0))
    play(episode, moves.flag("pii_exposure_risk", "high"), moves.submit(passed=False))
    return Review(episode)


def test_whoever_changes_nothing_earns_nothing() -> None:
    assert reviewed(sloppy(), edit("keep_finding", "pii_exposure_risk"), moves.submit(passed=True)).reward == 0


def test_a_good_review_earns_what_it_adds_to_the_grade() -> None:
    review = sloppy()
    outcome = reviewed(
        review,
        edit("regrade_finding", "regulatory_disclosure_failure", "high"),
        edit("drop_finding", "pii_exposure_risk"),
        moves.chunk(11, 12),
        edit("add_finding", "failed_escalation", "high", 12),
        moves.submit(passed=True),
    )
    assert outcome.grade is not None
    assert outcome.grade > 0.85
    assert outcome.reward > 0.4


@pytest.mark.parametrize("number", [1, 3, 5, 6, 7, 8, 9, 10, 11, 12])
def test_whoever_knows_better_improves_every_draft_that_flags_everything(number: int) -> None:
    episode = played("read_then_six", number)
    truth = {one.policy: str(one.severity) for one in episode.world.call.breaches}
    edits = [
        edit("regrade_finding", policy, truth[policy]) if policy in truth else edit("drop_finding", policy)
        for policy in episode.world.book.policies
    ]
    outcome = reviewed(Review(episode), *edits, moves.submit(passed=True))
    assert outcome.grade is not None
    assert outcome.grade >= 0.88
    assert outcome.reward == pytest.approx(outcome.grade - episode.grade())


def test_a_finding_that_is_added_needs_a_turn_that_was_opened() -> None:
    blind = reviewed(sloppy(), edit("add_finding", "failed_escalation", "high", 12), moves.submit(passed=True))
    assert blind.reward < 0


def test_dropping_a_true_high_costs_beside_the_grade() -> None:
    review = Review(played("oracle", 1))
    outcome = reviewed(review, edit("drop_finding", "regulatory_disclosure_failure"), moves.submit(passed=True))
    assert outcome.grade == 0.001
    assert outcome.reward == pytest.approx(0.001 - 0.977 - 0.05)


def test_a_review_has_four_tenths_of_the_budget_and_ends_with_it() -> None:
    review = sloppy()
    checklist = review.observe()["checklist"]
    assert isinstance(checklist, dict)
    assert (checklist["total_budget"], checklist["budget_remaining_units"]) == (47, 47)
    assert reviewed(review, *[moves.analyze(3)] * 5).over


def test_a_draft_is_sent_back_once_and_the_review_goes_on_with_the_next() -> None:
    episode = audit(1)
    first = play(episode, moves.chunk(0, 0), moves.submit(passed=True))
    review = Review(episode)
    assert review.step({"action_type": "send_back"}).waiting
    assert review.step(moves.submit(passed=True)).waiting
    with pytest.raises(RuntimeError):
        review.resume()
    second = play(episode, moves.flag("regulatory_disclosure_failure", "high", 0), moves.submit(passed=False))
    review.resume()
    outcome = reviewed(review, {"action_type": "send_back"}, moves.submit(passed=True))
    assert outcome.reward == pytest.approx(episode.grade() - 0.001)
    total = sum(turn.reward for turn in (*first, *second))
    assert total == pytest.approx(episode.metrics()["return"])
    assert sum(turn.signals.get("final", 0.0) for turn in (*first, *second)) == pytest.approx(episode.grade())


def test_a_reviewer_sees_the_draft_and_nothing_of_the_truth() -> None:
    review = sloppy()
    told = json.dumps(review.observe())
    assert "draft_incident_report" in told
    assert not any(word in told for word in ("MISSED", "DETECTED", 'failed_escalation", "severity'))


def test_what_a_reviewer_cannot_do_is_refused_and_a_review_ends_anyway() -> None:
    review = sloppy()
    for action in (
        {},
        {"action_type": 3},
        edit("drop_finding", "failed_escalation"),
        edit("regrade_finding", "pii_exposure_risk", "grave"),
        edit("add_finding", "no such", "high"),
        moves.flag("failed_escalation", "high"),
    ):
        assert not review.step(action).over
        assert review.observe()["error"]
    assert [review.step({}).over for _ in range(60)][-1]
    assert review.step(moves.submit(passed=True)).reward == 0


def test_a_review_begins_with_a_draft() -> None:
    with pytest.raises(RuntimeError, match="finish the audit"):
        Review(audit(1))
