"""The webhook for alerts freezes what a firing alert names, once; its credential can do nothing else."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kedge.bandit.v1 import governance_service_pb2, policy_pb2, policy_service_pb2, tenant_service_pb2
from kedge_bandit.domain.principal import GRANTS, Permission, Role
from tests.fixtures.ledgers import migrated_url
from tests.fixtures.policies import two_models
from tests.trust.doors import Doors, open_doors

__all__ = ["migrated_url"]

PATH = "/alerts/v1/freeze"


@pytest.fixture
async def doors(migrated_url: str) -> AsyncIterator[Doors]:
    async with open_doors(migrated_url) as opened:
        yield opened


def alert(
    tenant: str, *, policy: str = "support", starts: str = "2026-12-01T10:00:00Z", **labels: str
) -> dict[str, Any]:
    return {
        "status": "firing",
        "labels": {"alertname": "Divergence", "tenant": tenant, "policy": policy, "stops": "policy", **labels},
        "annotations": {"summary": "reward rises and the holdout falls"},
        "startsAt": starts,
        "fingerprint": "0123456789abcdef",
    }


async def sent(doors: Doors, key: str, *alerts: dict[str, Any]) -> tuple[int, Any]:
    async with doors.http() as client:
        message = {"version": "4", "status": "firing", "alerts": list(alerts)}
        answer = await client.post(PATH, json=message, headers={"authorization": f"Bearer {key}"})
        return answer.status_code, answer.json()


async def policy_of(doors: Doors) -> str:
    """Onboard a tenant with the policy `support`; gives the tenant."""
    tenant = await doors.tenant()
    async with doors.stubs(doors.operator) as stubs:
        request = policy_service_pb2.PutPolicyRequest(policy=two_models(tenant), because="a test")
        await stubs.call(stubs.policies.PutPolicy, request)
    return tenant


async def mode(doors: Doors, tenant: str) -> int:
    async with doors.stubs(doors.operator) as stubs:
        request = governance_service_pb2.GetModeRequest(name=f"tenants/{tenant}/policies/support")
        return int((await stubs.call(stubs.governance.GetMode, request)).mode)


def test_an_alarms_role_has_one_permission_and_that_one_opens_one_route() -> None:
    assert GRANTS[Role.ALARM] == {Permission.ALARM}


async def test_a_firing_alert_freezes_the_policy_that_it_names_and_the_audit_log_says_why(doors: Doors) -> None:
    tenant = await policy_of(doors)
    key = await doors.key(tenant, Role.ALARM)
    name = f"tenants/{tenant}/policies/support"
    assert await sent(doors, key, alert(tenant)) == (200, {"policies": {name: "FROZEN"}})
    assert await mode(doors, tenant) == policy_pb2.MODE_FROZEN
    async with doors.stubs(doors.operator) as stubs:
        request = governance_service_pb2.ListAuditEventsRequest(parent=f"tenants/{tenant}")
        events = (await stubs.call(stubs.governance.ListAuditEvents, request)).events
    [event] = [one for one in events if one.verb == "policy.frozen"]
    assert event.because == "alert Divergence: reward rises and the holdout falls"
    assert event.actor.startswith("key:someone")


async def unfrozen(doors: Doors, tenant: str) -> None:
    async with doors.stubs(doors.operator) as stubs:
        request = governance_service_pb2.UnfreezeRequest(
            name=f"tenants/{tenant}/policies/support",
            because="looked at it",
            quarantine=governance_service_pb2.QUARANTINE_CHOICE_KEEP,
        )
        await stubs.call(stubs.governance.Unfreeze, request)


async def test_what_an_alert_says_is_kept_without_what_no_text_holds(doors: Doors) -> None:
    tenant = await policy_of(doors)
    key = await doors.key(tenant, Role.ALARM)
    strange = {**alert(tenant), "annotations": {"summary": "\x00one\ntwo\u202e" + "x" * 2000}}
    assert (await sent(doors, key, strange))[0] == 200
    assert await mode(doors, tenant) == policy_pb2.MODE_FROZEN


async def test_one_alert_freezes_once_and_a_new_one_freezes_again(doors: Doors) -> None:
    tenant = await policy_of(doors)
    key = await doors.key(tenant, Role.ALARM)
    name = f"tenants/{tenant}/policies/support"
    await sent(doors, key, alert(tenant))
    await unfrozen(doors, tenant)
    assert await sent(doors, key, alert(tenant)) == (200, {"policies": {name: "UNCHANGED"}})
    assert await mode(doors, tenant) == policy_pb2.MODE_APPLY
    await sent(doors, key, alert(tenant, starts="2026-12-02T10:00:00Z"))
    assert await mode(doors, tenant) == policy_pb2.MODE_FROZEN


async def test_an_alert_that_found_its_policy_frozen_does_not_undo_what_a_person_decides(doors: Doors) -> None:
    tenant = await policy_of(doors)
    key = await doors.key(tenant, Role.ALARM)
    async with doors.stubs(doors.operator) as stubs:
        name = f"tenants/{tenant}/policies/support"
        await stubs.call(stubs.governance.Freeze, governance_service_pb2.FreezeRequest(name=name, because="by hand"))
    assert await sent(doors, key, alert(tenant)) == (200, {"policies": {name: "UNCHANGED"}})
    await unfrozen(doors, tenant)
    await sent(doors, key, alert(tenant))
    assert await mode(doors, tenant) == policy_pb2.MODE_APPLY


async def test_what_has_resolved_or_stops_nothing_or_is_not_there_freezes_nothing(doors: Doors) -> None:
    tenant = await policy_of(doors)
    key = await doors.key(tenant, Role.ALARM)
    resolved = {**alert(tenant), "status": "resolved"}
    assert await sent(doors, key, resolved, alert(tenant, stops="")) == (200, {"policies": {}})
    missing = f"tenants/{tenant}/policies/missing"
    assert await sent(doors, key, alert(tenant, policy="missing")) == (200, {"policies": {missing: "NOT_FOUND"}})
    assert await mode(doors, tenant) == policy_pb2.MODE_APPLY


@pytest.mark.parametrize("labels", [{"tenant": "No Name"}, {"policy": ""}, {"policy": "a/b"}])
async def test_an_alert_that_names_nothing_keeps_no_other_from_its_freeze(doors: Doors, labels: dict[str, str]) -> None:
    tenant = await policy_of(doors)
    key = await doors.key(tenant, Role.ALARM)
    nameless = alert(tenant)
    nameless["labels"] |= labels
    status, answer = await sent(doors, key, nameless, alert(tenant))
    assert (status, sorted(answer["policies"].values())) == (200, ["FROZEN", "NOT_FOUND"])
    assert await mode(doors, tenant) == policy_pb2.MODE_FROZEN


async def test_an_alert_nested_deeply_is_refused(doors: Doors) -> None:
    tenant = await policy_of(doors)
    nested: dict[str, Any] = {}
    for _ in range(900):
        nested = {"a": nested}
    key = await doors.key(tenant, Role.ALARM)
    for hostile in ({"fingerprint": nested}, {"annotations": {"summary": nested}}):
        status, answer = await sent(doors, key, {**alert(tenant), **hostile})
        assert status == 400
        assert "is no text" in answer["error"]


async def test_an_alarm_of_one_tenant_cannot_stop_another(doors: Doors) -> None:
    mine, other = await policy_of(doors), await policy_of(doors)
    key = await doors.key(mine, Role.ALARM)
    name = f"tenants/{other}/policies/support"
    assert await sent(doors, key, alert(other)) == (200, {"policies": {name: "NOT_FOUND"}})
    assert await mode(doors, other) == policy_pb2.MODE_APPLY


async def test_a_key_that_was_just_made_is_known(doors: Doors) -> None:
    tenant = await policy_of(doors)
    async with doors.stubs(doors.operator) as stubs:
        request = tenant_service_pb2.CreateKeyRequest(
            parent=f"tenants/{tenant}", principal="am", role=tenant_service_pb2.ROLE_ALARM, because="a test"
        )
        key = (await stubs.call(stubs.tenants.CreateKey, request)).key
    assert (await sent(doors, key, alert(tenant)))[0] == 200
    assert await mode(doors, tenant) == policy_pb2.MODE_FROZEN


@pytest.mark.parametrize("role", [Role.CORE_APP, Role.VIEWER, Role.TRAINER])
async def test_who_is_no_alarm_is_refused(doors: Doors, role: Role) -> None:
    tenant = await policy_of(doors)
    status, _ = await sent(doors, await doors.key(tenant, role), alert(tenant))
    assert status == 403
    assert (await sent(doors, "", alert(tenant)))[0] == 401


@pytest.mark.parametrize("body", [b"", b"[]", b'{"alerts": 1}', b'{"alerts": [1]}', b"{"])
async def test_what_is_no_message_of_alertmanager_is_refused_in_a_sentence(doors: Doors, body: bytes) -> None:
    key = await doors.key(await policy_of(doors), Role.ALARM)
    async with doors.http() as client:
        answer = await client.post(PATH, content=body, headers={"authorization": f"Bearer {key}"})
    assert answer.status_code == 400
    assert "Alertmanager" in answer.json()["error"]
