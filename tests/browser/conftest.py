"""Browsers for the console's tests: Debian's Chromium driven by Playwright. What is missing skips its tests by name."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.architecture.tree import ROOT
from tests.fixtures.console import Place, running_console

PACKAGES = ROOT / "build" / "browser" / "node_modules"
SECONDS = 30_000.0

Visits = Callable[..., AbstractContextManager[Page]]


def package(name: str) -> Path:
    """Find what `make test` installed by npm, or skip."""
    found = PACKAGES / name
    if shutil.which("node") is None or not found.exists():
        pytest.skip(f"{name} is not installed: make test-system-deps, then make test")
    return found


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Give a browser. For a module only: while it is open, this thread has its event loop."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is not installed: make test-system-deps")
    with sync_playwright() as playwright:
        # Tests may run as root, which Chromium's own sandbox refuses; it only ever sees our pages.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def place(fresh_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Give a service with a console and no gate; tests conclude as the gate does."""
    with running_console(fresh_database, tmp_path_factory.mktemp("kedge"), KEDGE_GATE_PORT="0") as running:
        yield running


@pytest.fixture
def visits(chromium: Browser, place: Place) -> Visits:
    """Give what logs somebody in: `with visits("acme", person="bob", role="approver") as page`."""

    @contextmanager
    def visit(
        *tenants: str,
        person: str = "",
        role: str = "viewer",
        script: bool = True,
        dark: bool = False,
        width: int = 1280,
    ) -> Iterator[Page]:
        context = chromium.new_context(
            base_url=place.address,
            java_script_enabled=script,
            color_scheme="dark" if dark else "light",
            viewport={"width": width, "height": 900},
        )
        context.set_default_timeout(SECONDS)
        page = context.new_page()
        page.goto(place.link(*tenants, person=person, role=role))
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(f"{place.address}/")
        try:
            yield page
        finally:
            context.close()

    return visit
