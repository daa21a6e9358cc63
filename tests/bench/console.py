"""Measure how long the server works on each page of the console, with 100,000 decisions and 200 proposals."""

import asyncio
import time
from typing import Any

import grpc
import httpx

from kedge.bandit.v1 import (
    decision_pb2,
    decision_service_pb2,
    decision_service_pb2_grpc,
    policy_pb2,
    policy_service_pb2,
    proposal_pb2,
    proposal_service_pb2,
)
from tests.bench.figures import Bar, Control, Report, Row, Setting
from tests.bench.http2_load import percentile
from tests.fixtures.console import Place, running_console
from tests.fixtures.database import open_folder
from tests.fixtures.policies import two_models
from tests.fixtures.stack import wait_for

TENANT = "bench"
POLICY = f"tenants/{TENANT}/policies/support"
DECISIONS, PROPOSALS = 100_000, 200
AT_ONCE = 64
ROUNDS, VISITS = 5, 20
PAGE_BAR = Bar(at_most=150.0)


def console(setting: Setting) -> Report:
    """Fill a tenant, then open every page again and again as an approver."""
    setting.say("starting the service")
    with open_folder() as folder, running_console("", folder, KEDGE_GATE_PORT="0") as place:
        key = place.stack.tenant(TENANT)
        place.stack.put_policy(two_models(TENANT))
        setting.say(f"{DECISIONS:,} decisions")
        asyncio.run(_decide(place.stack.address, key))
        setting.say(f"{PROPOSALS} proposals")
        last = _propose(place)
        with place.stack.services() as services:
            status = policy_service_pb2.GetPolicyStatusRequest(name=POLICY, without_cells=True)
            wait_for(lambda: not services.policies.GetPolicyStatus(status).backlog, "the worker", 120)
        with place.visitor(TENANT, person="bob", role="approver") as client:
            return _measure(setting, client, _pages(last, _first_decision(place)))


async def _decide(address: str, key: str) -> None:
    places = asyncio.Semaphore(AT_ONCE)
    metadata = (("authorization", f"Bearer {key}"),)
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = decision_service_pb2_grpc.DecisionServiceStub(channel)

        async def one(number: int) -> None:
            name = f"turn-{number}"
            context = decision_pb2.Context(categories={"task": "math" if number % 2 else "code"})
            request = decision_service_pb2.DecideRequest(
                policy=POLICY, request_id=name, episode_id=name, context=context
            )
            async with places:
                await stub.Decide(request, metadata=metadata, timeout=60)

        for start in range(0, DECISIONS, 5000):
            await asyncio.gather(*(one(number) for number in range(start, start + 5000)))


def _propose(place: Place) -> str:
    name = ""
    text = "\n".join(f"Rule {number}: be brief, be kind, say what you do not know." for number in range(60))
    with place.calling(TENANT, "alice", "PROPOSER") as services:
        for number in range(PROPOSALS):
            arm = policy_pb2.Arm(
                dimension=policy_pb2.DIMENSION_MODEL_ROUTE, name="third", content=f"model-{number}\n{text}"
            )
            proposal = proposal_pb2.Proposal(
                policy=POLICY, kind=proposal_pb2.PROPOSAL_KIND_ARM, arm=arm, because=f"attempt {number}"
            )
            request = proposal_service_pb2.SubmitProposalRequest(
                parent=f"tenants/{TENANT}", proposal=proposal, hold=True
            )
            name = services.proposals.SubmitProposal(request).proposal.name
    return name


def _first_decision(place: Place) -> str:
    with place.stack.services() as services:
        request = decision_service_pb2.ListDecisionsRequest(policy=POLICY, page_size=1)
        return str(services.decisions.ListDecisions(request).decisions[0].name)


def _pages(proposal: str, decision: str) -> dict[str, str]:
    tenant = f"/tenants/{TENANT}"
    return {
        "overview": "/",
        "tenant": tenant,
        "policy": f"/{POLICY}",
        "freeze": f"/{POLICY}/freeze",
        "inbox": "/proposals",
        "proposals": f"{tenant}/proposals",
        "one proposal": f"/{proposal}",
        "holdout": f"{tenant}/holdout",
        "audit": f"{tenant}/audit",
        "decisions": f"{tenant}/decisions",
        "decisions, a rare one": f"{tenant}/decisions?reason=PINNED",
        "one decision": f"/{decision}",
        "episodes": f"{tenant}/episodes",
        "belief": f"/{POLICY}/belief",
        "over time": f"/{POLICY}/over-time",
        "incidents": f"{tenant}/incidents",
        "connect": f"{tenant}/connect",
    }


def _measure(setting: Setting, client: httpx.Client, pages: dict[str, str]) -> Report:
    times: dict[str, list[float]] = {name: [] for name in pages}
    control: list[float] = []
    for number in range(ROUNDS):
        setting.say(f"round {number + 1} of {ROUNDS}")
        control.append(percentile([_visit(client, "/healthz") for _ in range(100)], 0.5))
        for name, path in pages.items():
            times[name] += [_visit(client, path) for _ in range(VISITS)]
    rows = [
        Row(name=f"{name}, p{share * 100:g}", value=percentile(found, share), bar=bar, unit="ms", timed=True)
        for name, found in times.items()
        for share, bar in ((0.5, Bar()), (0.95, PAGE_BAR))
    ]
    notes = [
        f"{DECISIONS:,} decisions and {PROPOSALS} proposals of one tenant; each page {ROUNDS * VISITS} times, one after"
        " the other, over plain HTTP from the same machine, with the calls to the server that it makes",
    ]
    return Report(rows=rows, controls=[Control("/healthz of the console", control)], notes=notes)


def _visit(client: httpx.Client, path: str) -> float:
    began = time.perf_counter()
    answer = client.get(path)
    taken = (time.perf_counter() - began) * 1e3
    if answer.status_code != httpx.codes.OK:
        raise RuntimeError(f"{path} answered {answer.status_code}")
    return taken
