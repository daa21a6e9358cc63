"""The Gym in a browser: an episode of each environment side by side, by keyboard, without a script, for everybody."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visits, package
from tests.browser.test_console_looks import violations
from tests.fixtures.console import Place, running_console
from tests.fixtures.gym import running_gym
from tests.fixtures.openenv import Host

pytestmark = pytest.mark.slow

ENVIRONMENTS = ("brief_routing_env", "call_audit_env", "fleet_oversight_env", "relocation_env")


@pytest.fixture(scope="module")
def place(fresh_database: str, tmp_path_factory: pytest.TempPathFactory, openenv_host: Host) -> Iterator[Place]:
    data_dir = tmp_path_factory.mktemp("kedge")
    with (
        running_gym(openenv_host.urls) as gym,
        running_console(fresh_database, data_dir, KEDGE_GATE_PORT="0", KEDGE_GYM_URL=gym) as running,
    ):
        running.stack.tenant("acme")
        yield running


def step_of(page: Page) -> tuple[int, int]:
    """Read where the page is: the step, and how many there are."""
    words = page.locator("#at").inner_text()
    number = re.search(r"Step (\d+)", words)
    of = re.search(r"of (\d+)", words)
    assert of is not None, words
    return int(number[1]) if number else 0, int(of[1])


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_three_policies_play_side_by_side_and_the_arrow_keys_step(visits: Visits, name: str) -> None:
    with visits("acme", person="eve") as page:
        page.goto(f"/gym?environment={name}")
        lanes = page.locator("article.lane")
        expect(lanes).to_have_count(3)
        expect(page.get_by_text("Nothing done yet.")).to_have_count(3)
        for step in range(1, 5):
            page.keyboard.press("ArrowRight")
            expect(page.locator("#at")).to_contain_text(f"Step {step} ")
        page.keyboard.press("End")
        expect(page.locator(".lane .grade")).to_have_count(3)
        page.keyboard.press("ArrowRight")
        end = step_of(page)
        assert end[0] == end[1] >= 5
        page.keyboard.press("ArrowLeft")
        expect(page.locator("#at")).to_contain_text(f"Step {end[1] - 1} ")
        expect(page.locator("#said")).to_contain_text(f"Step {end[1] - 1} ")
        assert f"step={end[1] - 1}" in page.url
        page.keyboard.press("Home")
        expect(page.locator("#at")).to_contain_text("Before the first step")


def test_a_policy_that_skips_an_expert_is_seen_to_hand_in_an_incomplete_brief(visits: Visits) -> None:
    address = "/gym?environment=brief_routing_env&task=hard_brief&seed=3&policy=naive&policy=oracle&on=eval_mode&set=1"
    with visits("acme", person="eve") as page:
        page.goto(address)
        naive, oracle = (
            page.locator("article.lane", has=page.locator(f"#lane-{name}")) for name in ("naive", "oracle")
        )
        expect(naive.get_by_text("needed, not visited yet")).to_have_count(4)
        page.keyboard.press("End")
        expect(naive.get_by_role("alert")).to_contain_text("Incomplete brief handed in.")
        expect(naive.get_by_role("alert")).to_contain_text("It lacks finance, strategy, HR.")
        expect(naive.get_by_text("skipped, though needed")).to_have_count(3)
        expect(oracle.get_by_text("Complete brief handed in.")).to_be_visible()
        expect(oracle.get_by_text("skipped, though needed")).to_have_count(0)
        assert float(naive.locator(".grade").inner_text().split()[0]) < 0.3
        assert float(oracle.locator(".grade").inner_text().split()[0]) > 0.9


def test_an_episode_is_chosen_and_played_by_keyboard_alone(visits: Visits) -> None:
    with visits("acme", person="eve") as page:
        page.goto("/gym?environment=relocation_env")
        page.locator("#seed").focus()
        page.keyboard.press("ControlOrMeta+a")
        page.keyboard.type("7")
        page.keyboard.press("ArrowRight")
        assert step_of(page)[0] == 0, "an arrow in a field moves the caret, not the episode"
        page.get_by_label("Blind").focus()
        page.keyboard.press("Space")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Play"
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile(r"seed=7.*on=blind|on=blind.*seed=7"))
        page.locator("#go-next").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#at")).to_contain_text("Step 1 ")
        assert page.evaluate("document.activeElement.id") == "go-next"


def test_without_a_script_each_step_is_a_page(visits: Visits) -> None:
    with visits("acme", person="eve", script=False) as page:
        page.goto("/gym?environment=fleet_oversight_env")
        page.get_by_label("Policy 3").select_option("")
        page.get_by_role("button", name="Play").click()
        expect(page.locator("article.lane")).to_have_count(2)
        page.get_by_role("link", name="Next").click()
        expect(page.locator("#at")).to_contain_text("Step 1 ")
        page.get_by_role("link", name="Last").click()
        expect(page.locator(".lane .grade")).to_have_count(2)


def test_what_cannot_be_played_says_so_in_its_place(visits: Visits) -> None:
    with visits("acme", person="eve") as page:
        page.goto("/gym?environment=brief_routing_env&task=audit_brief&policy=naive&on=compat&on=eval_mode&set=1")
        expect(page.get_by_role("alert")).to_contain_text("task audit_brief is not played with compat")
        page.goto("/gym?environment=nowhere&task=%3Cscript%3E&seed=x&policy=%22%3E&step=-1&set=1")
        expect(page.locator("article.lane")).to_have_count(3)


def test_axe_finds_nothing_and_nothing_is_cut_off_at_any_step(visits: Visits) -> None:
    axe = (package("axe-core") / "axe.min.js").read_text(encoding="utf-8")
    found: dict[str, object] = {}
    for dark, width in ((False, 1280), (True, 390)):
        with visits("acme", person="eve", dark=dark, width=width) as page:
            for name in ENVIRONMENTS:
                for step in (3, 999):
                    page.goto(f"/gym?environment={name}&step={step}")
                    expect(page.locator("article.lane")).to_have_count(3)
                    page.evaluate(axe)
                    key = f"{name} {step} {'dark' if dark else 'light'} {width}"
                    if wrong := violations(page):
                        found[key] = wrong
                    if page.evaluate("document.documentElement.scrollWidth") > width:
                        found[f"{key} overflows"] = True
    assert found == {}
