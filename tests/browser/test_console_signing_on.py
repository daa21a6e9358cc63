"""People sign on by a provider that we did not write: code flow, PKCE, nonce; what is not theirs is refused."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from kedge.bandit.v1 import governance_service_pb2, policy_pb2
from tests.browser.conftest import SECONDS, package
from tests.fixtures.console import Place, wait_for_console
from tests.fixtures.proposing import prompted
from tests.fixtures.stack import free_port, running_stack, wait_for

pytestmark = pytest.mark.slow

AUDIENCE = "https://kedge.example/api"
ROLES = {"alice": {"signing": "approver"}, "eve": {"signing": "viewer"}, "nobody": None}


@contextmanager
def provider(console_port: int, folder: Path) -> Iterator[int]:
    """Run the provider; it writes its public keys into the folder."""
    port = free_port()
    arguments = [
        str(package("oidc-provider") / "lib" / "index.js"),
        str(port),
        f"http://127.0.0.1:{console_port}/login/return",
        AUDIENCE,
        str(folder / "jwks.json"),
        json.dumps(ROLES),
    ]
    script = str(Path(__file__).with_name("provider.mjs"))
    with (folder / "provider.log").open("wb") as log:
        process = subprocess.Popen(["node", script, *arguments], stdout=log, stderr=log)
        try:
            wait_for(lambda: _answers(f"http://127.0.0.1:{port}/.well-known/openid-configuration"), "the provider")
            yield port
        finally:
            process.terminate()
            process.wait(20)


def _answers(address: str) -> bool:
    try:
        return httpx.get(address, timeout=5).is_success
    except httpx.TransportError:
        return False


@pytest.fixture(scope="module")
def signed(fresh_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, str]]:
    """Give a service with a console behind the provider, and the provider's address."""
    package("oidc-provider")
    folder, console_port = tmp_path_factory.mktemp("kedge"), free_port()
    with provider(console_port, folder) as port:
        issuer = f"http://127.0.0.1:{port}"
        settings = {
            "KEDGE_GATE_PORT": "0",
            "KEDGE_CONSOLE_PORT": str(console_port),
            "KEDGE_CONSOLE_CLIENT_ID": "console",
            "KEDGE_CONSOLE_CLIENT_SECRET": "a secret of the console's tests, thirty-two",
            "KEDGE_JWT_ISSUER": issuer,
            "KEDGE_JWT_AUDIENCE": AUDIENCE,
            "KEDGE_JWT_KEYS": str(folder / "jwks.json"),
        }
        with running_stack(fresh_database, folder, **settings) as stack:
            place = Place(stack, console_port)
            wait_for_console(place)
            stack.tenant("signing")
            stack.put_policy(prompted("tenants/signing"))
            yield place, issuer


@contextmanager
def browsing(chromium: Browser, place: Place) -> Iterator[Page]:
    context = chromium.new_context(base_url=place.address)
    context.set_default_timeout(SECONDS)
    try:
        yield context.new_page()
    finally:
        context.close()


def sign_on(page: Page, who: str) -> None:
    page.get_by_role("link", name="Sign on").click()
    page.locator("input[name=login]").fill(who)
    page.locator("input[name=password]").fill("whatever")
    page.get_by_role("button").first.click()
    page.get_by_role("button", name="Continue").click()


def test_a_person_signs_on_comes_back_to_the_page_and_acts_under_their_own_name(
    signed: tuple[Place, str], chromium: Browser
) -> None:
    place, issuer = signed
    policy = "tenants/signing/policies/support"
    with browsing(chromium, place) as page:
        page.goto(f"/{policy}/freeze")
        sign_on(page, "alice")
        page.wait_for_url(f"**/{policy}/freeze")
        page.get_by_label("Why").fill("signed and frozen")
        page.get_by_role("button", name="Freeze policy").click()
        expect(page.get_by_text("support is frozen").first).to_be_visible()
        cookies = page.context.cookies(place.address)
    assert "eyJ" not in json.dumps(cookies)
    with place.stack.services() as services:
        mode = services.governance.GetMode(governance_service_pb2.GetModeRequest(name=policy))
        events = services.governance.ListAuditEvents(
            governance_service_pb2.ListAuditEventsRequest(parent="tenants/signing", page_size=1)
        ).events
    assert mode.mode == policy_pb2.MODE_FROZEN
    assert events[0].actor == f"person:{issuer}#alice"


def test_the_role_is_the_token_s(signed: tuple[Place, str], chromium: Browser) -> None:
    place, _ = signed
    with browsing(chromium, place) as page:
        page.goto("/")
        sign_on(page, "eve")
        page.wait_for_url(f"{place.address}/")
        assert page.goto("/tenants/signing/freeze").status == httpx.codes.FORBIDDEN  # type: ignore[union-attr]
        assert page.goto("/tenants/other").status == httpx.codes.NOT_FOUND  # type: ignore[union-attr]


def test_somebody_without_a_role_does_not_get_in(signed: tuple[Place, str], chromium: Browser) -> None:
    place, _ = signed
    with browsing(chromium, place) as page:
        page.goto("/")
        sign_on(page, "nobody")
        expect(page.get_by_text("is not taken by Kedge")).to_be_visible()
        page.goto("/")
        expect(page.get_by_role("link", name="Sign on")).to_be_visible()


def test_an_answer_of_the_provider_is_taken_once_and_in_the_browser_that_asked(
    signed: tuple[Place, str], chromium: Browser
) -> None:
    place, _ = signed
    answers: list[str] = []
    with browsing(chromium, place) as page:
        page.on("request", lambda asked: answers.append(asked.url) if "/login/return" in asked.url else None)
        page.goto("/login")
        sign_on(page, "alice")
        page.wait_for_url(f"{place.address}/")
        page.goto(answers[0])
        expect(page.get_by_text("was not begun in this browser")).to_be_visible()
    begun = httpx.get(f"{place.address}/login/provider")
    state = httpx.URL(begun.headers["location"]).params
    assert state["code_challenge_method"] == "S256"
    assert len(state["nonce"]) >= 32
    stolen = httpx.get(f"{place.address}/login/return", params={"state": state["state"], "code": "x"})
    assert stolen.status_code == httpx.codes.FORBIDDEN


def test_links_are_not_taken_where_people_sign_on(signed: tuple[Place, str]) -> None:
    place, _ = signed
    done = place.stack.kedge_here(
        "console", "link", KEDGE_CONSOLE_PORT=str(place.port), KEDGE_CONSOLE_CLIENT_ID="console"
    )
    assert done.exit_code == 1
    assert httpx.get(f"{place.address}/login/link/whatever").status_code == httpx.codes.GONE
