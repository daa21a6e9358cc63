"""Pages of proposals and holdouts, over a server that answers what a test says: they tell what is so, and no more."""

import html
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import fields
from typing import Any

import httpx
import pytest

from kedge.bandit.v1 import (
    audit_event_pb2,
    governance_service_pb2,
    policy_pb2,
    policy_service_pb2,
    proposal_pb2,
    proposal_service_pb2,
    ramp_service_pb2,
    tenant_service_pb2,
)
from kedge.bandit.v1 import holdout_service_pb2 as holdout_pb
from kedge_bandit.adapters.console import promotion
from kedge_bandit.adapters.console.app import Console, build_app
from kedge_bandit.adapters.console.backend import Backend
from kedge_bandit.adapters.console.gym_wire import Gym
from kedge_bandit.adapters.console.login import Doors
from kedge_bandit.adapters.console.rendering import make_rendering
from kedge_bandit.adapters.console.sessions import COOKIE, Session, Sessions
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.principal import Person, Role

ACME = TenantId("acme")
NAME, POLICY = "tenants/acme/proposals/p1", "tenants/acme/policies/support"
FLOOR = proposal_pb2.PROPOSAL_KIND_FLOOR_STAGE
States = proposal_pb2.Proposal


class Answers:
    """A service's stub that answers each call with what was given for its name, and no page asks the same twice."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given
        self._asked: set[tuple[str, str]] = set()

    def __getattr__(self, name: str) -> Any:
        async def call(request: object, **_: object) -> Any:
            assert (name, str(request)) not in self._asked, f"asked twice: {name} {request}"
            self._asked.add((name, str(request)))
            return self._given[name]

        return call


def floor(before: float = 0.8, after: float = 0.2, *, state: Any = States.STATE_AWAITING_APPROVAL) -> Any:
    """A proposal of another floor, by bob."""
    found = proposal_pb2.Proposal(
        name=NAME,
        policy=POLICY,
        kind=FLOOR,
        state=state,
        author="person:kedge#bob",
        because="it is better",
        state_because="it is better",
        incumbent=f'{{\n  "floor": {before},\n  "uniform_slice": 0.1\n}}',
        candidate=f'{{\n  "floor": {after},\n  "uniform_slice": 0.1\n}}',
    )
    found.floor_stage.exploitation_floor = after
    steps = (States.STATE_SUBMITTED, States.STATE_GATE_RUNNING, States.STATE_AWAITING_APPROVAL)
    for number in steps:
        found.steps.add(state=number, actor="person:kedge#bob", because="it is better")
    return found


def prompt(*, state: Any = States.STATE_INCONCLUSIVE) -> Any:
    """A proposal of a new prompt whose gate could not say anything."""
    found = proposal_pb2.Proposal(
        name=NAME, policy=POLICY, kind=proposal_pb2.PROPOSAL_KIND_PROMPT, state=state, author="person:kedge#bob"
    )
    found.arm.name, found.because = "brief", "shorter"
    found.gate_result.verdict = proposal_pb2.GATE_VERDICT_INCONCLUSIVE
    found.gate_result.inconclusive_reason = "TOO_FEW_CASES"
    return found


def status(learned: int) -> Any:
    """A policy's status with so many learned episodes."""
    found = policy_service_pb2.GetPolicyStatusResponse(effective_mode=policy_pb2.MODE_APPLY, allocation_version=3)
    found.policy.name, found.policy.exploration.exploitation_floor = POLICY, 0.8
    found.policy.action_keys.extend(["old@1", "new@1"])
    found.actions.add(action_key="old@1", episodes=1000, mean_reward=0.5, eligible=True)
    found.actions.add(action_key="new@1", episodes=learned, mean_reward=0.7, eligible=True)
    return found


def ramp(cost: float) -> Any:
    """The floor's ramp, with a cost and an unknown latency."""
    found = ramp_service_pb2.GetRampResponse()
    one = found.ramps.add(policy=POLICY, learned_episodes=400, baseline_episodes=1000)
    one.metrics.add(name="cost_usd", learned=cost, baseline=0.01, lower=0.0, upper=0.1, breached=cost > 0.012)
    one.metrics.add(name="latency_ms", learned=900, baseline=1000)
    return found


