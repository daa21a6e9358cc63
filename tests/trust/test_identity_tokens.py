"""Tokens are taken from one issuer, for this service and while they are good; whoever is behind a service is seen."""

import base64
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey
from joserfc.jws import serialize_compact

from kedge.bandit.v1 import governance_service_pb2, policy_pb2, policy_service_pb2, proposal_service_pb2
from tests.fixtures.ledgers import migrated_url
from tests.trust.authorities import Issuer, new_key
from tests.trust.doors import Doors, open_doors, until
from tests.trust.written import markdown, write_json

__all__ = ["migrated_url"]

MODES = (policy_pb2.MODE_OBSERVE, policy_pb2.MODE_APPLY)


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    made = Issuer()
    made.write(tmp_path / "jwks.json")
    return made


@pytest.fixture
async def doors(migrated_url: str, issuer: Issuer, tmp_path: Path) -> AsyncIterator[Doors]:
    keys = str(tmp_path / "jwks.json")
    async with open_doors(migrated_url, jwt_issuer=issuer.name, jwt_audience=issuer.audience, jwt_keys=keys) as opened:
        yield opened


async def listing(doors: Doors, tenant: str, token: str) -> tuple[str, str]:
    request = policy_service_pb2.ListPoliciesRequest(parent=f"tenants/{tenant}")
    async with doors.stubs(token) as stubs:
        return await stubs.refusal(stubs.policies.ListPolicies, request)


async def over_http(doors: Doors, tenant: str, token: str) -> tuple[int, str]:
    async with doors.http() as client:
        answer = await client.get(f"/v1/tenants/{tenant}/policies", headers={"authorization": f"Bearer {token}"})
    return answer.status_code, answer.json()["error"]["message"]


def unsigned(claims: dict[str, Any]) -> str:
    parts = ({"alg": "none", "kid": "k1"}, claims)
    return ".".join(base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts) + "."


def hmac_with_the_public_key(issuer: Issuer, claims: dict[str, Any]) -> str:
    """Sign as who hopes that the server takes the public key for a shared secret."""
    pem = issuer.keys[0].public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    key = OctKey.import_key(base64.urlsafe_b64encode(pem).decode())
    return jwt.encode({"alg": "HS256", "kid": "k1"}, claims, key, algorithms=["HS256"])


def changed(**more: Any) -> Callable[[Issuer], str]:
    """Sign claims that differ from good ones; None leaves one out."""
    return lambda issuer: issuer.token("alice", "viewer", **more)


def headed(**header: Any) -> Callable[[Issuer], str]:
    return lambda issuer: issuer.sign(issuer.claims("alice", "viewer"), **header)


def never_ending(issuer: Issuer) -> str:
    claims = json.dumps(issuer.claims("alice", "viewer", exp=None))
    return serialize_compact({"alg": "ES256", "kid": "k1"}, claims[:-1] + ', "exp": NaN}', issuer.keys[0])


def nested(issuer: Issuer) -> str:
    """Put thousands of brackets in each other where the header is; anybody can, it is read before the signature."""
    _, body, signature = issuer.token("alice", "viewer").split(".")
    return f"{base64.urlsafe_b64encode(b'[' * 3000).decode()}.{body}.{signature}"


def tampered(issuer: Issuer) -> str:
    head, _, tail = issuer.token("alice", "viewer").split(".")
    body = base64.urlsafe_b64encode(json.dumps(issuer.claims("alice", "admin")).encode()).decode().rstrip("=")
    return f"{head}.{body}.{tail}"


