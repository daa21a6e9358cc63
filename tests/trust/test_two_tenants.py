"""Tenant A's key and tenant B's names, at every RPC and every route: no data, no effect, and never another refusal
than for a name that does not exist.
"""

import json
import random
import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import grpc
import httpx
import pytest
from google.protobuf.descriptor import MethodDescriptor

from kedge.bandit.v1 import (
    episode_pb2,
    episode_service_pb2,
    feedback_service_pb2,
    outcome_pb2,
    policy_service_pb2,
)
from kedge_bandit.adapters.rest.transcode import http_rules
from tests.e2e.test_every_rpc import SERVICES
from tests.fixtures.core_app import now
from tests.fixtures.stack import Stack
from tests.trust import size
from tests.trust.named_requests import Answer, Names, call, filled
from tests.trust.two_tenants import Walls, lived_in, state

RPCS = [rpc for service in SERVICES if service.name != "AnswerService" for rpc in service.methods]
A, B = "anna", "bert"
SECRET = "bert-only-model"
"""Content of an arm of B, which nobody else has."""
SEED = 20260301
SWITCHES = {"SetMode", "Freeze", "Unfreeze", "AdvanceRamp", "PauseRamp", "AbortRamp"}
"""Verbs that do not do the same twice to one's own policy."""


@pytest.fixture(scope="module")
def walls(stack: Stack) -> Iterator[Walls]:
    a_key, a = lived_in(stack, A, "support", "a model of everybody")
    b_key, b = lived_in(stack, B, "sales", SECRET)
    with ExitStack() as exits:
        channel = exits.enter_context(grpc.insecure_channel(stack.address))
        yield Walls(stack, channel, a_key, b_key, a, b)


@pytest.fixture(autouse=True, scope="module")
def nothing_of_b_changes(walls: Walls) -> Iterator[None]:
    before = state(walls.stack, B)
    yield
    assert state(walls.stack, B) == before


def asked(walls: Walls, rpc: MethodDescriptor, names: Names, seed: int) -> Answer:
    """Call an RPC with A's key and these names; nothing of B may come back."""
    answer = call(walls.channel, rpc, filled(rpc, names, random.Random(seed)), walls.a_key)
    assert SECRET.encode() not in answer.body, rpc.full_name
    return answer


@pytest.mark.parametrize("rpc", RPCS, ids=lambda rpc: str(rpc.full_name))
def test_another_tenant_is_refused_as_one_that_does_not_exist(walls: Walls, rpc: MethodDescriptor) -> None:
    foreign, unknown = asked(walls, rpc, walls.b, SEED), asked(walls, rpc, replace(walls.b, tenant="nobody"), SEED)
    assert foreign == unknown
    assert foreign.body == b"" or foreign.code == "OK"
    if foreign.code == "OK":  # a stream that answers each item by itself
        assert rpc.client_streaming
        assert b"TENANT_DENIED" in foreign.body


@pytest.mark.parametrize("rpc", RPCS, ids=lambda rpc: str(rpc.full_name))
def test_anothers_ids_in_ones_own_tenant_are_unknown_ids(walls: Walls, rpc: MethodDescriptor) -> None:
    own = replace(walls.nobody, tenant=A, policy=walls.a.policy)
    for seed in range(3):
        for theirs in (replace(walls.b, tenant=A, policy=walls.a.policy), replace(walls.b, tenant=A)):
            if rpc.name in SWITCHES and theirs.policy == walls.a.policy:
                continue
            none = own if theirs.policy == walls.a.policy else replace(own, policy="nowhere")
            # A write of one's own uses its request id up: each RPC has ids of its own.
            ours, nobodys = (replace(names, key=f"{names.key}-{rpc.name}") for names in (theirs, none))
            foreign, unknown = asked(walls, rpc, ours, seed), asked(walls, rpc, nobodys, seed)
            assert foreign.without(ours) == unknown.without(nobodys)
            assert f"tenants/{B}".encode() not in foreign.body


def test_any_mixture_of_names_gives_nothing_of_another_tenant(walls: Walls) -> None:
    chance = random.Random(SEED)
    calls = 0
    for _ in range(size.of(400, 40_000)):
        rpc = chance.choice([rpc for rpc in RPCS if not rpc.server_streaming])
        names = walls.b.mixed(chance.choice((walls.a, walls.nobody)), chance)
        answer = asked(walls, rpc, names, chance.randrange(1 << 30))
        calls += 1
        if names.tenant != A and answer.code == "OK":
            assert rpc.client_streaming or rpc.name == "RecordOutcomes", rpc.full_name
    print(f"\n{calls} calls of {A} with names of {B}, of nobody and its own: nothing answered, nothing changed")


@pytest.mark.parametrize("rpc", RPCS, ids=lambda rpc: str(rpc.full_name))
def test_every_route_refuses_another_tenant_as_one_that_does_not_exist(walls: Walls, rpc: MethodDescriptor) -> None:
    headers = {"authorization": f"Bearer {walls.a_key}", "content-type": "application/json"}
    with httpx.Client(base_url=f"http://127.0.0.1:{walls.stack.web_port}", headers=headers, timeout=30) as client:
        for rule in (rule for rule in http_rules(rpc.containing_service) if rule.rpc.name == rpc.name):
            answers = []
            for names in (walls.b, replace(walls.b, tenant="nobody")):
                path = _path(rule.template.text, names)
                body = json.dumps({"because": "a test"}) if rule.body else None
                answer = client.request(rule.method, path, content=body)
                answers.append((answer.status_code, answer.text.replace(names.tenant, "*")))
                assert SECRET not in answer.text
                assert answer.status_code >= 400
            assert answers[0] == answers[1]


