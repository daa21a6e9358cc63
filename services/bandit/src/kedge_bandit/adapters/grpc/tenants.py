"""Serve TenantService."""

from dataclasses import dataclass, fields

from kedge.bandit.v1 import tenant_service_pb2 as pb
from kedge.bandit.v1 import tenant_service_pb2_grpc
from kedge_bandit.adapters.grpc.credentials import Keyring
from kedge_bandit.adapters.grpc.permissions import permissions_of
from kedge_bandit.adapters.grpc.status import Context, answering
from kedge_bandit.adapters.grpc.unimplemented import completing
from kedge_bandit.adapters.grpc.wire_governance import order_of, page_size_of, role_of, tenant_message
from kedge_bandit.adapters.grpc.wire_identity import identity_message, key_message, key_wish, page_token_of, parse_key
from kedge_bandit.application.administration_ports import SettingsChange, TenantSettings
from kedge_bandit.application.erase import EraseTenant, EraseUser
from kedge_bandit.application.identify import BindIdentity, CreateKey, ListCredentials, RevokeKey, UnbindIdentity
from kedge_bandit.application.onboard_tenant import ListTenants, OnboardTenant, UpdateTenant
from kedge_bandit.application.verify_isolation import VerifyIsolation
from kedge_bandit.domain.api_key import split_key
from kedge_bandit.domain.identifiers import parse_tenant
from kedge_bandit.domain.principal import Permission

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
    revoke_key: RevokeKey
    bind: BindIdentity
    unbind: UnbindIdentity
    credentials: ListCredentials
    verify_isolation: VerifyIsolation
    erase: EraseTenant
    erase_user: EraseUser

    @answering
    async def OnboardTenant(self, request: pb.OnboardTenantRequest, context: Context) -> pb.OnboardTenantResponse:
        """Create a tenant's schema and role."""
        actor = self.keyring.require(context, _ALLOWED["OnboardTenant"], None).actor
        tenant = parse_tenant(request.tenant.name)
        order = order_of(actor, "OnboardTenant", request, because=request.because, request_id=request.request_id)
        made = await self.onboard(tenant, order, _settings_of(request.tenant))
        return pb.OnboardTenantResponse(tenant=tenant_message(made))

    @answering
    async def UpdateTenant(self, request: pb.UpdateTenantRequest, context: Context) -> pb.UpdateTenantResponse:
        """Change the settings of a tenant that are named."""
        tenant = parse_tenant(request.name)
        actor = self.keyring.require(context, _ALLOWED["UpdateTenant"], tenant).actor
        settings = {field.name for field in fields(SettingsChange)}
        changed = SettingsChange(**{f.name: value for f, value in request.ListFields() if f.name in settings})
        if changed.is_of_quota:
            self.keyring.require(context, Permission.MANAGE_TENANTS, None)
        order = order_of(actor, "UpdateTenant", request, because=request.because, request_id=request.request_id)
        return pb.UpdateTenantResponse(tenant=tenant_message(await self.update(tenant, order, changed)))

    @answering
    async def ListTenants(self, request: pb.ListTenantsRequest, context: Context) -> pb.ListTenantsResponse:
        """List tenants by name; the page token is the last name."""
        self.keyring.require(context, _ALLOWED["ListTenants"], None)
        size = page_size_of(request.page_size)
        after = page_token_of(request.page_token)
        found = await self.tenants(after=after, limit=size + 1)
        return pb.ListTenantsResponse(
            tenants=[tenant_message(tenant) for tenant in found[:size]],
            next_page_token=found[size - 1].name if len(found) > size else "",
        )

    @answering
    async def VerifyIsolation(self, request: pb.VerifyIsolationRequest, context: Context) -> pb.VerifyIsolationResponse:
        """Inspect the walls between tenants, and run against them."""
        self.keyring.require(context, _ALLOWED["VerifyIsolation"], None)
        found = await self.verify_isolation()
        return pb.VerifyIsolationResponse(
            tenants=found.tenants,
            attempts=found.attempts,
            faults=[pb.IsolationFault(kind=one.kind, object=one.place, detail=one.detail) for one in found.faults],
            login=found.login,
        )

    @answering
    async def EraseTenant(self, request: pb.EraseTenantRequest, context: Context) -> pb.EraseTenantResponse:
        """Remove a tenant, or one end user of it."""
        tenant = parse_tenant(request.name)
        actor = self.keyring.require(context, _ALLOWED["EraseTenant"], tenant).actor
        order = order_of(actor, "EraseTenant", request, because=request.because, request_id=request.request_id)
        if request.end_user_id:
            rows = await self.erase_user(tenant, request.end_user_id, order)
        else:
            rows = await self.erase(tenant, order, confirm=request.confirm)
        return pb.EraseTenantResponse(rows_erased=rows)

    @answering
    async def CreateKey(self, request: pb.CreateKeyRequest, context: Context) -> pb.CreateKeyResponse:
        """Make a key for one tenant; its secret is answered once."""
        tenant = parse_tenant(request.parent)
        caller = self.keyring.require(context, _ALLOWED["CreateKey"], tenant)
        order = order_of(caller.actor, "CreateKey", request, because=request.because)
        key = await self.create_key(tenant, key_wish(request), order, made_by=caller.answering)
        key_id, _ = split_key(key) or ("", "")
        return pb.CreateKeyResponse(key=key, key_id=key_id)

    @answering
    async def ListKeys(self, request: pb.ListKeysRequest, context: Context) -> pb.ListKeysResponse:
        """List a tenant's keys by id; the page token is the last one."""
        tenant = parse_tenant(request.parent)
        self.keyring.require(context, _ALLOWED["ListKeys"], tenant)
        size, after = page_size_of(request.page_size), page_token_of(request.page_token)
        found = await self.credentials.keys(tenant, after=after, limit=size + 1)
        return pb.ListKeysResponse(
            keys=[key_message(kept) for kept in found[:size]],
            next_page_token=found[size - 1].key.key_id if len(found) > size else "",
        )

    @answering
    async def RevokeKey(self, request: pb.RevokeKeyRequest, context: Context) -> pb.RevokeKeyResponse:
        """End a key on every replica."""
        tenant, key_id = parse_key(request.name)
        actor = self.keyring.require(context, _ALLOWED["RevokeKey"], tenant).actor
        order = order_of(actor, "RevokeKey", request, because=request.because, request_id=request.request_id)
        return pb.RevokeKeyResponse(key=key_message(await self.revoke_key(tenant, key_id, order)))

    @answering
    async def BindIdentity(self, request: pb.BindIdentityRequest, context: Context) -> pb.BindIdentityResponse:
        """Say what the holder of a certificate is in a tenant."""
        tenant = parse_tenant(request.parent)
        caller = self.keyring.require(context, _ALLOWED["BindIdentity"], tenant)
        order = order_of(caller.actor, "BindIdentity", request, because=request.because, request_id=request.request_id)
        role = role_of(request.identity.role)
        bound = await self.bind(tenant, request.identity.name, role, order, made_by=caller.answering)
        return pb.BindIdentityResponse(identity=identity_message(bound))

    @answering
    async def ListIdentities(self, request: pb.ListIdentitiesRequest, context: Context) -> pb.ListIdentitiesResponse:
        """List a tenant's bindings by name; the page token is the last one."""
        tenant = parse_tenant(request.parent)
        self.keyring.require(context, _ALLOWED["ListIdentities"], tenant)
        size, after = page_size_of(request.page_size), page_token_of(request.page_token)
        found = await self.credentials.bindings(tenant, after=after, limit=size + 1)
        return pb.ListIdentitiesResponse(
            identities=[identity_message(kept) for kept in found[:size]],
            next_page_token=found[size - 1].binding.name if len(found) > size else "",
        )

    @answering
    async def UnbindIdentity(self, request: pb.UnbindIdentityRequest, context: Context) -> pb.UnbindIdentityResponse:
        """End what the holder of a certificate is in a tenant."""
        tenant = parse_tenant(request.parent)
        actor = self.keyring.require(context, _ALLOWED["UnbindIdentity"], tenant).actor
        order = order_of(actor, "UnbindIdentity", request, because=request.because, request_id=request.request_id)
        await self.unbind(tenant, request.identity_name, order)
        return pb.UnbindIdentityResponse()


def _settings_of(message: pb.Tenant) -> TenantSettings:
    return TenantSettings(
        store_content=message.store_content,
        durable=message.durable,
        decisions_per_second=message.decisions_per_second,
        rows_per_second=message.rows_per_second,
        retention_days=message.retention_days,
    )
