"""Certificates open what they are bound to; what is wrong with one is refused, in the handshake or by its name."""

import base64
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from kedge.bandit.v1 import governance_service_pb2, policy_service_pb2, tenant_service_pb2
from kedge_bandit.adapters.grpc.credentials import Keyring
from kedge_bandit.adapters.identity.certificates import read_certificate
from kedge_bandit.adapters.identity.tls import ServedCertificate, TlsFiles
from kedge_bandit.domain.errors import Unauthenticated
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.identity import Binding
from kedge_bandit.domain.principal import Permission, Role
from tests.fixtures.ledgers import migrated_url
from tests.trust.authorities import Authority, Issuer, Pair
from tests.trust.doors import Doors, open_doors, tls_settings, until
from tests.trust.written import markdown, write_json

__all__ = ["migrated_url"]

OURS, STRANGERS = Authority("ours"), Authority("strangers")
CORE = "spiffe://kedge.example/acme/core-app"
OPERATOR_HOST = OURS.client("spiffe://kedge.example/operations")
CUT_OFF = ("UNAVAILABLE", "UNAVAILABLE")


@pytest.fixture
async def doors(migrated_url: str, tmp_path: Path) -> AsyncIterator[Doors]:
    settings: dict[str, Any] = tls_settings(tmp_path, OURS.server(), OURS)
    async with open_doors(migrated_url, authority=OURS, **settings) as opened:
        yield opened


def policies_of(tenant: str) -> policy_service_pb2.ListPoliciesRequest:
    return policy_service_pb2.ListPoliciesRequest(parent=f"tenants/{tenant}")


async def listing(doors: Doors, tenant: str, own: Pair | None, key: str = "") -> tuple[str, str]:
    async with doors.stubs(key, own=own) as stubs:
        return await stubs.refusal(stubs.policies.ListPolicies, policies_of(tenant))


async def bind(doors: Doors, tenant: str, name: str, role: str) -> None:
    identity = tenant_service_pb2.Identity(name=name, role=tenant_service_pb2.Role.Value(f"ROLE_{role}"))
    request = tenant_service_pb2.BindIdentityRequest(parent=f"tenants/{tenant}", identity=identity, because="it serves")
    async with doors.stubs(doors.operator, own=OPERATOR_HOST) as stubs:
        await stubs.call(stubs.tenants.BindIdentity, request)
    await doors.replica.snapshot.refresh()


async def test_what_is_wrong_with_a_certificate_is_refused_and_how(doors: Doors) -> None:
    mine, other = await doors.tenant(OPERATOR_HOST), await doors.tenant(OPERATOR_HOST)
    await bind(doors, mine, CORE, "VIEWER")
    await bind(doors, other, "spiffe://kedge.example/globex/core-app", "VIEWER")
    uri = x509.UniformResourceIdentifier
    unauthenticated, denied = ("UNAUTHENTICATED", "UNAUTHENTICATED"), ("PERMISSION_DENIED", "TENANT_DENIED")
    seen = {
        "none": await listing(doors, mine, None),
        "none, with an operator's key": await listing(doors, mine, None, doors.operator),
        "wrong authority": await listing(doors, mine, STRANGERS.client(CORE)),
        "expired": await listing(doors, mine, OURS.sign(uri(CORE), ends=timedelta(hours=-1))),
        "common name alone": await listing(doors, mine, OURS.sign(common_name=CORE)),
        "two SPIFFE ids": await listing(doors, mine, OURS.sign(uri(CORE), uri("spiffe://kedge.example/more"))),
        "bound to nothing": await listing(doors, mine, OURS.client("spiffe://kedge.example/acme/other")),
        "DNS name instead": await listing(doors, mine, OURS.sign(x509.DNSName("kedge.example/acme/core-app"))),
        "another tenant's": await listing(doors, mine, OURS.client("spiffe://kedge.example/globex/core-app")),
        "unknown tenant": await listing(doors, "nobody", OURS.client(CORE)),
        "ours": await listing(doors, mine, OURS.client(CORE)),
    }
    assert seen == {
        "none": CUT_OFF,
        "none, with an operator's key": CUT_OFF,
        "wrong authority": CUT_OFF,
        "expired": CUT_OFF,
        "common name alone": unauthenticated,
        "two SPIFFE ids": unauthenticated,
        "bound to nothing": unauthenticated,
        "DNS name instead": unauthenticated,
        "another tenant's": denied,
        "unknown tenant": denied,
        "ours": ("OK", ""),
    }
    print(markdown(("certificate", "code", "reason"), [(how, *answer) for how, answer in seen.items()]))
    write_json("identity_certificates", seen)


