"""Call every RPC and every route with every role, and compare with what `kedge can` says."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass
from grpc import aio

from kedge.bandit.v1 import answer_service_pb2
from kedge_bandit.adapters.grpc.can import can, matrix, permission_of
from kedge_bandit.adapters.grpc.permissions import PERMISSIONS, ROUTES, check_routes_declared
from kedge_bandit.adapters.grpc.status import reason_of
from kedge_bandit.adapters.rest.transcode import http_rules
from kedge_bandit.domain.principal import NEEDS_PERSON, Permission, Role
from kedge_bandit.entrypoints.web import plain_routes
from tests.fixtures.ledgers import migrated_url
from tests.trust.doors import Doors, Stubs, open_doors

__all__ = ["migrated_url"]

DENIED = {"UNAUTHENTICATED", "PERMISSION_DENIED", "TENANT_DENIED"}
VARIABLE = re.compile(r"\{([a-z_.]+)(?:=([^{}]+))?\}")
QUIET_SECONDS = 5.0
"""How long a stream that has nothing to say is listened to; who may not listen is told at once."""
STREAMED = {"StreamEpisodes": "episode.policy", "WatchAudit": "parent", "WatchProposals": "parent"}
UUID = "00000000-0000-7000-8000-000000000000"
PROGRAMS = (Role.CORE_APP, Role.EVALUATOR, Role.TRAINER, Role.ALARM)


@pytest.fixture
async def doors(migrated_url: str) -> AsyncIterator[Doors]:
    async with open_doors(migrated_url) as opened:
        yield opened


def served(doors: Doors) -> list[MethodDescriptor]:
    return [rpc for service, _ in doors.replica.servicers for rpc in service.methods]


def value_of(pattern: str | None, tenant: str) -> str:
    """Name something of a tenant that fits a pattern; nothing of it exists but the tenant."""
    if pattern is None:
        return "something"
    if pattern == "**":
        return f"tenants/{tenant}"
    parts = pattern.replace("tenants/*", f"tenants/{tenant}", 1).split("/")
    last = UUID if "decisions" in parts else "none"
    return "/".join(last if part == "*" else part for part in parts)


def request_for(rpc: MethodDescriptor, tenant: str) -> Any:
    """Fill in the names alone: without a reason and content no request changes anything."""
    request: Any = GetMessageClass(rpc.input_type)()
    rules = {rule.rpc.name: rule.template.text for rule in http_rules(rpc.containing_service)}
    field = STREAMED.get(rpc.name, "policy")
    default = "{%s=tenants/*}" if field == "parent" else "{%s=tenants/*/policies/*}"
    for path, pattern in VARIABLE.findall(rules.get(rpc.name, default % field)):
        *outer, last = path.split(".")
        place = request
        for name in outer:
            place = getattr(place, name)
        setattr(place, last, value_of(pattern or None, tenant))
    if rpc.name == "OnboardTenant":
        request.tenant.name = f"tenants/{tenant}"
    return request


async def answer_of(stubs: Stubs, rpc: MethodDescriptor, tenant: str) -> str:
    """Call an RPC; gives the reason of its refusal, OK where it has none."""
    kind = f"{'stream' if rpc.client_streaming else 'unary'}_{'stream' if rpc.server_streaming else 'unary'}"
    make = getattr(stubs.channel, kind)(
        f"/{rpc.containing_service.full_name}/{rpc.name}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=GetMessageClass(rpc.output_type).FromString,
    )
    request = request_for(rpc, tenant)
    wait = QUIET_SECONDS if rpc.server_streaming else 20.0
    call: Any = make(iter([request]) if rpc.client_streaming else request, metadata=stubs.metadata, timeout=wait)
    try:
        if rpc.server_streaming:
            async for _ in call:
                break
            call.cancel()
        else:
            await call
    except aio.AioRpcError as error:
        return reason_of(error)
    return "OK"


async def keys_of(doors: Doors, tenant: str) -> dict[Role, str]:
    """Make a key of every role: people's for people, programs' for programs and the operator."""
    keys = {Role.OPERATOR: doors.operator}
    for role in Role:
        if role is not Role.OPERATOR:
            keys[role] = await doors.key(tenant, role, person="" if role in PROGRAMS else "alice")
    return keys


async def test_every_rpc_opens_to_the_roles_that_the_matrix_names(doors: Doors) -> None:
    tenant = await doors.tenant()
    wrong = []
    for role, key in (await keys_of(doors, tenant)).items():
        is_person = role not in (*PROGRAMS, Role.OPERATOR)
        async with doors.stubs(key) as stubs:
            for rpc in served(doors):
                permission = permission_of(f"/{rpc.containing_service.full_name}/{rpc.name}")
                bound = "*" if role is Role.OPERATOR else tenant
                what = "global" if permission is Permission.MANAGE_TENANTS else tenant
                said = can(role, bound, permission, what, is_person=is_person)
                answer = await answer_of(stubs, rpc, tenant)
                if (answer not in DENIED) is not said.may:
                    wrong.append((role, rpc.name, answer, said.reason))
    assert wrong == []


async def test_every_rpc_and_route_refuses_who_has_no_credential(doors: Doors) -> None:
    tenant = await doors.tenant()
    async with doors.stubs() as stubs, doors.http() as client:
        over_grpc = {rpc.name: await answer_of(stubs, rpc, tenant) for rpc in served(doors)}
        over_http = {}
        for service, _ in doors.replica.servicers:
            for rule in http_rules(service):
                path = VARIABLE.sub(lambda found: value_of(found[2], tenant), rule.template.text)
                over_http[f"{rule.method} {path}"] = (await client.request(rule.method, path)).status_code
    assert set(over_grpc.values()) == {"UNAUTHENTICATED"}, over_grpc
    assert set(over_http.values()) == {401}, over_http


async def test_a_role_opens_over_http_what_it_opens_over_grpc(doors: Doors) -> None:
    tenant = await doors.tenant()
    wrong = []
    async with doors.http() as client:
        for role in (Role.CORE_APP, Role.VIEWER, Role.TRAINER):
            headers = {"authorization": f"Bearer {await doors.key(tenant, role)}"}
            for service, _ in doors.replica.servicers:
                for rule in http_rules(service):
                    path = VARIABLE.sub(lambda found: value_of(found[2], tenant), rule.template.text)
                    answer = await client.request(rule.method, path, headers=headers)
                    said = can(role, tenant, PERMISSIONS[rule.full_method], tenant, is_person=False)
                    if (answer.status_code not in (401, 403)) is not said.may:
                        wrong.append((role, rule.full_method, answer.status_code, said.reason))
    assert wrong == []


async def test_every_route_beside_the_rpcs_is_declared_and_open_or_not_as_it_says(doors: Doors) -> None:
    routes = set(plain_routes(doors.app))
    assert {name for name in ROUTES if name.partition(" ")[2]} - {"GET /metrics"} == routes
    async with doors.http() as client:
        for route in sorted(routes):
            method, _, path = route.partition(" ")
            status = (await client.request(method, path.replace("{key}", "kedge.policy.support.enabled"))).status_code
            assert (status == 401) is (ROUTES[route] is not None), (route, status)


def test_what_is_not_declared_fails_the_start() -> None:
    with pytest.raises(LookupError, match="GET /pages"):
        check_routes_declared(["GET /healthz", "GET /pages"])
    with pytest.raises(KeyError):
        permission_of(f"/{answer_service_pb2.DESCRIPTOR.services_by_name['AnswerService'].full_name}/Answer")


def test_the_matrix_has_every_rpc_and_route_once() -> None:
    rows = list(matrix())
    assert [name for name, _, _ in rows] == [*PERMISSIONS, *ROUTES]
    assert all(roles[Role.OPERATOR] for _, _, roles in rows)
    assert not any(roles[role] for _, permission, roles in rows if permission in NEEDS_PERSON for role in PROGRAMS)