def frozen() -> Mapping[str, Any]:
    """What is answered of a tenant that somebody stopped, with three policies."""
    policies = [policy_pb2.Policy(name=f"{POLICY}-{number}") for number in range(3)]
    stopped = status(400)
    stopped.effective_mode = policy_pb2.MODE_FROZEN
    event = audit_event_pb2.AuditEvent(subject="tenants/acme", verb="tenant.frozen", actor="key:watch", because="odd")
    return {
        "ListPolicies": policy_service_pb2.ListPoliciesResponse(policies=policies),
        "GetPolicyStatus": stopped,
        "GetMode": governance_service_pb2.GetModeResponse(
            mode=policy_pb2.MODE_FROZEN, effective_mode=policy_pb2.MODE_FROZEN, decided_by="tenant"
        ),
        "ListAuditEvents": governance_service_pb2.ListAuditEventsResponse(events=[event]),
        "ListIncidents": governance_service_pb2.ListIncidentsResponse(),
    }


async def page(
    path: str,
    proposal: Any = None,
    *,
    learned: int = 400,
    cost: float = 0.01,
    cases: int = 0,
    more: Mapping[str, Any] | None = None,
) -> str:
    """Read a page as alice, an approver; gives its words."""
    holdout = holdout_pb.GetHoldoutResponse()
    holdout.holdout.gate_cases = cases
    found = [] if proposal is None else [proposal]
    answers = Answers(
        {
            "GetProposal": proposal_service_pb2.GetProposalResponse(proposal=proposal),
            "ListProposals": proposal_service_pb2.ListProposalsResponse(proposals=found),
            "ListPolicies": policy_service_pb2.ListPoliciesResponse(policies=[policy_pb2.Policy(name=POLICY)]),
            "ListTenants": tenant_service_pb2.ListTenantsResponse(),
            "GetPolicyStatus": status(learned),
            "GetRamp": ramp(cost),
            "ListDivergenceChecks": governance_service_pb2.ListDivergenceChecksResponse(),
            "GetHoldout": holdout,
            "GetAnswerer": holdout_pb.GetAnswererResponse(),
            **(more or {}),
        }
    )

    @asynccontextmanager
    async def connect() -> AsyncIterator[Backend]:
        stubs = {one.name: answers for one in fields(Backend) if one.name != "gym"}
        yield Backend(**stubs, gym=Gym(""))

    sessions = Sessions()
    alice = Session(person=Person("kedge", "alice"), roles={ACME: Role.ADMIN}, bearers={ACME: "key"}, until=1e12)
    cookie = f"{COOKIE}={sessions.begin(alice)}"
    origins = ["http://console"]
    app = build_app(
        Console(origins=origins, connect=connect, doors=Doors(), rendering=make_rendering(), sessions=sessions)
    )
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=True)
        async with httpx.AsyncClient(transport=transport, base_url=origins[0]) as client:
            answer = await client.get(path, headers={"cookie": cookie})
    assert answer.status_code == httpx.codes.OK, answer.text
    main = answer.text.partition('<main class="main"')[2]
    return " ".join(html.unescape(re.sub(r"<(?!/?(?:button|form|a|del|ins)\b)[^>]+>", " ", main)).split())


async def test_a_floor_is_decided_on_what_is_known_online() -> None:
    said = await page(f"/{NAME}", floor())
    for words in (
        "Lower baseline share 80 % → 20 %", "No gate evidence: you decide on online data", "18 % → 72 %",
        "400 learned against 1,000 baseline episodes", "1.00 times the baseline's", "It skips the stage at 50 %",
    ):  # fmt: skip
        assert words in said
    assert "Cases that changed most" not in said
    assert "null" not in said


async def test_what_is_not_known_is_not_judged() -> None:
    said = await page(f"/{NAME}", floor(), learned=14)
    assert "too little data 14 of 300 learned episodes" in said
    assert "Latency too little data" in said
    assert "95 % interval" not in said


@pytest.mark.parametrize(("after", "skips"), [(0.5, False), (0.4, True), (0.9, False)])
async def test_only_a_skipped_stage_is_called_one(after: float, skips: bool) -> None:
    assert ("It skips the stage" in await page(f"/{NAME}", floor(after=after))) is skips


async def test_once_it_serves_the_page_says_what_was_before() -> None:
    served = floor(state=States.STATE_SERVING)
    served.approver, served.state_because = "person:kedge#alice", "agreed"
    said = await page(f"/{NAME}", served)
    assert "What changed" in said
    assert "Before" in said
    assert "No gate evidence" not in said
    assert said.count("agreed") == 1
    assert "at least 80 % again" in said
    assert "cannot be proposed for 7 days" not in said


