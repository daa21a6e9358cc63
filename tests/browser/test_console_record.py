"""What people look for in a browser they find, and what they say is recorded: seen again over gRPC."""

from typing import Any

import pytest
from playwright.sync_api import expect

from kedge.bandit.v1 import (
    decision_service_pb2,
    episode_service_pb2,
    governance_service_pb2,
    outcome_pb2,
)
from tests.browser.conftest import Visits
from tests.fixtures.console import Place
from tests.fixtures.played import VETOED, open_incident, play
from tests.fixtures.stack import wait_for

pytestmark = pytest.mark.slow

SCRIPTS = pytest.mark.parametrize("script", [True, False], ids=["with JavaScript", "without JavaScript"])
TENANT = "played"
POLICY = f"tenants/{TENANT}/policies/support"


@pytest.fixture(scope="module", autouse=True)
def played(place: Place) -> None:
    play(place.stack, TENANT, turns=40)


def explained(place: Place, episode: str) -> Any:
    """Read over gRPC what stands for an episode."""
    with place.calling(TENANT, "auditor", "VIEWER") as services:
        listed = decision_service_pb2.ListDecisionsRequest(policy=POLICY, episode_id=episode)
        (one,) = services.decisions.ListDecisions(listed).decisions
        return services.decisions.ExplainDecision(decision_service_pb2.ExplainDecisionRequest(name=one.name))


def reactions(place: Place, episode: str) -> list[tuple[float, int]]:
    """Read what people said of an episode: value and provenance."""
    with place.calling(TENANT, "auditor", "VIEWER") as services:
        request = episode_service_pb2.GetTimelineRequest(policy=POLICY, episode_id=episode)
        said = [entry.outcome for entry in services.episodes.GetTimeline(request).entries if entry.HasField("outcome")]
    return [(one.value, one.provenance) for one in said if one.signal == outcome_pb2.SIGNAL_HUMAN]


def incident(place: Place, name: str) -> Any:
    with place.calling(TENANT, "auditor", "VIEWER") as services:
        request = governance_service_pb2.ListIncidentsRequest(parent=f"tenants/{TENANT}")
        return next(one for one in services.governance.ListIncidents(request).incidents if one.name == name)


@SCRIPTS
def test_a_decision_is_found_by_its_episode_and_explained(place: Place, visits: Visits, script: bool) -> None:
    why = explained(place, "turn-9")
    with visits(TENANT, person="eve", script=script) as page:
        page.goto(f"/tenants/{TENANT}")
        page.locator("header.side").get_by_role("link", name="Decisions").click()
        page.get_by_label("Episode or decision").fill("turn-9")
        page.get_by_role("button", name="Search").click()
        page.get_by_role("link", name="turn-9").click()
        expect(page.locator("strong").filter(has_text=f"u = {why.draw:.6f}")).to_be_visible()
        chosen = page.get_by_role("row").filter(has_text="chosen")
        expect(chosen).to_contain_text(f"{why.decision.propensity:.4f}")
        page.get_by_role("link", name="Recompute it from the log").click()
        expect(page.get_by_role("status").first).to_contain_text("Recomputed from the log: the same.")
        page.get_by_role("link", name="turn-9").click()
        expect(page.get_by_role("heading", name="Where the reward comes from")).to_be_visible()
        page.goto(f"/{POLICY}/episode?id={VETOED}")
        expect(page.locator(".verdict")).to_contain_text("a guardrail found personal data")


@SCRIPTS
def test_a_click_is_one_outcome_of_the_person_who_clicks(place: Place, visits: Visits, script: bool) -> None:
    episode = "turn-20" if script else "turn-21"
    with visits(TENANT, person="root", role="admin", script=script) as page:
        page.goto(f"/tenants/{TENANT}/feedback")
        row = page.get_by_role("row").filter(has_text=episode)
        row.get_by_role("button", name="Bad").click()
        expect(page.get_by_role("status").first).to_contain_text(f"Recorded for {episode}")
        wait_for(lambda: reactions(place, episode), "the reaction")
        assert reactions(place, episode) == [(-1.0, outcome_pb2.HUMAN_PROVENANCE_THUMB)]
        page.get_by_role("row").filter(has_text=episode).get_by_text("Edited").click()
        page.get_by_role("row").filter(has_text=episode).get_by_label("Changed, in percent").fill("25")
        page.get_by_role("row").filter(has_text=episode).get_by_role("button", name="the edit of").click()
        expect(page.get_by_role("status").first).to_contain_text(f"Recorded for {episode}")
    wait_for(lambda: len(reactions(place, episode)) == 2, "the edit")
    assert reactions(place, episode)[1] == (0.25, outcome_pb2.HUMAN_PROVENANCE_EDITED)


@SCRIPTS
def test_an_incident_gets_an_owner_and_a_cause(place: Place, visits: Visits, script: bool) -> None:
    name = open_incident(place.stack, TENANT, "veto_rate")
    with visits(TENANT, person="root", role="admin", script=script) as page:
        page.goto(f"/{name}")
        page.get_by_label("Why").fill("I look")
        page.get_by_role("button", name="Acknowledge").click()
        expect(page.get_by_role("status").first).to_contain_text("It is yours now.")
        assert incident(place, name).state == governance_service_pb2.INCIDENT_STATE_ACKNOWLEDGED
        page.get_by_label("Why").fill("a guardrail was misread")
        page.get_by_role("button", name="Close with this cause").click()
        expect(page.get_by_text("Closed with its cause.")).to_be_visible()
    found = incident(place, name)
    assert (found.state, found.cause) == (governance_service_pb2.INCIDENT_STATE_CLOSED, "a guardrail was misread")
    assert found.owner.startswith("person:kedge#root")


def test_an_open_page_shows_what_happens_without_being_reloaded(place: Place, visits: Visits) -> None:
    with visits(TENANT, person="eve") as page:
        with page.expect_request("**/live"):
            page.goto(f"/tenants/{TENANT}/incidents")
        page.evaluate("window.untouched = true")
        expect(page.get_by_role("link", name="Answers grew longer")).to_have_count(0)
        open_incident(place.stack, TENANT, "answer_length")
        expect(page.get_by_role("link", name="Answers grew longer")).to_be_visible()
        assert page.evaluate("window.untouched")
