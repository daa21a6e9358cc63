"""Parts of the console by themselves: what is drawn and said is what came in, and nothing in it acts."""

import html
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from kedge.bandit.v1 import (
    audit_event_pb2,
    decision_pb2,
    policy_pb2,
    policy_service_pb2,
    proposal_pb2,
    ramp_service_pb2,
)
from kedge_bandit.adapters.console import audit, diff, happened
from kedge_bandit.adapters.console.app import Console, build_app
from kedge_bandit.adapters.console.backend import Backend
from kedge_bandit.adapters.console.gym_wire import Gym
from kedge_bandit.adapters.console.inert import inert
from kedge_bandit.adapters.console.login import Doors
from kedge_bandit.adapters.console.pages import PAGES
from kedge_bandit.adapters.console.policies import beliefs_of
from kedge_bandit.adapters.console.ramps import range_of
from kedge_bandit.adapters.console.reading import totals
from kedge_bandit.adapters.console.rendering import make_rendering
from kedge_bandit.adapters.console.sessions import COOKIE, LONGEST_SECONDS, Session, Sessions
from kedge_bandit.adapters.console.standing import stand
from kedge_bandit.adapters.console.verdict import Verdict
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.principal import Permission, Person, Role

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


def status(**fields: object) -> policy_service_pb2.GetPolicyStatusResponse:
    found = policy_service_pb2.GetPolicyStatusResponse(
        effective_mode=policy_pb2.MODE_APPLY,
        allocation_version=3,
        **fields,  # type: ignore[arg-type]  # fields by name
    )
    found.policy.exploration.exploitation_floor = 0.5
    return found


@pytest.mark.parametrize(
    ("state", "headline"),
    [
        (ramp_service_pb2.RAMP_STATE_RUNNING, None),
        (ramp_service_pb2.RAMP_STATE_PAUSED, "Ramp paused"),
        (ramp_service_pb2.RAMP_STATE_ROLLED_BACK, "Ramp rolled back"),
        (ramp_service_pb2.RAMP_STATE_ABORTED, "Ramp aborted"),
        (ramp_service_pb2.RAMP_STATE_COMPLETE, None),
    ],
)
def test_a_ramp_that_stands_holds_its_policy_back(
    state: ramp_service_pb2.RampState.ValueType, headline: str | None
) -> None:
    ramp = ramp_service_pb2.Ramp(state=state, why="signal cost_usd", stages=[ramp_service_pb2.RampStage(value=0.8)])
    worst = stand(status(), "", None, [ramp]).worst
    assert (worst.headline if worst is not None else None) == headline


@pytest.mark.parametrize(
    ("fields", "alone"),
    [
        ({}, False),
        ({"closed_reason": decision_pb2.DECISION_REASON_BUDGET}, True),
        ({"closed_reason": decision_pb2.DECISION_REASON_CAP}, True),
    ],
)
def test_what_is_allowed_is_not_what_is_served_while_exploring_is_closed(fields: dict[str, Any], alone: bool) -> None:
    assert stand(status(**fields), "", None).serves_baseline_alone is alone
    frozen = status(**fields)
    frozen.effective_mode = policy_pb2.MODE_FROZEN
    assert stand(frozen, "policy", None).serves_baseline_alone


@pytest.mark.parametrize(("episodes", "is_told"), [(0, False), (1, False), (29, False), (30, True)])
def test_a_few_episodes_that_agree_are_no_certainty(episodes: int, is_told: bool) -> None:
    found = status()
    found.policy.action_keys.extend(["a@1", "b@2"])
    for key in found.policy.action_keys:
        found.actions.add(action_key=key, episodes=episodes, mean_reward=0.0, eligible=True)
    cell = policy_pb2.Cell(action_key="a@1", weight=episodes, reward_sum=0.0, reward_square_sum=0.0)
    assert (stand(found, "", None).lift is not None) is is_told
    assert all(belief.is_known is is_told for belief in beliefs_of([cell]).values())


def test_a_warning_that_a_hold_says_is_not_said_again_and_none_carries_a_hash() -> None:
    warnings = [
        "large@0123456789ab|cot@0123456789ab is not eligible: P(veto rate > cap) = 0.995",
        "the exploration budget allows no exploring now: the baseline alone is published",
        "12 outcomes name decisions that have not arrived",
        "look at large@0123456789ab",
    ]
    advice = stand(status(warnings=warnings), "", None).advice
    assert advice == ["12 outcomes name decisions that have not arrived", "look at large"]


def test_each_policy_is_counted_once() -> None:
    frozen, held = status(), status(closed_reason=decision_pb2.DECISION_REASON_CAP)
    frozen.effective_mode = policy_pb2.MODE_FROZEN
    counted = totals([stand(one, "policy", None) for one in (frozen, held, status())])
    assert counted["stopped"] + counted["held"] + counted["free"] == counted["policies"] == 3


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"episodes": 14}, "too little data (14 of 100)"),
        (
            {"episodes": 14, "over_cap": 0.56, "finding": ramp_service_pb2.RAMP_METRIC_FINDING_TOO_FEW},
            "too little data (14 of 100)",
        ),
        ({"episodes": 300, "over_cap": 0.56}, "56% sure that it is over its cap"),
        ({"episodes": 300, "lower": -0.1, "upper": 0.2}, "−0.1 to 0.2"),
    ],
)
def test_an_interval_without_enough_data_is_no_interval(fields: dict[str, Any], said: str) -> None:
    assert range_of(ramp_service_pb2.RampMetric(needed_episodes=100, **fields)) == said


def test_one_approval_is_one_row_that_says_what_changed() -> None:
    moment = Timestamp(seconds=1_800_000_000)
    facts = {
        "policy.staged": '{"floor_before": 0.8, "floor": 0.2}',
        "proposal.served": '{"kind": "FLOOR_STAGE"}',
        "proposal.approved": '{"kind": "FLOOR_STAGE"}',
    }
    events = [
        audit_event_pb2.AuditEvent(
            verb=verb, actor="person:kedge#alice", because="fine", event_time=moment, payload_json=payload
        )
        for verb, payload in facts.items()
    ]
    frozen = audit_event_pb2.AuditEvent(verb="policy.frozen", actor="person:kedge#alice", because="no")
    acts = list(happened.acts([*events, frozen]))
    assert [act[0].verb for act in acts] == ["proposal.approved", "policy.frozen"]
    assert "baseline's share 80 % → 20 %" in happened.changes(acts[0])


@given(st.sampled_from([*audit.KINDS]), st.sampled_from([*audit.SPANS]))
def test_the_command_line_under_the_log_lists_what_the_page_lists(kind: str, span: str) -> None:
    line = audit.command("acme", kind, span, "tenants/acme/policies/support")
    assert "--subject tenants/acme/policies/support" in line
    assert ("--days" in line) is bool(span)
    assert all(f"--verb {mark}" in line for mark in audit.KINDS[kind][1])


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
    app = build_app(
        Console(origins=origins, connect=nowhere, doors=Doors(), rendering=make_rendering(), sessions=sessions)
    )
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
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