async def test_history_tells_each_reason_once_and_no_gate_that_was_not_asked() -> None:
    said = await page(f"/{NAME}", floor())
    assert "Gate waived" in said
    assert "Gate running" not in said
    assert said.count("it is better") == 1


async def test_traffic_shows_the_shares_that_change_and_folds_the_rest() -> None:
    same, many = floor(), floor()
    for number in range(20):
        same.previews.add(bucket=f"b{number}", action_keys=["old@1", "new@1"], before=[1, 0], after=[1, 0])
        many.previews.add(bucket=f"b{number}", action_keys=["old@1", "new@1"], before=[0.8, 0.2], after=[0.2, 0.8])
    said = await page(f"/{NAME}", same)
    assert "No share changes at once, in 20 contexts" in said
    assert "100.0 %" not in said
    said = await page(f"/{NAME}", many)
    assert "40 shares change, in 20 of 20 contexts" in said
    assert "34 more changes" in said


async def test_a_gate_without_cases_cannot_be_run_and_shows_no_numbers() -> None:
    said = await page(f"/{NAME}", prompt())
    assert '<button class="button" disabled>Run the gate' in said
    assert "It has 0 cases of the 150" in said
    assert "kedge holdout import acme support" in said
    assert "Lift" not in said
    assert "query 0" not in said
    assert "disabled" not in await page(f"/{NAME}", prompt(), cases=200)


async def test_cases_are_offered_only_where_a_query_left_some() -> None:
    asked = prompt(state=States.STATE_AWAITING_APPROVAL)
    assert "Cases that changed most" not in await page(f"/{NAME}", asked)
    said = await page(f"/{NAME}/cases", asked)
    assert "There are no cases to open" in said
    assert "<form" not in said.partition("There are no cases")[2]
    asked.gate_result.query = 1
    assert "Cases that changed most" in await page(f"/{NAME}", asked)
    assert "Open the cases" in await page(f"/{NAME}/cases", asked)


async def test_empty_pages_promise_what_is_true_and_say_how_to_begin() -> None:
    said = await page("/tenants/acme/proposals")
    assert "kedge proposal submit acme POLICY --kind prompt" in said
    assert "operator" in said
    assert "a floor or a configuration at once" in await page("/proposals")
    for path in ("/tenants/acme/holdout", f"/{POLICY}/holdout"):
        assert "stays at its first stage" not in await page(path)


async def test_lists_name_the_change_and_quote_the_reason() -> None:
    said = await page("/tenants/acme/proposals", floor())
    assert f'href="/{NAME}">Lower baseline share 80 % → 20 %' in said
    assert "“it is better”" in said
    assert "not needed" in said


@pytest.mark.parametrize("path", ["/", f"/{POLICY}"])
async def test_a_stopped_tenant_is_asked_once_who_stopped_it(path: str) -> None:
    assert "watch" in await page(path, more=frozen())


def test_a_title_says_what_would_change() -> None:
    new = prompt()
    assert promotion.title(new) == "New prompt brief"
    new.incumbent_name = "brief@0123456789ab"
    assert promotion.title(new) == "New text of brief"
    baseline = proposal_pb2.Proposal(kind=proposal_pb2.PROPOSAL_KIND_BASELINE)
    baseline.baseline.model_route.name, baseline.baseline.prompt_variant.name = "large", "brief"
    assert promotion.title(baseline) == "Baseline becomes large · brief"
    route = proposal_pb2.Proposal(kind=proposal_pb2.PROPOSAL_KIND_ARM)
    route.arm.name, route.arm.dimension = "huge", policy_pb2.DIMENSION_MODEL_ROUTE
    assert promotion.title(route) == "New model route huge"
    config = proposal_pb2.Proposal(
        kind=proposal_pb2.PROPOSAL_KIND_CONFIG, incumbent='{"reward": 1, "half_life": 2}', candidate='{"reward": 2}'
    )
    assert promotion.title(config) == "Change half life and reward"
    assert promotion.title(floor(0.2, 0.8)) == "Raise baseline share 20 % → 80 %"


def test_it_was_served_when_its_last_step_was_and_later_when_it_was_approved() -> None:
    one = floor(state=States.STATE_SERVING)
    one.create_time.seconds, one.approve_time.seconds, one.update_time.seconds = 1, 2, 3
    assert promotion.served_time(one).seconds == 3
    one.state = States.STATE_REVERTED
    assert promotion.served_time(one).seconds == 2
