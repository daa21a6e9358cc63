"""Which decisions the self-check counts."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from kedge_bandit.application.check_draws import counted
from kedge_bandit.application.learned import EpisodeKey
from kedge_bandit.application.learning_port import DecisionRow, FoldPoint
from kedge_bandit.domain.decision import Reason, SetAside
from kedge_bandit.domain.dossier import Chosen
from kedge_bandit.domain.identifiers import DecisionId, EpisodeId, PolicyName

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SUPPORT = PolicyName("support")
POINT = FoldPoint(low=0, high=9, evidence_sequence=0, now=NOON, has_unmatched=False, audit_sequence=0, has_work=True)
DRAWN = DecisionRow(
    key=EpisodeKey(SUPPORT, EpisodeId("e")),
    chosen=Chosen(
        decision_id=DecisionId("00000000-0000-7000-8000-000000000000"),
        time=NOON,
        bucket="",
        action="small",
        policy_version=1,
        reason=Reason.DRAWN,
        judge_requested=False,
    ),
    available=None,
    allocation_version=1,
    is_randomised=True,
    superseded=False,
)


def test_a_randomised_first_decision_counts_wherever_it_was_made() -> None:
    assert counted([DRAWN], POINT) == {SUPPORT: [DRAWN]}


@pytest.mark.parametrize("why", SetAside)
def test_a_reported_decision_that_is_not_learned_from_cannot_hold_learning(why: SetAside) -> None:
    assert counted([replace(DRAWN, chosen=replace(DRAWN.chosen, set_aside=why))], POINT) == {}


@pytest.mark.parametrize("row", [replace(DRAWN, superseded=True), replace(DRAWN, is_randomised=False)])
def test_a_later_or_an_undrawn_decision_does_not_count(row: DecisionRow) -> None:
    assert counted([row], POINT) == {}
