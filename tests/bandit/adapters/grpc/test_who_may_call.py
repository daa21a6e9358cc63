"""Who may call what, how tenants come in, and what the services of later issues answer."""

from dataclasses import dataclass
from typing import Any

import grpc
from grpc import aio
from sqlalchemy import text

from kedge.bandit.v1 import (
    experiment_service_pb2,
    experiment_service_pb2_grpc,
    policy_service_pb2,
    tenant_service_pb2,
)
from kedge_bandit.adapters.grpc.credentials import Keyring
from kedge_bandit.adapters.grpc.unimplemented import completing
from kedge_bandit.entrypoints.server import handler_of
from tests.fixtures.administered import Administered, refusal, with_policy

_LATER = experiment_service_pb2.DESCRIPTOR.services_by_name["ExperimentService"]


@completing(_LATER)
@dataclass(frozen=True)
class Later:
    """A servicer without any RPC of its own."""

    keyring: Keyring


async def test_an_rpc_whose_turn_comes_later_says_so(administered: Administered) -> None:
    server = aio.server()
    handlers: list[grpc.GenericRpcHandler] = [handler_of(_LATER, Later(administered.keyring))]
    server.add_generic_rpc_handlers(tuple(handlers))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        later: Any = experiment_service_pb2_grpc.ExperimentServiceStub(channel)
        get = experiment_service_pb2.GetExperimentRequest()
        answer = await refusal(later.GetExperiment(get, metadata=administered.operator))
    await server.stop(None)
    assert answer == (grpc.StatusCode.UNIMPLEMENTED, "UNIMPLEMENTED")


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


async def test_a_tenants_admin_changes_what_is_named_and_never_its_quota(administered: Administered) -> None:
    it = administered
    tenant = await it.tenant()
    admin = await it.key(tenant, "ROLE_ADMIN")
    change = tenant_service_pb2.UpdateTenantRequest
    quota = change(name=tenant, rows_per_second=5.0, because="a test")
    await it.tenants.UpdateTenant(quota, metadata=it.operator)

    changed = (
        await it.tenants.UpdateTenant(change(name=tenant, durable=True, because="a test"), metadata=admin)
    ).tenant
    lifted = await refusal(
        it.tenants.UpdateTenant(change(name=tenant, rows_per_second=0.0, because="a test"), metadata=admin)
    )

    assert (changed.durable, changed.rows_per_second) == (True, 5.0)
    assert lifted == (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED")
