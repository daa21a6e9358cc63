"""The protocol's answers, one by one: values, reasons, errors, who may ask about whom, and ETags."""

from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from kedge_bandit.adapters.flags.own import OwnProvider, flag_of
from kedge_bandit.adapters.grpc.credentials import Keyring
from kedge_bandit.adapters.rest.ofrep import MAX_BODY_BYTES, PATH, Ofrep
from kedge_bandit.domain.api_key import StoredKey, format_key, hash_of, split_key
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.principal import Role
from tests.bandit.adapters.flags.conftest import ACME, SUPPORT, StatedSnapshot

FLAG = f"{PATH}/kedge.policy.support.enabled"


def made(number: int, tenant: TenantId | None, role: Role) -> tuple[str, StoredKey]:
    key = format_key(bytes(range(number, number + 36)))
    key_id, secret = split_key(key) or ("", "")
    return key, StoredKey(key_id=key_id, key_hash=hash_of(secret), principal="app", role=role, tenant=tenant)


CORE_APP, _CORE_APP = made(1, ACME, Role.CORE_APP)
OPERATOR, _OPERATOR = made(2, None, Role.OPERATOR)


@pytest.fixture
def snapshot() -> StatedSnapshot:
    return StatedSnapshot(modes={(ACME, SUPPORT): Mode.APPLY, (ACME, PolicyName("billing")): Mode.OBSERVE})


@pytest.fixture
def client(snapshot: StatedSnapshot) -> httpx.AsyncClient:
    ofrep = Ofrep(
        Keyring([_CORE_APP, _OPERATOR]),
        OwnProvider(snapshot),
        lambda tenant: [flag_of(policy) for known, policy in snapshot.modes if known == tenant],
    )
    transport = httpx.ASGITransport(Starlette(routes=list(ofrep.routes())))
    return httpx.AsyncClient(
        transport=transport, base_url="http://kedge", headers={"authorization": f"Bearer {CORE_APP}"}
    )


async def test_a_flag_is_answered_with_value_reason_variant_and_facts(client: httpx.AsyncClient) -> None:
    answer = await client.post(FLAG, json={"context": {"targetingKey": "user-7"}})

    assert answer.status_code == 200
    assert answer.json() == {
        "key": "kedge.policy.support.enabled",
        "value": True,
        "reason": "STATIC",
        "variant": "APPLY",
        "metadata": {"mode": "APPLY", "policy_version": 3},
    }


async def test_a_freeze_and_a_stale_view_are_false(client: httpx.AsyncClient, snapshot: StatedSnapshot) -> None:
    snapshot.modes[ACME, SUPPORT] = Mode.FROZEN
    frozen = (await client.post(FLAG)).json()
    snapshot.stale = True
    stale = (await client.post(FLAG)).json()

    assert (frozen["value"], frozen["variant"], frozen["reason"]) == (False, "FROZEN", "STATIC")
    assert (stale["value"], stale["variant"], stale["reason"]) == (False, "STALE", "STALE")


async def test_all_flags_come_sorted_and_only_when_one_changed(
    client: httpx.AsyncClient, snapshot: StatedSnapshot
) -> None:
    first = await client.post(PATH, json={})
    assert [(flag["key"], flag["value"]) for flag in first.json()["flags"]] == [
        ("kedge.policy.billing.enabled", False),
        ("kedge.policy.support.enabled", True),
    ]
    known = {"if-none-match": f'"other", {first.headers["etag"]}'}
    again = await client.post(PATH, json={}, headers=known)
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])

    snapshot.modes[ACME, SUPPORT] = Mode.BYPASS
    changed = await client.post(PATH, json={}, headers=known)
    assert (changed.status_code, changed.headers["etag"] == first.headers["etag"]) == (200, False)


@pytest.mark.parametrize(
    ("key", "body", "headers", "status", "code"),
    [
        ("kedge.policy.other.enabled", b"{}", {}, 404, "FLAG_NOT_FOUND"),
        ("new-checkout", b"{}", {}, 404, "FLAG_NOT_FOUND"),
        ("kedge.policy.support.enabled", b"{", {}, 400, "PARSE_ERROR"),
        ("kedge.policy.support.enabled", b"[]", {}, 400, "PARSE_ERROR"),
        ("kedge.policy.support.enabled", b'{"context": 1}', {}, 400, "INVALID_CONTEXT"),
        ("kedge.policy.support.enabled", b'{"context": {"tenant": 1}}', {}, 400, "INVALID_CONTEXT"),
        ("kedge.policy.support.enabled", b'{"context": {"tenant": "zenith"}}', {}, 403, "GENERAL"),
        ("kedge.policy.support.enabled", b" " * (MAX_BODY_BYTES + 1), {}, 413, "INVALID_CONTEXT"),
        ("kedge.policy.support.enabled", b"{}", {"authorization": "Bearer kdg_x_y"}, 401, "GENERAL"),
        ("kedge.policy.support.enabled", b"{}", {"authorization": f"Bearer {OPERATOR}"}, 400, "INVALID_CONTEXT"),
    ],
)
async def test_what_cannot_be_answered_says_why_as_the_protocol_does(
    client: httpx.AsyncClient, key: str, body: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    answer = await client.post(f"{PATH}/{key}", content=body, headers=headers)

    found: dict[str, Any] = answer.json()
    assert (answer.status_code, found["key"], found["errorCode"]) == (status, key, code)
    assert found["errorDetails"]


async def test_a_key_may_come_as_x_api_key_and_an_operator_names_the_tenant(client: httpx.AsyncClient) -> None:
    del client.headers["authorization"]
    assert (await client.post(FLAG)).status_code == 401
    assert (await client.post(FLAG, headers={"x-api-key": CORE_APP})).json()["value"] is True
    named = await client.post(FLAG, headers={"x-api-key": OPERATOR}, json={"context": {"tenant": "acme"}})
    assert named.json()["value"] is True
