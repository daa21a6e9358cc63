"""Parts of the console by themselves: what is drawn and said is what came in, and nothing in it acts."""

import html
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import typer
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from kedge.bandit.v1 import (
    decision_pb2,
    policy_pb2,
    policy_service_pb2,
    proposal_pb2,
)
from kedge_bandit.adapters.console import audit, diff, rendering
from kedge_bandit.adapters.console.app import Console, build_app
from kedge_bandit.adapters.console.backend import Backend
from kedge_bandit.adapters.console.gym_wire import Gym
from kedge_bandit.adapters.console.inert import inert
from kedge_bandit.adapters.console.login import Doors
from kedge_bandit.adapters.console.pages import PAGES
from kedge_bandit.adapters.console.rendering import make_rendering
from kedge_bandit.adapters.console.sessions import COOKIE, LONGEST_SECONDS, Session, Sessions
from kedge_bandit.adapters.console.standing import stand
from kedge_bandit.adapters.console.verdict import Verdict
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.principal import Permission, Person, Role
from kedge_bandit.entrypoints.cli import app

ACME = TenantId("acme")
texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Zl", "Zp"], include_characters="\n<&"))


def plain(line: object) -> str:
    return html.unescape(re.sub(r"</?(?:del|ins)>", "", str(line)))


@given(texts, texts)
def test_each_side_of_a_diff_is_its_text_line_by_line(before: str, after: str) -> None:
    rows = diff.rows(before, after)
    assert [plain(row.before) for row in rows if row.before is not None] == before.splitlines()
    assert [plain(row.after) for row in rows if row.after is not None] == after.splitlines()
    assert all(row.before == row.after for row in rows if not row.changed)


@given(st.text(), st.text())
def test_a_diff_has_no_tags_but_its_own(before: str, after: str) -> None:
    for row in diff.rows(before, after):
        for line in (row.before, row.after):
            assert "<" not in re.sub(r"</?(?:del|ins)>", "", str(line or ""))


@given(st.text())
def test_what_a_browser_would_obey_or_hide_is_spelled_out(text: str) -> None:
    shown = str(inert(text))
    assert not re.search("[\x00-\x08\x0e-\x1f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", shown)


def test_every_page_is_listed_once_and_every_action_takes_more_than_reading() -> None:
    assert len({(page.method, page.path) for page in PAGES}) == len(PAGES)
    reading = {page.path for page in PAGES if page.method == "POST" and page.permission is Permission.READ}
    assert reading == {"/tenants/{tenant}/audit/verify"}


def test_every_template_can_be_read() -> None:
    environment = make_rendering().environment
    assert len([environment.get_template(name) for name in environment.list_templates()]) > 10


def test_every_command_line_that_a_page_shows_is_a_command() -> None:
    shown = set()
    for path in Path(rendering.__file__).with_name("templates").glob("*.html"):
        shown |= set(re.findall(r"kedge ([a-z-]+)(?: ([a-z]+))?", path.read_text(encoding="utf-8")))
    wrong = []
    for noun, verb in shown:
        command = typer.main.get_command(app).get_command(None, noun)  # type: ignore[attr-defined]  # a group
        verbs = getattr(command, "commands", {})
        if command is None or (verbs and verb and verb not in verbs):
            wrong.append((noun, verb))
    assert len(shown) > 20
    assert wrong == []


@pytest.mark.parametrize(
    ("changes", "headline"),
    [
        ({"effective_mode": policy_pb2.MODE_FROZEN}, "Frozen with its tenant"),
        ({"effective_mode": policy_pb2.MODE_OBSERVE}, "Only observing with its tenant"),
        ({"allocation_version": 0}, "No allocation yet"),
        ({"closed_reason": decision_pb2.DECISION_REASON_BUDGET}, "No exploration budget left"),
        ({"closed_reason": decision_pb2.DECISION_REASON_CAP, "capped_until": Timestamp(seconds=1)}, "A cap is reached"),
        ({"learning_held": "NO_SAFETY_VERDICT"}, "Learning held"),
        ({"self_check": policy_pb2.SelfCheck(alarm=True)}, "Self-check alarm"),
        ({"actions": [policy_pb2.ActionStatus(action_key="a@1", eligible=False)]}, "1 action excluded"),
        ({}, None),
    ],
)
def test_what_holds_a_policy_back_is_said_first(changes: dict[str, object], headline: str | None) -> None:
    status = policy_service_pb2.GetPolicyStatusResponse(effective_mode=policy_pb2.MODE_APPLY, allocation_version=3)
    status.policy.exploration.exploitation_floor = 0.5
    status.MergeFrom(policy_service_pb2.GetPolicyStatusResponse(**changes))  # type: ignore[arg-type]  # fields by name
    if changes.get("allocation_version") == 0:
        status.allocation_version = 0
    worst = stand(status, "tenant", None).worst
    assert (worst.headline if worst is not None else None) == headline


