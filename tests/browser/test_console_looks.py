"""Every page is fit for everybody: axe finds nothing in both themes, nothing is cut off on a phone."""

from functools import partial

import pytest
from playwright.sync_api import ConsoleMessage, Error, Page

from kedge.bandit.v1 import decision_service_pb2
from tests.browser.conftest import Visits, package
from tests.fixtures.console import Place
from tests.fixtures.played import VETOED, open_incident, play
from tests.fixtures.proposing import a_pass

pytestmark = pytest.mark.slow

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def pages(place: Place) -> list[str]:
    """Fill a tenant, and list a page of every kind."""
    policy = place.tenant("looked-at")
    waiting = place.waiting("looked-at", "Answer.\nBriefly.", a_pass())
    played = play(place.stack, "played", turns=65)
    incident = open_incident(place.stack, "played")
    with place.stack.services() as services:
        listed = decision_service_pb2.ListDecisionsRequest(policy=played, page_size=30)
        decision = services.decisions.ListDecisions(listed).decisions[-1].name
    record = [
        f"/{policy}/divergence", f"/{policy}/over-time", f"/{policy}/experiments", "/tenants/looked-at/decisions",
        f"/{played}/belief?bucket=task%3Dmath", f"/{played}/over-time?span=hour", f"/{decision}?replay=yes",
        "/tenants/played/decisions", "/tenants/played/episodes?state=VETOED", f"/{played}/episode?id=turn-3",
        f"/{played}/episode?id={VETOED}", "/tenants/played/incidents", f"/{incident}", "/tenants/played/connect",
        "/tenants/played/feedback", "/tenants/looked-at/connect",
    ]  # fmt: skip
    return [
        *record,
        "/", "/gym", "/proposals", "/tenants/looked-at", f"/{policy}", f"/{policy}/freeze", f"/{policy}/holdout",
        "/tenants/looked-at/freeze", "/tenants/looked-at/proposals", "/tenants/looked-at/proposals?show=ended",
        f"/{waiting}", f"/{waiting}/cases", "/tenants/looked-at/holdout", "/tenants/looked-at/audit",
        "/tenants/looked-at/audit?kind=switch&span=week", "/tenants/nobody", "/everything/freeze",
    ]  # fmt: skip


def violations(page: Page) -> list[str]:
    found = page.evaluate("(tags) => axe.run(document, {runOnly: tags}).then(found => found.violations)", TAGS)
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:120]} {one['nodes'][0].get('failureSummary', '')}" for one in found
    ]


def _hear(said: list[str], message: ConsoleMessage | Error) -> None:
    said.append(message.text if isinstance(message, ConsoleMessage) else str(message))


def test_axe_finds_nothing_nothing_is_cut_off_and_no_error_is_logged(place: Place, visits: Visits) -> None:
    axe = package("axe-core") / "axe.min.js"
    places = pages(place)
    script = axe.read_text(encoding="utf-8")
    found: dict[str, object] = {}
    for dark, width in ((False, 1280), (True, 390)):
        with visits("looked-at", "played", person="root", role="admin", dark=dark, width=width) as page:
            said: list[str] = []
            page.on("console", partial(_hear, said))
            page.on("pageerror", partial(_hear, said))
            for address in places:
                page.goto(address)
                page.evaluate(script)
                key = f"{address} {'dark' if dark else 'light'} {width}"
                if wrong := violations(page):
                    found[key] = wrong
                if page.evaluate("document.documentElement.scrollWidth") > width:
                    found[f"{key} overflows"] = True
            errors = [line for line in said if "Failed to load resource" not in line]
            if errors:
                found["console"] = errors
    assert found == {}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_login_page_too(visits: Visits, dark: bool) -> None:
    axe = (package("axe-core") / "axe.min.js").read_text(encoding="utf-8")
    with visits(dark=dark) as page:
        page.goto("/login")
        page.evaluate(axe)
        assert violations(page) == []
