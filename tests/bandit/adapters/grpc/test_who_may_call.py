"""Who may call what, how tenants come in, and what the services of later issues answer."""

from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass
from grpc import aio
from sqlalchemy import text

from kedge.bandit.v1 import (
    experiment_service_pb2,
    governance_service_pb2,
    policy_service_pb2,
    proposal_service_pb2,
    tenant_service_pb2,
)
from kedge_bandit.adapters.grpc.permissions import PERMISSIONS
from kedge_bandit.adapters.grpc.status import reason_of
from kedge_bandit.domain.principal import GRANTS, NEEDS_PERSON, Role
from tests.fixtures.administered import Administered, refusal, with_policy

ANSWERED = [
    service
    for module in (
        governance_service_pb2,
        policy_service_pb2,
        tenant_service_pb2,
        proposal_service_pb2,
        experiment_service_pb2,
    )
    for service in module.DESCRIPTOR.services_by_name.values()
]


async def test_an_rpc_whose_turn_comes_later_says_so(administered: Administered) -> None:
    it = administered
    answer = await refusal(it.proposals.GetProposal(proposal_service_pb2.GetProposalRequest(), metadata=it.operator))
    assert answer == (grpc.StatusCode.UNIMPLEMENTED, "UNIMPLEMENTED")
    stream = it.proposals.WatchProposals(proposal_service_pb2.WatchProposalsRequest(), metadata=it.operator)
    assert (await refusal(stream.read()))[1] == "UNIMPLEMENTED"


NAMED = ("name", "parent", "policy", "tenant")


def request_for(rpc: MethodDescriptor, tenant: str) -> Any:
    """Fill in the resource names of a request, so that it is refused for its caller and not for its form."""
    request: Any = GetMessageClass(rpc.input_type)()
    fields = request.DESCRIPTOR.fields_by_name
    policy = f"{tenant}/policies/support"
    if rpc.name in ("PutPolicy", "OnboardTenant", "UpdateTenant"):
        inner = request.policy if "policy" in fields else request.tenant
        inner.name = policy if "policy" in fields else tenant
    elif rpc.name == "RevokeKey":
        request.name = f"{tenant}/keys/0000abcd"
    else:
        for name in NAMED:
            if name in fields and fields[name].message_type is None:
                setattr(request, name, policy if name in ("policy", "name") else tenant)
    return request


@pytest.mark.parametrize("role", ["ROLE_CORE_APP", "ROLE_VIEWER", "ROLE_ADMIN"])
async def test_every_rpc_asks_for_the_permission_it_declares(administered: Administered, role: str) -> None:
    it = administered
    tenant, _ = await with_policy(it)
    metadata = await it.key(tenant, role)
    grants = GRANTS[Role(role.removeprefix("ROLE_"))] - NEEDS_PERSON
    for service in ANSWERED:
        for rpc in service.methods:
            path = f"/{service.full_name}/{rpc.name}"
            call: Any = (it.channel.unary_stream if rpc.server_streaming else it.channel.unary_unary)(
                path,
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=GetMessageClass(rpc.output_type).FromString,
            )(request_for(rpc, tenant), metadata=metadata, timeout=20)
            reason = "OK"
            try:
                if rpc.server_streaming:
                    await call.read()
                    call.cancel()
                else:
                    await call
            except aio.AioRpcError as error:
                reason = reason_of(error)
            if reason != "UNIMPLEMENTED":
                assert (reason == "PERMISSION_DENIED") is (PERMISSIONS[path] not in grants), (path, reason)


async def test_no_key_opens_nothing_and_a_foreign_tenant_is_like_none(administered: Administered) -> None:
    it = administered
    tenant, policy = await with_policy(it)
    other = await it.key(await it.tenant(), "ROLE_ADMIN")
    get = policy_service_pb2.GetPolicyRequest
    assert await refusal(it.policies.GetPolicy(get(name=policy))) == (
        grpc.StatusCode.UNAUTHENTICATED,
        "UNAUTHENTICATED",
    )
    foreign = await refusal(it.policies.GetPolicy(get(name=policy), metadata=other))
    unknown = await refusal(it.policies.GetPolicy(get(name="tenants/nobody/policies/support"), metadata=other))
    assert foreign == unknown == (grpc.StatusCode.PERMISSION_DENIED, "TENANT_DENIED")
    nobody = it.policies.GetPolicy(get(name="tenants/nobody/policies/support"), metadata=it.operator)
    assert await refusal(nobody) == unknown
    missing = it.policies.GetPolicy(get(name=f"{tenant}/policies/none"), metadata=it.operator)
    assert await refusal(missing) == (grpc.StatusCode.NOT_FOUND, "POLICY_NOT_FOUND")


async def test_a_key_is_shown_once_and_only_its_hash_is_kept(administered: Administered) -> None:
    it = administered
    tenant = await it.tenant()
    request = tenant_service_pb2.CreateKeyRequest(
        parent=tenant, principal="core-app", role=tenant_service_pb2.ROLE_CORE_APP, because="to decide"
    )
    made = await it.tenants.CreateKey(request, metadata=it.operator)
    secret = made.key.rpartition("_")[2]
    async with it.engine.connect() as connection:
        rows = [tuple(row) for row in await connection.execute(text("SELECT * FROM control.api_key"))]
    assert made.key.startswith(f"kdg_{made.key_id}_")
    assert secret not in str(rows)
    request.role = tenant_service_pb2.ROLE_UNSPECIFIED
    assert (await refusal(it.tenants.CreateKey(request, metadata=it.operator)))[1] == "INVALID_VALUE"


async def test_tenants_are_onboarded_once_and_listed(administered: Administered) -> None:
    it = administered
    tenant = await it.tenant()
    request = tenant_service_pb2.OnboardTenantRequest(because="again")
    request.tenant.name = tenant
    assert await refusal(it.tenants.OnboardTenant(request, metadata=it.operator)) == (
        grpc.StatusCode.ALREADY_EXISTS,
        "TENANT_EXISTS",
    )
    request.tenant.name = "tenants/Not-A-Name"
    assert (await refusal(it.tenants.OnboardTenant(request, metadata=it.operator)))[1] == "INVALID_NAME"
    seen, token = [], ""
    while True:
        page = await it.tenants.ListTenants(
            tenant_service_pb2.ListTenantsRequest(page_size=1, page_token=token), metadata=it.operator
        )
        seen += [found.name for found in page.tenants]
        token = page.next_page_token
        if not token:
            break
    assert tenant in seen
    assert seen == sorted(set(seen))