async def test_a_certificate_has_its_role_in_each_tenant_it_is_bound_to(doors: Doors) -> None:
    one, two = await doors.tenant(OPERATOR_HOST), await doors.tenant(OPERATOR_HOST)
    await bind(doors, one, "dns:core.kedge.example", "ADMIN")
    await bind(doors, two, "dns:core.kedge.example", "VIEWER")
    own = OURS.sign(x509.DNSName("core.kedge.example"), x509.DNSName("second.kedge.example"))
    async with doors.stubs(own=own) as stubs:
        for tenant, reason in ((one, ""), (two, "PERMISSION_DENIED")):
            freeze = governance_service_pb2.FreezeRequest(name=f"tenants/{tenant}", because="to try")
            assert (await stubs.refusal(stubs.governance.Freeze, freeze))[1] == reason
        events = governance_service_pb2.ListAuditEventsRequest(parent=f"tenants/{one}")
        newest = (await stubs.call(stubs.governance.ListAuditEvents, events)).events
    assert [(event.verb, event.actor) for event in newest[:2]] == [
        ("tenant.frozen", "cert:dns:core.kedge.example"),
        ("identity.bound", "key:operator"),
    ]


async def test_an_unbound_certificate_ends_on_its_open_connection(doors: Doors) -> None:
    name, tenant = "spiffe://kedge.example/moving", await doors.tenant(OPERATOR_HOST)
    await bind(doors, tenant, name, "VIEWER")
    async with doors.stubs(own=OURS.client(name)) as stubs, doors.stubs(doors.operator, own=OPERATOR_HOST) as operator:
        assert (await stubs.refusal(stubs.policies.ListPolicies, policies_of(tenant)))[0] == "OK"
        unbind = tenant_service_pb2.UnbindIdentityRequest(
            parent=f"tenants/{tenant}", identity_name=name, because="it moved"
        )
        await operator.call(operator.tenants.UnbindIdentity, unbind)

        async def is_out() -> bool:
            return (await stubs.refusal(stubs.policies.ListPolicies, policies_of(tenant)))[0] == "UNAUTHENTICATED"

        await until(is_out, "the binding to end")
        again = await operator.refusal(operator.tenants.UnbindIdentity, unbind)
    assert again == ("NOT_FOUND", "CREDENTIAL_NOT_FOUND")


async def test_the_servers_certificate_and_its_clients_authority_rotate_without_a_restart(
    doors: Doors, tmp_path: Path
) -> None:
    tenant, fresh = await doors.tenant(OPERATOR_HOST), Authority("fresh")
    await bind(doors, tenant, CORE, "VIEWER")
    theirs = fresh.client(CORE)
    assert await listing(doors, tenant, theirs) == CUT_OFF
    (tmp_path / "clients.pem").write_bytes(fresh.certificate)
    fresh.server().write(tmp_path, "server")
    doors.root = fresh.certificate
    assert (await listing(doors, tenant, theirs))[0] == "OK"
    assert await listing(doors, tenant, OURS.client(CORE)) == CUT_OFF


def test_half_of_a_rotation_is_left_until_the_other_half_is_there(tmp_path: Path) -> None:
    first, second = OURS.server(), OURS.server()
    certificate, key = first.write(tmp_path, "server")
    served = ServedCertificate(TlsFiles(certificate, key))
    key.write_bytes(second.key)
    assert not served.renew()
    certificate.write_bytes(second.certificate)
    assert served.renew()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    first.write(tmp_path, "server")
    served.bring(context)
    key.write_bytes(second.key)
    with pytest.raises(ValueError, match=r"is not the key of"):
        ServedCertificate(TlsFiles(certificate, key))