NOW = time.time
REFUSED: dict[str, Callable[[Issuer], str]] = {
    "none": lambda issuer: unsigned(issuer.claims("alice", "viewer")),
    "HMAC with the public key": lambda issuer: hmac_with_the_public_key(issuer, issuer.claims("alice", "viewer")),
    "an algorithm that is not allowed": lambda issuer: jwt.encode(
        {"alg": "ES384", "kid": "k2"}, issuer.claims("alice", "viewer"), ECKey.generate_key("P-384"), ["ES384"]
    ),
    "another key under a known id": lambda issuer: issuer.sign(issuer.claims("alice", "viewer"), key=new_key("k1")),
    "an unknown key": lambda issuer: issuer.sign(issuer.claims("alice", "viewer"), key=new_key("k9")),
    "claims changed after signing": tampered,
    "another audience": changed(aud="payroll"),
    "no audience": changed(aud=None),
    "another issuer": changed(iss="https://login.evil.example"),
    "expired": changed(exp=int(NOW()) - 60),
    "never ending": never_ending,
    "no end": changed(exp=None),
    "good for a year": changed(exp=int(NOW()) + 31_536_000),
    "not yet valid": changed(nbf=int(NOW()) + 86_400),
    "issued in the future": changed(iat=int(NOW()) + 86_400),
    "no subject": changed(sub=None),
    "crit": headed(crit=["alg"]),
    "another type": headed(typ="logout+jwt"),
    "bound to its holder's key": changed(cnf={"x5t#S256": "abc"}),
    "a role nobody has": lambda issuer: issuer.token("alice", "king"),
    "no tenants": changed(kedge_tenants=None),
    "operator of one tenant": lambda issuer: issuer.token("alice", "operator"),
    "viewer everywhere": changed(kedge_tenants="*"),
    "an empty service behind": changed(act={}),
    "no token at all": lambda _issuer: "e30.e30.e30",
    "longer than can be": lambda _issuer: "a." + "b" * 8200 + ".c",
    "a header of brackets": nested,
    "a header in part": lambda _issuer: "eyJhbGciOiJFUzI1NiI.e30.e30",
}


BECAUSE = {
    "none": "algorithm",
    "HMAC with the public key": "algorithm",
    "an algorithm that is not allowed": "algorithm",
    "another key under a known id": "signature",
    "an unknown key": "not in the key set",
    "claims changed after signing": "signature",
    "another audience": "aud",
    "no audience": "aud",
    "another issuer": "iss",
    "expired": "exp",
    "never ending": "exp",
    "no end": "exp",
    "good for a year": "over a day",
    "not yet valid": "nbf",
    "issued in the future": "iat",
    "no subject": "sub",
    "crit": "crit",
    "another type": "type",
    "bound to its holder's key": "cnf",
    "a role nobody has": "kedge_role",
    "no tenants": "kedge_tenants",
    "operator of one tenant": "belong together",
    "viewer everywhere": "belong together",
    "an empty service behind": "sub",
    "no token at all": "algorithm",
    "longer than can be": "at most 8192",
    "a header of brackets": "not JSON",
    "a header in part": "not JSON",
}
"""What the refusal says, so that each is refused for what is wrong with it."""


async def test_a_token_that_is_not_good_is_unauthenticated_at_every_door(doors: Doors, issuer: Issuer) -> None:
    assert await listing(doors, "acme", issuer.token("alice", "viewer")) == ("PERMISSION_DENIED", "TENANT_DENIED")
    seen = {}
    for how, make in REFUSED.items():
        token = make(issuer)
        # gRPC itself cuts metadata over 8 KiB off.
        over_grpc = (await listing(doors, "acme", token))[0] if len(token) < 8000 else "UNAUTHENTICATED"
        seen[how] = (over_grpc, *await over_http(doors, "acme", token))
    rows = [(how, code, str(status), said) for how, (code, status, said) in seen.items()]
    print(markdown(("token", "gRPC", "HTTP", "said"), rows))
    write_json("identity_tokens", seen)
    assert {(code, status) for code, status, _ in seen.values()} == {("UNAUTHENTICATED", 401)}, seen
    assert [(how, said) for how, (_, _, said) in seen.items() if BECAUSE[how] not in said] == []


async def test_clocks_may_differ_by_five_seconds(doors: Doors, issuer: Issuer) -> None:
    tenant = await doors.tenant()
    late = issuer.token("alice", "viewer", tenant, exp=int(time.time()) - 2)
    early = issuer.token("alice", "viewer", [tenant], nbf=int(time.time()) + 4, iat=int(time.time()) + 4)
    assert [await listing(doors, tenant, token) for token in (late, early)] == [("OK", "")] * 2


async def test_a_role_may_differ_by_tenant(doors: Doors, issuer: Issuer) -> None:
    one, two = await doors.tenant(), await doors.tenant()
    token = issuer.sign({**issuer.claims("alice", ""), "kedge_role": {one: "admin", two: "core_app"}})
    assert [await listing(doors, tenant, token) for tenant in (one, two)] == [
        ("OK", ""),
        ("PERMISSION_DENIED", "PERMISSION_DENIED"),
    ]


