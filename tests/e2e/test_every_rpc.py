"""Walk over the descriptors: every unary RPC has an HTTP rule, and calling it answers as the API does."""

import json
from collections.abc import Iterator
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from kedge.bandit.v1 import (
    answer_service_pb2,
    decision_service_pb2,
    episode_service_pb2,
    error_reason_pb2,
    experiment_service_pb2,
    feedback_service_pb2,
    governance_service_pb2,
    policy_service_pb2,
    proposal_service_pb2,
    ramp_service_pb2,
    tenant_service_pb2,
    webhook_service_pb2,
)
from kedge_bandit.adapters.rest.transcode import http_rules
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Stack

FILES = (
    decision_service_pb2,
    episode_service_pb2,
    feedback_service_pb2,
    governance_service_pb2,
    policy_service_pb2,
    proposal_service_pb2,
    ramp_service_pb2,
    tenant_service_pb2,
    webhook_service_pb2,
    experiment_service_pb2,
    answer_service_pb2,
)
SERVICES: list[ServiceDescriptor] = [s for file in FILES for s in file.DESCRIPTOR.services_by_name.values()]
UNARY: list[MethodDescriptor] = [
    rpc for service in SERVICES for rpc in service.methods if not rpc.client_streaming and not rpc.server_streaming
]
SERVED = [
    rpc for rpc in UNARY if rpc.containing_service.name != "AnswerService"
]  # the core application serves that one

# What fills a path: a real tenant and policy, and resources that do not exist.
TENANT = "walked"
NAMES = {
    "tenants/*/policies/*": f"tenants/{TENANT}/policies/support",
    "tenants/*/decisions/*": f"tenants/{TENANT}/decisions/00000000-0000-7000-8000-000000000000",
    "tenants/*/incidents/*": f"tenants/{TENANT}/incidents/none",
    "tenants/*/proposals/*": f"tenants/{TENANT}/proposals/none",
    "tenants/*/webhooks/*": f"tenants/{TENANT}/webhooks/none",
    "tenants/*/keys/*": f"tenants/{TENANT}/keys/none",
    "tenants/*/experiments/*": f"tenants/{TENANT}/experiments/none",
    "tenants/*": f"tenants/{TENANT}",
    "**": f"tenants/{TENANT}/policies/support",
}
REASONS = {name.removeprefix("ERROR_REASON_") for name in error_reason_pb2.ErrorReason.keys()}  # noqa: SIM118 - an enum wrapper


@pytest.fixture(scope="module")
def client(stack: Stack) -> Iterator[httpx.Client]:
    stack.tenant(TENANT)
    stack.put_policy(two_models(TENANT))
    headers = {"authorization": f"Bearer {stack.operator_key}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{stack.web_port}", headers=headers, timeout=30) as made:
        yield made


def fill(template: str) -> str:
    """Put names into a template such as /v1/{name=tenants/*/policies/*}:status."""
    path, rest = "", template
    while "{" in rest:
        before, _, after = rest.partition("{")
        variable, _, rest = after.partition("}")
        pattern = variable.partition("=")[2]
        path += before + (NAMES[pattern] if pattern else "something")
    return path + rest


@pytest.mark.parametrize("rpc", UNARY, ids=lambda rpc: str(rpc.full_name))
def test_every_unary_rpc_has_an_http_rule(rpc: MethodDescriptor) -> None:
    assert [rule for rule in http_rules(rpc.containing_service) if rule.rpc.name == rpc.name]


@pytest.mark.parametrize("rpc", SERVED, ids=lambda rpc: str(rpc.full_name))
def test_every_http_rule_answers_as_the_api_does(client: httpx.Client, rpc: MethodDescriptor) -> None:
    for rule in http_rules(rpc.containing_service):
        if rule.rpc.name != rpc.name:
            continue
        body = json.dumps({}) if rule.body else None
        answer = client.request(
            rule.method, fill(rule.template.text), content=body, headers={"content-type": "application/json"}
        )
        assert answer.status_code not in (404, 405) or answer.json()["error"]["details"], answer.text
        assert answer.status_code != 500, answer.text
        if answer.status_code >= 400:
            reason = answer.json()["error"]["details"][0]["reason"]
            assert reason in REASONS, answer.text


def test_openapi_names_every_unary_rpc(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    named = {operation["operationId"] for path in document["paths"].values() for operation in path.values()}
    assert {f"{rpc.containing_service.name}_{rpc.name}" for rpc in SERVED} <= named


def test_reflection_and_health_name_every_service_that_is_served(stack: Stack) -> None:
    served = {service.full_name for service in SERVICES if service.name != "AnswerService"}
    with grpc.insecure_channel(stack.address) as channel:
        assert served <= set(ProtoReflectionDescriptorDatabase(channel).get_services())
        check: Any = health_pb2_grpc.HealthStub(channel)
        for name in ("", *served):
            answer = check.Check(health_pb2.HealthCheckRequest(service=name), timeout=5)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_a_call_without_a_key_is_refused(client: httpx.Client) -> None:
    answer = httpx.get(f"{client.base_url}/v1/tenants/{TENANT}/policies")
    assert answer.status_code == 401
    assert answer.json()["error"]["details"][0]["reason"] == "UNAUTHENTICATED"