def encrypted(pair: Pair) -> Pair:
    key = load_pem_private_key(pair.key, password=None)
    form = (Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    return Pair(pair.certificate, key.private_bytes(*form))


def of_an_unknown_kind(pair: Pair) -> Pair:
    """Give a key whose algorithm has a number that nobody has registered."""
    algorithm = bytes.fromhex("06032a0304")
    der = b"\x30\x10\x02\x01\x00\x30" + bytes([len(algorithm)]) + algorithm + b"\x04\x04abcd"
    body = base64.b64encode(der[:1] + bytes([len(der) - 2]) + der[2:])
    return Pair(pair.certificate, b"-----BEGIN PRIVATE KEY-----\n" + body + b"\n-----END PRIVATE KEY-----\n")


@pytest.mark.parametrize("spoil", [encrypted, of_an_unknown_kind, lambda pair: Pair(b"", b"")])
def test_files_that_cannot_be_served_leave_the_old_certificate_and_are_followed_on(
    tmp_path: Path, spoil: Callable[[Pair], Pair]
) -> None:
    certificate, key = OURS.server().write(tmp_path, "server")
    served = ServedCertificate(TlsFiles(certificate, key))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.bring(context)
    spoil(OURS.server()).write(tmp_path, "server")
    served.bring(context)
    with pytest.raises(ValueError, match=r"server\.|PEM|certificate"):
        ServedCertificate(TlsFiles(certificate, key))
    key.unlink()
    served.bring(context)
    fresh = OURS.server()
    fresh.write(tmp_path, "server")
    served.bring(context)
    assert shown(context) == ssl.PEM_cert_to_DER_cert(fresh.certificate.decode())


def shown(server: ssl.SSLContext) -> bytes | None:
    """Shake hands with a context in memory; gives the certificate that it shows, as DER."""
    asking = ssl.create_default_context(cadata=OURS.certificate.decode())
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asking.wrap_bio(back, there, server_hostname="localhost")
    host = server.wrap_bio(there, back, server_side=True)
    for side in (client, host, client):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return client.getpeercert(binary_form=True)


class Connection:
    """A connection whose client showed a certificate."""

    def __init__(self, pem: bytes) -> None:
        self.pem = pem

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()

    def auth_context(self) -> dict[str, list[bytes]]:
        return {"x509_pem_cert": [self.pem]}


def test_a_certificate_ends_on_a_connection_that_outlives_it() -> None:
    pem = OURS.client(CORE).certificate
    now = [0.0]
    tenant = TenantId("acme")
    keyring = Keyring(bindings=[Binding(CORE, tenant, Role.VIEWER)], certificates=read_certificate, now=lambda: now[0])
    connection: object = Connection(pem)
    keyring.require(connection, Permission.READ, tenant)  # type: ignore[arg-type]  # as much of it as is asked
    now[0] = read_certificate(pem).until
    with pytest.raises(Unauthenticated, match="has expired"):
        keyring.require(connection, Permission.READ, tenant)  # type: ignore[arg-type]  # likewise


async def test_a_service_with_a_certificate_passes_a_persons_own_token_on(migrated_url: str, tmp_path: Path) -> None:
    issuer = Issuer()
    issuer.write(tmp_path / "jwks.json")
    tokens = {"jwt_issuer": issuer.name, "jwt_audience": issuer.audience, "jwt_keys": str(tmp_path / "jwks.json")}
    settings: dict[str, Any] = {**tls_settings(tmp_path, OURS.server(), OURS), **tokens}
    async with open_doors(migrated_url, authority=OURS, **settings) as doors:
        tenant = await doors.tenant(OPERATOR_HOST)
        console = OURS.client("spiffe://kedge.example/console")
        async with doors.stubs(issuer.token("alice", "admin", tenant), own=console) as stubs:
            freeze = governance_service_pb2.FreezeRequest(name=f"tenants/{tenant}", because="she saw something")
            await stubs.call(stubs.governance.Freeze, freeze)
            events = governance_service_pb2.ListAuditEventsRequest(parent=f"tenants/{tenant}", page_size=1)
            newest = (await stubs.call(stubs.governance.ListAuditEvents, events)).events[0]
    assert newest.actor == "person:https://login.example#alice by cert:spiffe://kedge.example/console"