async def test_keys_rotate_while_serving(doors: Doors, issuer: Issuer, tmp_path: Path) -> None:
    tenant = await doors.tenant()
    old = issuer.token("alice", "viewer", tenant)
    assert (await listing(doors, tenant, old))[0] == "OK"
    issuer.keys.append(new_key("k2"))
    fresh = issuer.token("bob", "viewer", tenant)
    issuer.write(tmp_path / "jwks.json")

    async def is_known() -> bool:
        return (await listing(doors, tenant, fresh))[0] == "OK"

    await until(is_known, "the new key to be read")
    assert (await listing(doors, tenant, old))[0] == "OK"
    del issuer.keys[0]
    issuer.write(tmp_path / "jwks.json")

    async def is_out() -> bool:
        return (await listing(doors, tenant, old))[0] == "UNAUTHENTICATED"

    await until(is_out, "tokens of the key that is gone to be refused, though they were known")
    assert (await listing(doors, tenant, fresh))[0] == "OK"
    (tmp_path / "jwks.json").write_text("{}", encoding="utf-8")
    assert (await listing(doors, tenant, fresh))[0] == "OK"


async def test_who_is_behind_a_service_is_who_acts(doors: Doors, issuer: Issuer) -> None:
    tenant = await doors.tenant()
    console = {"sub": "console"}
    tokens = {
        "alice herself": issuer.token("alice", "admin", tenant),
        "alice behind the console": issuer.token("alice", "admin", tenant, act=console),
        "bob behind the console": issuer.token("bob", "admin", tenant, act=console),
        "the console itself": issuer.token("console", "admin", tenant, auth_time=None),
        "a client that says it is a person": issuer.token("console", "admin", tenant, client_id="console"),
    }
    actors: dict[str, str] = {}
    for who, token in tokens.items():
        async with doors.stubs(token) as stubs:
            wanted = MODES[len(actors) % 2]
            mode = governance_service_pb2.SetModeRequest(name=f"tenants/{tenant}", because=who, mode=wanted)
            await stubs.call(stubs.governance.SetMode, mode)
            events = governance_service_pb2.ListAuditEventsRequest(parent=f"tenants/{tenant}", page_size=1)
            actors[who] = (await stubs.call(stubs.governance.ListAuditEvents, events)).events[0].actor
    assert actors == {
        "alice herself": "person:https://login.example#alice",
        "alice behind the console": "person:https://login.example#alice by service:console",
        "bob behind the console": "person:https://login.example#bob by service:console",
        "the console itself": "service:console",
        "a client that says it is a person": "service:console",
    }
    holders = {who: doors.replica.keyring.holder(f"Bearer {token}") for who, token in tokens.items()}
    persons = [holder.person for holder in holders.values()]
    assert len({persons[1], persons[2]}) == 2  # one service passing on two persons
    assert persons[0] == persons[1]  # the same person through two doors
    assert persons[3:] == [None, None]


async def test_only_a_person_approves(doors: Doors, issuer: Issuer) -> None:
    tenant = await doors.tenant()
    approve = proposal_service_pb2.ApproveProposalRequest(name=f"tenants/{tenant}/proposals/p", because="it is good")
    answers = {}
    for who, token in {
        "a person": issuer.token("alice", "approver", tenant),
        "a person behind a service": issuer.token("alice", "approver", tenant, act={"sub": "console"}),
        "a service": issuer.token("console", "approver", tenant, auth_time=None),
        "a service that names another": issuer.token("console", "approver", tenant, auth_time=None, act={"sub": "x"}),
        "an operator's key": doors.operator,
        "a person's key, where people sign on": await doors.key(tenant, "APPROVER", person="alice"),
    }.items():
        async with doors.stubs(token) as stubs:
            answers[who] = (await stubs.refusal(stubs.proposals.ApproveProposal, approve))[1]
    assert answers == {
        "a person": "PROPOSAL_NOT_FOUND",
        "a person behind a service": "PROPOSAL_NOT_FOUND",
        "a service": "PERMISSION_DENIED",
        "a service that names another": "PERMISSION_DENIED",
        "an operator's key": "PERMISSION_DENIED",
        "a person's key, where people sign on": "PERMISSION_DENIED",
    }


async def test_a_persons_key_approves_where_nobody_signs_on(migrated_url: str) -> None:
    async with open_doors(migrated_url) as doors:
        tenant = await doors.tenant()
        key = await doors.key(tenant, "APPROVER", person="alice")
        approve = proposal_service_pb2.ApproveProposalRequest(name=f"tenants/{tenant}/proposals/p", because="good")
        async with doors.stubs(key) as stubs:
            assert (await stubs.refusal(stubs.proposals.ApproveProposal, approve))[1] == "PROPOSAL_NOT_FOUND"
            reject = governance_service_pb2.UnfreezeRequest(name=f"tenants/{tenant}", because="no")
            assert (await stubs.refusal(stubs.governance.Unfreeze, reject))[1] == "PERMISSION_DENIED"
