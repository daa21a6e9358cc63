"""What people do in a browser happens: seen on the page, and by a gRPC call with a credential the console never had."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from kedge.bandit.v1 import governance_service_pb2, policy_pb2, policy_service_pb2, proposal_pb2, proposal_service_pb2
from tests.browser.conftest import Visits
from tests.fixtures.console import Place
from tests.fixtures.proposing import a_pass

pytestmark = pytest.mark.slow

SCRIPTS = pytest.mark.parametrize("script", [True, False], ids=["with JavaScript", "without JavaScript"])
State = proposal_pb2.Proposal.State
TENANT = "deciding"


@pytest.fixture(scope="module", autouse=True)
def tenant(place: Place) -> None:
    place.tenant(TENANT)


def mode(place: Place) -> int:
    with place.calling(TENANT, "auditor", "VIEWER") as services:
        request = governance_service_pb2.GetModeRequest(name=f"tenants/{TENANT}/policies/support")
        return int(services.governance.GetMode(request).mode)


def state(place: Place, name: str) -> str:
    with place.calling(TENANT, "auditor", "VIEWER") as services:
        found = services.proposals.GetProposal(proposal_service_pb2.GetProposalRequest(name=name)).proposal
    return State.Name(found.state)


def prompts(place: Place) -> dict[str, str]:
    with place.calling(TENANT, "auditor", "VIEWER") as services:
        request = policy_service_pb2.GetPolicyRequest(name=f"tenants/{TENANT}/policies/support")
        arms = services.policies.GetPolicy(request).policy.arms
    kind = policy_pb2.DIMENSION_PROMPT_VARIANT
    return {arm.name: arm.content for arm in arms if arm.dimension == kind and not arm.HasField("retire_time")}


def last_event(place: Place) -> Any:
    with place.calling(TENANT, "auditor", "VIEWER") as services:
        request = governance_service_pb2.ListAuditEventsRequest(parent=f"tenants/{TENANT}", page_size=1)
        return services.governance.ListAuditEvents(request).events[0]


def decide(page: Page, name: str, button: str, because: str) -> None:
    page.goto(f"/{name}")
    card = page.locator("#decide, #revert")
    card.get_by_label("Why").fill(because)
    card.get_by_role("button", name=button).click()


@SCRIPTS
def test_a_freeze_and_its_end(place: Place, visits: Visits, script: bool) -> None:
    with visits(TENANT, person="bob", role="approver", script=script) as page:
        page.get_by_role("link", name="Freeze support").click()
        page.get_by_label("Why").fill("it answers in Latin")
        page.get_by_role("button", name="Freeze policy").click()
        expect(page.get_by_role("status").first).to_contain_text("support is frozen")
        expect(page.get_by_text("it answers in Latin").first).to_be_visible()
        assert mode(place) == policy_pb2.MODE_FROZEN
    with visits(TENANT, person="root", role="admin", script=script) as page:
        page.get_by_role("link", name="Unfreeze support").click()
        page.get_by_label("Why").fill("it was a joke")
        page.get_by_label("Replay it").check()
        page.get_by_role("button", name="Unfreeze policy").click()
        expect(page.get_by_role("status").first).to_contain_text("support is in mode APPLY again")
    assert mode(place) == policy_pb2.MODE_APPLY
    assert last_event(place).verb == "policy.unfrozen"
    assert last_event(place).actor == "person:kedge#root by key:console"


@SCRIPTS
def test_an_approval_serves_the_text_and_a_revert_takes_it_back(place: Place, visits: Visits, script: bool) -> None:
    text = f"Answer as a poet would, {script}."
    name = place.waiting(TENANT, text, a_pass())
    with visits(TENANT, person="bob", role="approver", script=script) as page:
        page.goto("/proposals")
        page.get_by_role("link", name="candidate").first.click()
        expect(page.locator(".verdict")).to_contain_text("No worse than the incumbent")
        decide(page, name, "Approve", "the evidence is good")
        expect(page.get_by_text("Approved, and served from now on.")).to_be_visible()
        assert state(place, name) == "STATE_SERVING"
        assert text in prompts(place).values()
        decide(page, name, "Revert", "the customers disagree")
        expect(page.get_by_text("the predecessor is served again")).to_be_visible()
    assert state(place, name) == "STATE_REVERTED"
    assert text not in prompts(place).values()
    event = last_event(place)
    assert (event.actor, event.because) == ("person:kedge#bob by key:console", "the customers disagree")


@SCRIPTS
def test_a_rejection(place: Place, visits: Visits, script: bool) -> None:
    name = place.waiting(TENANT, f"Shout, {script}.", a_pass())
    with visits(TENANT, person="bob", role="approver", script=script) as page:
        decide(page, name, "Reject", "not our tone")
        expect(page.get_by_text("Rejected.").first).to_be_visible()
        expect(page.locator("#decide")).to_have_count(0)
    assert state(place, name) == "STATE_REJECTED"
    assert f"Shout, {script}." not in prompts(place).values()


def test_an_approval_by_keyboard_alone(place: Place, visits: Visits) -> None:
    name = place.waiting(TENANT, "Answer by hand.", a_pass())
    with visits(TENANT, person="bob", role="approver") as page:
        press_until(page, "a[href='/proposals']")
        page.keyboard.press("Enter")
        page.wait_for_url("**/proposals")
        press_until(page, f"a[href='/{name}']")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/{name}")
        press_until(page, "#decide textarea")
        page.keyboard.type("read it, liked it")
        press_until(page, "#decide button.first")
        page.keyboard.press("Enter")
        expect(page.get_by_text("Approved, and served from now on.")).to_be_visible()
    assert state(place, name) == "STATE_SERVING"


def press_until(page: Page, selector: str) -> None:
    """Press Tab until an element has the focus, and demand that one can see that it has."""
    for _ in range(80):
        page.keyboard.press("Tab")
        focused = page.locator(":focus")
        if focused.count() and focused.evaluate("(one, selector) => one.matches(selector)", selector):
            assert focused.evaluate("one => getComputedStyle(one).outlineStyle") != "none"
            return
    raise AssertionError(f"Tab never reaches {selector}")


def test_what_was_read_is_what_is_approved(place: Place, visits: Visits) -> None:
    """The page binds to its evidence: a stale page approves nothing."""
    name = place.waiting(TENANT, "Answer soon.", a_pass())
    with visits(TENANT, person="bob", role="approver") as page:
        page.goto(f"/{name}")
        page.locator("#decide input[name=binding_hash]").evaluate("one => { one.value = 'f'.repeat(64) }")
        page.locator("#decide").get_by_label("Why").fill("whatever")
        page.get_by_role("button", name="Approve").click()
        expect(page.get_by_role("alert")).to_contain_text("Not done.")
    assert state(place, name) == "STATE_AWAITING_APPROVAL"


def test_nobody_approves_their_own(place: Place, visits: Visits) -> None:
    name = place.waiting(TENANT, "Answer me.", a_pass(), author="root")
    with visits(TENANT, person="root", role="admin") as page:
        page.goto(f"/{name}")
        expect(page.get_by_text("You wrote it: another person has to decide.")).to_be_visible()
        expect(page.get_by_role("button", name="Approve")).to_have_count(0)
        address = f"/{name}/approve"
        answer = page.evaluate(
            "(to) => fetch(to, {method: 'POST', body: new URLSearchParams({because: 'mine'})}).then(a => a.status)",
            address,
        )
    assert answer in (400, 403, 409)
    assert state(place, name) == "STATE_AWAITING_APPROVAL"