def test_a_passing_verdict_names_what_got_worse() -> None:
    result = proposal_pb2.GateResult(verdict=proposal_pb2.GATE_VERDICT_PASS, margin=0.05, lower_bound=-0.02, cases=300)
    result.quality.mean, result.cost_usd.lower, result.cost_usd.mean = 0.01, 0.001, 0.002
    result.slices.add(name="refunds", cases=40).quality.mean = -0.08
    result.slices.add(name="billing", cases=40).quality.mean = 0.1
    verdict = Verdict(result)
    assert verdict.worst is not None
    assert verdict.worst.name == "refunds"
    assert [word in " ".join(verdict.doubts) for word in ("refunds", "costs more", "slower")] == [True, True, False]


def test_a_reader_without_the_evidence_sees_a_verdict_in_words() -> None:
    closed = Verdict(proposal_pb2.GateResult(verdict=proposal_pb2.GATE_VERDICT_FAIL, rounded_lift=-0.1))
    assert not closed.is_open
    assert closed.words
    assert not closed.doubts


def test_a_session_ends_with_its_credential_and_after_a_working_day() -> None:
    clock = [1000.0]
    sessions = Sessions(now=lambda: clock[0])
    person = Person("kedge", "alice")
    short, long = (
        sessions.begin(Session(person=person, roles={ACME: Role.VIEWER}, bearers={ACME: "key"}, until=until))
        for until in (1010.0, 1e12)
    )
    clock[0] = 1010.0
    assert sessions.find(short) is None
    assert sessions.find(long) is not None
    clock[0] = 1000.0 + LONGEST_SECONDS
    assert sessions.find(long) is None


def test_an_operator_s_key_may_approve_nothing() -> None:
    session = Session(person=None, roles={None: Role.OPERATOR}, bearers={None: "key"}, until=1.0)
    assert session.may(Permission.FREEZE, ACME)
    assert not session.may(Permission.APPROVE, ACME)


def test_promotions_are_what_gave_or_took_traffic() -> None:
    class Event:
        actor = "person:kedge#bob"

        def __init__(self, verb: str) -> None:
            self.verb = verb

    verbs = ["proposal.submitted", "proposal.approved", "proposal.reverted", "ramp.advanced", "policy.frozen"]
    assert [audit.fits(Event(verb), "promotions") for verb in verbs] == [False, True, True, True, False]


async def test_a_fault_of_our_own_is_a_page_that_tells_nothing_of_itself() -> None:
    @asynccontextmanager
    async def nowhere() -> AsyncIterator[Backend]:
        broken = Unreachable()
        yield Backend(
            decisions=broken,
            episodes=broken,
            feedback=broken,
            experiments=broken,
            policies=broken,
            governance=broken,
            tenants=broken,
            proposals=broken,
            ramps=broken,
            holdout=broken,
            gym=Gym(""),
        )

    sessions = Sessions()
    secret = sessions.begin(Session(person=None, roles={None: Role.OPERATOR}, bearers={None: "key"}, until=1e12))
    origins = ["http://console"]
    pages = build_app(
        Console(origins=origins, connect=nowhere, doors=Doors(), rendering=make_rendering(), sessions=sessions)
    )
    async with pages.router.lifespan_context(pages):
        transport = httpx.ASGITransport(pages, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=origins[0]) as client:
            answer = await client.get("/", headers={"cookie": f"{COOKIE}={secret}"})
    assert answer.status_code == httpx.codes.INTERNAL_SERVER_ERROR
    assert "This page broke" in answer.text
    assert "a secret of the machine" not in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


class Unreachable:
    """A stub whose every call fails in a way that nobody expected."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError("a secret of the machine")
