"""Three processes that share nothing but ports: an application, the service with its console, and a proposer.

A prompt is proposed, gated on answers fetched over HTTP, looked at and approved in Chromium by a second person; the
text that the application serves changes, and goes back in one action. Every step is in the audit log.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.protobuf.json_format import MessageToJson
from playwright.sync_api import Page, expect

from kedge.bandit.v1 import governance_service_pb2
from tests.browser.conftest import Visits
from tests.fixtures.console import Place, running_console
from tests.fixtures.gating import enough_cases, gate_url
from tests.fixtures.proposing import prompted
from tests.fixtures.second_person import person
from tests.fixtures.serving_app import PLAIN
from tests.fixtures.stack import Stack, accepted, free_port, is_serving, running_stack, wait_for

pytestmark = pytest.mark.slow

TENANT, POLICY = "shop", "support"
BETTER = "Answer plainly, and check it."
ROOT = Path(__file__).parents[2]
TURNS = 150
"""At .05 a turn, a text that is served fails to come in so many once in 2,000 times; then it is asked again."""
WORTH_A_LOOK = 5
"""Cases of each side that may be opened."""


@pytest.fixture(scope="module")
def place(fresh_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    gate = {"KEDGE_GATE_PORT": str(free_port()), "KEDGE_GATE_METRICS_PORT": "0"}
    folder = tmp_path_factory.mktemp("kedge")
    with running_stack(fresh_database, folder, **gate):
        pass  # it migrates, and so makes the gate's role
    gate["KEDGE_GATE_DATABASE_URL"] = gate_url(fresh_database)
    with running_console(fresh_database, folder, **gate) as running:
        address = f"127.0.0.1:{gate['KEDGE_GATE_PORT']}"
        running.stack.environment["KEDGE_GATE_ADDRESS"] = address
        wait_for(lambda: is_serving(address), "the gate to serve")
        yield running


def outside(stack: Stack, key: str) -> dict[str, str]:
    """What another process is told of the service: two ports and a key, no folder and no database."""
    ports = {name: stack.environment[name] for name in ("KEDGE_ADDRESS", "KEDGE_GATE_ADDRESS")}
    return {"PATH": os.environ["PATH"], "KEDGE_DATA_DIR": os.devnull, "KEDGE_KEY": key, **ports}


@contextmanager
def application(stack: Stack, key: str) -> Iterator[str]:
    """Run the core application; gives its address."""
    command = [sys.executable, "-m", "tests.fixtures.serving_app", stack.address, key, TENANT]
    told = {"PATH": os.environ["PATH"]}
    with subprocess.Popen(command, cwd=ROOT, env=told, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


def serves(app: httpx.Client, text: str) -> bool:
    """Ask for many turns; says whether the text comes in one of them. None may be a fallback."""
    for _ in range(TURNS):
        turn = app.get("/turn").json()
        assert not turn["fallback"], turn["failure"]
        if turn["text"] == text:
            return True
    return False


def kedge(stack: Stack, key: str, *arguments: str) -> Any:
    """Run the command line as somebody; gives the document that it prints."""
    command = [str(Path(sys.executable).parent / "kedge"), *arguments, "--json"]
    done = subprocess.run(command, env=outside(stack, key), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def put_holdout(stack: Stack, curator: str, admin: str, app: str, folder: Path) -> None:
    """Import cases, and say that the application answers them over HTTP."""
    cases, answerer = folder / "cases.jsonl", folder / "answerer.json"
    cases.write_text("".join(MessageToJson(case, indent=None) + "\n" for case in enough_cases()), encoding="utf-8")
    answerer.write_text(json.dumps({"answerer": {"kind": "ANSWERER_KIND_OPENAI", "address": f"{app}/v1"}}))
    kedge(stack, curator, "holdout", "import", TENANT, POLICY, str(cases))
    kedge(stack, admin, "holdout", "answerer", TENANT, POLICY, "--file", str(answerer))


def look_and_approve(page: Page, name: str) -> None:
    """Read the verdict, open what changed most, and approve."""
    page.goto(f"/{name}")
    expect(page.locator(".verdict")).to_contain_text("No worse than the incumbent: at the least")
    expect(page.locator("#gate")).to_contain_text("answered by openai")
    page.get_by_role("link", name="Cases that changed most").click()
    page.get_by_label("Why").fill("to see what it is better at")
    page.get_by_role("button", name="Open the cases").click()
    opened = page.locator("article")
    expect(opened).to_have_count(WORTH_A_LOOK)  # the candidate is better at one in five, and worse at none
    for one in opened.all():
        expect(one.locator("pre").first).to_contain_text("number ")
        incumbent, candidate = one.locator(".columns > div").all()
        expect(incumbent).to_contain_text("Incumbent 0.00")
        expect(incumbent.locator("pre")).to_have_text("wrong")
        expect(candidate).to_contain_text("Candidate 1.00")
        expect(candidate.locator("pre")).to_have_text("right")
    decide(page, name, "#decide", "Approve", "no slice loses")
    expect(page.get_by_text("Approved, and served from now on.")).to_be_visible()


def decide(page: Page, name: str, place: str, button: str, because: str) -> None:
    page.goto(f"/{name}")
    page.locator(place).get_by_label("Why").fill(because)
    page.locator(place).get_by_role("button", name=button).click()


def audited(place: Place) -> list[tuple[str, str]]:
    """Read verb and actor of every event about holdout, proposal and arm, oldest first, as somebody else."""
    with place.calling(TENANT, "auditor", "VIEWER") as services:
        request = governance_service_pb2.ListAuditEventsRequest(parent=f"tenants/{TENANT}", page_size=1000)
        events = services.governance.ListAuditEvents(request).events
        assert services.governance.VerifyAudit(
            governance_service_pb2.VerifyAuditRequest(parent=f"tenants/{TENANT}")
        ).intact
    about = ("holdout.", "proposal.", "arm.", "policy.configured")
    return [(event.verb, event.actor) for event in reversed(events) if event.verb.startswith(about)]


def test_a_proposed_prompt_changes_the_text_that_the_application_serves_and_goes_back(
    place: Place, visits: Visits, tmp_path: Path
) -> None:
    stack = place.stack
    key = stack.tenant(TENANT)
    policy = prompted(f"tenants/{TENANT}")
    policy.exploration.budget_off = True  # nothing is learned here, and so nothing would be explored
    stack.put_policy(policy)
    curator = person(stack, TENANT, "carol", "ROLE_APPROVER")
    made = kedge(stack, stack.operator_key, "key", "create", TENANT, "--principal", "optimiser", "--role", "trainer")
    proposer = made["key"]
    with application(stack, key) as address, httpx.Client(base_url=address, timeout=60) as app:
        put_holdout(stack, curator, key, address, tmp_path)
        assert not serves(app, BETTER)

        text = tmp_path / "better.txt"
        text.write_text(BETTER, encoding="utf-8")
        wish = ("--kind", "prompt", "--arm", "checked", "--file", str(text), "--because", "it makes fewer mistakes")
        wait_for(lambda: accepted_key(stack, proposer), "the proposer's key to be accepted")
        name = kedge(stack, proposer, "proposal", "submit", TENANT, POLICY, *wish)["name"]
        gate = kedge(stack, curator, "proposal", "wait", name, "--for", "awaiting_approval", "--timeout", "240")
        result = gate["gate_result"]
        assert (result["verdict"], result["answerer_kind"], result["vetoes"]) == ("PASS", "OPENAI", 0)
        assert 0.1 < result["quality"]["mean"] < 0.3
        assert result["cases"] >= 150
        assert not serves(app, BETTER)

        with visits(TENANT, person="bob", role="approver") as page:
            look_and_approve(page, name)
            assert kedge(stack, curator, "proposal", "show", name)["state"] == "SERVING"
            wait_for(lambda: serves(app, BETTER), "the text to be served")

            decide(page, name, "#revert", "Revert", "to see it go back")
            expect(page.get_by_text("the predecessor is served again")).to_be_visible()
        assert kedge(stack, curator, "proposal", "show", name)["state"] == "REVERTED"
        wait_for(lambda: not serves(app, BETTER), "the text to be gone")
        assert serves(app, PLAIN)

    second = "person:kedge#bob by key:console"
    assert audited(place) == [
        ("holdout.cases_imported", "person:https://login.example#carol by key:carol"),
        ("holdout.answerer_put", "key:core-app"),
        ("proposal.submitted", "key:optimiser"),
        ("proposal.gate_started", "key:optimiser"),
        ("proposal.gate_concluded", "kedge"),
        ("holdout.cases_opened", second),
        ("proposal.approved", second),
        ("arm.added", second),
        ("proposal.served", second),
        ("policy.configured", second),
        ("proposal.reverted", second),
    ]


def accepted_key(stack: Stack, key: str) -> bool:
    """Say whether a key works by now."""
    with stack.services(key) as services:
        return accepted(services, TENANT)