def _path(template: str, names: Names) -> str:
    path, rest = "", template
    while "{" in rest:
        before, _, after = rest.partition("{")
        variable, _, rest = after.partition("}")
        name, _, pattern = variable.partition("=")
        plain = {"episode_id": names.episode, "content_hash": names.content}
        path += before + (names.at(pattern) if pattern else plain.get(name, "none"))
    return path + rest


def test_flags_of_another_tenant_are_flags_that_do_not_exist(walls: Walls) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{walls.stack.web_port}", timeout=30) as client:
        client.headers["authorization"] = f"Bearer {walls.a_key}"
        told = []
        for tenant in (B, "nobody"):
            context = {"context": {"tenant": tenant}}
            every = client.post("/ofrep/v1/evaluate/flags", json=context)
            one = client.post("/ofrep/v1/evaluate/flags/kedge.policy.sales.enabled", json=context)
            told.append((every.status_code, every.text, one.status_code, one.text))
        assert told[0] == told[1]
        assert told[0][0] == told[0][2] == 403
        of_b = client.post("/ofrep/v1/evaluate/flags/kedge.policy.sales.enabled")
        of_none = client.post("/ofrep/v1/evaluate/flags/kedge.policy.none1.enabled")
        assert (of_b.status_code, of_b.text.replace("sales", "*")) == (404, of_none.text.replace("none1", "*"))
        assert "sales" not in client.post("/ofrep/v1/evaluate/flags").text


def test_keys_and_ids_that_another_tenant_has_used_are_free(walls: Walls) -> None:
    with walls.stack.services(walls.a_key) as services:
        decision = f"tenants/{A}/decisions/{walls.b.decision}"
        by_decision = outcome_pb2.Outcome(idempotency_key=walls.b.key, decision=decision)
        reference = outcome_pb2.EpisodeRef(policy=f"tenants/{A}/policies/{walls.a.policy}", episode_id=walls.b.episode)
        by_episode = outcome_pb2.Outcome(idempotency_key=f"{walls.b.key}-2", episode=reference)
        by_token = outcome_pb2.Outcome(idempotency_key=f"{walls.b.key}-3", decision_token=walls.b.token)
        named = outcome_pb2.Outcome(
            idempotency_key=f"{walls.b.key}-4", decision=f"tenants/{B}/decisions/{walls.b.decision}"
        )
        batch = [by_decision, by_episode, by_token, named]
        for outcome in batch:
            outcome.signal, outcome.value = outcome_pb2.SIGNAL_TASK_SUCCESS, 0.0
            outcome.observed_time.CopyFrom(now())
        request = feedback_service_pb2.RecordOutcomesRequest(parent=f"tenants/{A}", outcomes=batch)
        results = services.feedback.RecordOutcomes(request).results
    statuses = [outcome_pb2.OutcomeStatus.Name(one.status).removeprefix("OUTCOME_STATUS_") for one in results]
    assert statuses == ["RECORDED", "RECORDED", "REJECTED", "REJECTED"]


def test_a_stream_that_changes_its_tenant_halfway_reaches_nobody_elses(walls: Walls) -> None:
    with walls.stack.services(walls.a_key) as services:

        def episodes() -> Iterator[episode_service_pb2.StreamEpisodesRequest]:
            for number, tenant in enumerate((A, B, "nobody", A)):
                policy = walls.a.policy if tenant == A else walls.b.policy
                log = episode_service_pb2.LogEpisodeRequest(
                    policy=f"tenants/{tenant}/policies/{policy}",
                    request_id=f"halfway-{secrets.token_hex(4)}",
                    episode_id=f"halfway-{number}",
                    trajectory=episode_pb2.Trajectory(terminated=True),
                )
                yield episode_service_pb2.StreamEpisodesRequest(episode=log)

        answers = list(services.episodes.StreamEpisodes(episodes()))
    assert [answer.error_reason for answer in answers] == ["", "TENANT_DENIED", "TENANT_DENIED", ""]
    assert answers[1].detail == answers[2].detail


def test_a_stream_ends_with_the_key_that_opened_it_and_never_names_another(walls: Walls) -> None:
    with walls.stack.services(walls.a_key) as services:
        asked_for = policy_service_pb2.ListPoliciesRequest(parent=f"tenants/{A}", page_token=walls.b.page)
        try:
            listed = services.policies.ListPolicies(asked_for)
            assert all(policy.name.startswith(f"tenants/{A}/") for policy in listed.policies)
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.INVALID_ARGUMENT  # noqa: PT017 - one of two right answers
        export = episode_service_pb2.ExportDecisionsRequest(policy=f"tenants/{A}/policies/{walls.a.policy}")
        for record in services.episodes.ExportDecisions(export):
            assert f"tenants/{B}".encode() not in record.SerializeToString()
