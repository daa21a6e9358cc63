"""`kedge key` and `kedge identity`: give programs and people credentials of a tenant, and take them back."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import typer

from kedge.bandit.v1 import tenant_service_pb2
from kedge_bandit.entrypoints.client import connected
from kedge_bandit.entrypoints.documents import document_of
from kedge_bandit.entrypoints.printing import Because, JsonFlag, KedgeGroup, TenantName, answer, table

_PAGE = 1000
RoleName = Literal["core_app", "viewer", "proposer", "approver", "admin", "evaluator", "trainer", "alarm"]
Role = Annotated[RoleName, typer.Option(help="What it may do.", case_sensitive=False)]
CertificateName = Annotated[
    str, typer.Argument(metavar="NAME", help="In the certificate: spiffe://… , or dns: and the first DNS name.")
]

keys = typer.Typer(cls=KedgeGroup, help="Give out API keys and take them back.", no_args_is_help=True)
identities = typer.Typer(cls=KedgeGroup, help="Say what client certificates may do.", no_args_is_help=True)


@keys.command()
def create(
    tenant: TenantName,
    *,
    principal: Annotated[str, typer.Option(help="Who will hold it, e.g. core-app.")],
    role: Role,
    person: Annotated[str, typer.Option(help="Whom it stands for; left out for a program.")] = "",
    issuer: Annotated[str, typer.Option(help="Who knows that person under this name.")] = "kedge",
    days: Annotated[float, typer.Option(min=0, help="When it stops working; 0: never.")] = 0,
    because: Because = "made from the command line",
    as_json: JsonFlag = False,
) -> None:
    """Make a key for one tenant. It is shown once."""
    request = tenant_service_pb2.CreateKeyRequest(
        parent=f"tenants/{tenant}", principal=principal, role=_role(role), because=because
    )
    if person:
        request.person.issuer, request.person.subject = issuer, person
    if days:
        request.expire_time.FromDatetime(datetime.now(UTC) + timedelta(days=days))
    with connected() as client:
        made = client.call(client.tenants.CreateKey, request)
    answer(document_of(made), lambda out: out.print(made.key, highlight=False, soft_wrap=True), as_json=as_json)


@keys.command("list")
def list_keys(tenant: TenantName, *, as_json: JsonFlag = False) -> None:
    """List a tenant's keys, also those that are revoked or expired."""
    request = tenant_service_pb2.ListKeysRequest(parent=f"tenants/{tenant}", page_size=_PAGE)
    with connected() as client:
        found = _pages(client, client.tenants.ListKeys, request, "keys")
    rows = [
        (
            key["name"].rpartition("/")[2],
            key["principal"],
            key["role"],
            "{subject} of {issuer}".format(**key["person"]) if key.get("person") else "",
            key["create_time"],
            key.get("expire_time") or "",
            key.get("revoke_time") or "",
        )
        for key in found
    ]
    heads = ("key", "principal", "role", "person", "since", "expires", "revoked")
    answer(found, lambda out: out.print(table("Keys", heads, rows)), as_json=as_json)


@keys.command()
def revoke(
    tenant: TenantName,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Its id, the second part of the key.")],
    *,
    because: Because,
    as_json: JsonFlag = False,
) -> None:
    """End a key; it stops working on every replica within a second."""
    request = tenant_service_pb2.RevokeKeyRequest(name=f"tenants/{tenant}/keys/{key}", because=because)
    with connected() as client:
        ended = client.call(client.tenants.RevokeKey, request).key
    answer(document_of(ended), lambda out: out.print(f"key {key} of {ended.principal} is revoked"), as_json=as_json)


@identities.command()
def bind(
    tenant: TenantName,
    name: CertificateName,
    *,
    role: Role,
    because: Because = "bound from the command line",
    as_json: JsonFlag = False,
) -> None:
    """Say what the holder of a certificate is in a tenant; bound again it has the new role."""
    identity = tenant_service_pb2.Identity(name=name, role=_role(role))
    request = tenant_service_pb2.BindIdentityRequest(parent=f"tenants/{tenant}", identity=identity, because=because)
    with connected() as client:
        bound = client.call(client.tenants.BindIdentity, request).identity
    answer(document_of(bound), lambda out: out.print(f"{name} is {role.upper()} in {tenant}"), as_json=as_json)


@identities.command("list")
def list_identities(tenant: TenantName, *, as_json: JsonFlag = False) -> None:
    """List what certificates are bound to in a tenant."""
    request = tenant_service_pb2.ListIdentitiesRequest(parent=f"tenants/{tenant}", page_size=_PAGE)
    with connected() as client:
        found = _pages(client, client.tenants.ListIdentities, request, "identities")
    rows = [(identity["name"], identity["role"], identity["create_time"]) for identity in found]
    answer(found, lambda out: out.print(table("Identities", ("name", "role", "since"), rows)), as_json=as_json)


@identities.command()
def unbind(tenant: TenantName, name: CertificateName, *, because: Because, as_json: JsonFlag = False) -> None:
    """End what the holder of a certificate is in a tenant, on every replica within a second."""
    request = tenant_service_pb2.UnbindIdentityRequest(parent=f"tenants/{tenant}", identity_name=name, because=because)
    with connected() as client:
        client.call(client.tenants.UnbindIdentity, request)
    answer({"name": name}, lambda out: out.print(f"{name} is nothing in {tenant} any more"), as_json=as_json)


def _role(name: RoleName) -> tenant_service_pb2.Role.ValueType:
    return tenant_service_pb2.Role.Value(f"ROLE_{name.upper()}")


def _pages(client: Any, rpc: Any, request: Any, field: str) -> list[dict[str, Any]]:
    """Read every page of a list."""
    found: list[dict[str, Any]] = []
    while True:
        page = client.call(rpc, request)
        found += [document_of(each) for each in getattr(page, field)]
        if not page.next_page_token:
            return found
        request.page_token = page.next_page_token
