"""Serve TenantService."""

from dataclasses import dataclass

from kedge.bandit.v1 import tenant_service_pb2 as pb
from kedge.bandit.v1 import tenant_service_pb2_grpc
from kedge_bandit.adapters.grpc.credentials import Keyring
from kedge_bandit.adapters.grpc.permissions import permissions_of
from kedge_bandit.adapters.grpc.status import Context, answering
from kedge_bandit.adapters.grpc.unimplemented import completing
from kedge_bandit.adapters.grpc.wire_governance import order_of, page_size_of, role_of, tenant_message
from kedge_bandit.application.administration_ports import TenantSettings
from kedge_bandit.application.onboard_tenant import CreateKey, ListTenants, OnboardTenant, UpdateTenant
from kedge_bandit.domain.api_key import split_key
from kedge_bandit.domain.identifiers import parse_tenant, text_id

_ALLOWED = permissions_of("TenantService")


@completing(pb.DESCRIPTOR.services_by_name["TenantService"])
@dataclass(frozen=True, slots=True)
class TenantServicer(tenant_service_pb2_grpc.TenantServiceServicer):
    """Bring tenants in and give out keys."""

    keyring: Keyring
    onboard: OnboardTenant
    update: UpdateTenant
    tenants: ListTenants
    create_key: CreateKey

    @answering
    async def OnboardTenant(self, request: pb.OnboardTenantRequest, context: Context) -> pb.OnboardTenantResponse:
        """Create a tenant's schema and role."""
        tenant = parse_tenant(request.tenant.name)
        actor = self.keyring.require(context, _ALLOWED["OnboardTenant"], None).actor
        order = order_of(actor, "OnboardTenant", request, because=request.because, request_id=request.request_id)
        made = await self.onboard(tenant, order, _settings_of(request.tenant))
        return pb.OnboardTenantResponse(tenant=tenant_message(made))

    @answering
    async def UpdateTenant(self, request: pb.UpdateTenantRequest, context: Context) -> pb.UpdateTenantResponse:
        """Replace a tenant's settings."""
        tenant = parse_tenant(request.tenant.name)
        actor = self.keyring.require(context, _ALLOWED["UpdateTenant"], tenant).actor
        order = order_of(actor, "UpdateTenant", request, because=request.because, request_id=request.request_id)
        return pb.UpdateTenantResponse(
            tenant=tenant_message(await self.update(tenant, order, _settings_of(request.tenant)))
        )

    @answering
    async def ListTenants(self, request: pb.ListTenantsRequest, context: Context) -> pb.ListTenantsResponse:
        """List tenants by name; the page token is the last name."""
        self.keyring.require(context, _ALLOWED["ListTenants"], None)
        size = page_size_of(request.page_size)
        after = text_id(request.page_token, field="page_token") if request.page_token else ""
        found = await self.tenants(after=after, limit=size + 1)
        return pb.ListTenantsResponse(
            tenants=[tenant_message(tenant) for tenant in found[:size]],
            next_page_token=found[size - 1].name if len(found) > size else "",
        )

    @answering
    async def CreateKey(self, request: pb.CreateKeyRequest, context: Context) -> pb.CreateKeyResponse:
        """Make a key for one tenant; its secret is answered once."""
        tenant = parse_tenant(request.parent)
        actor = self.keyring.require(context, _ALLOWED["CreateKey"], tenant).actor
        order = order_of(actor, "CreateKey", request, because=request.because)
        key = await self.create_key(tenant, request.principal, role_of(request.role), order)
        key_id, _ = split_key(key) or ("", "")
        return pb.CreateKeyResponse(key=key, key_id=key_id)


def _settings_of(message: pb.Tenant) -> TenantSettings:
    return TenantSettings(store_content=message.store_content, durable=message.durable)
