"""GovernanceService, and who may call what, over a real channel and a real database."""

import asyncio

import grpc
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from kedge.bandit.v1 import governance_service_pb2 as pb
from kedge.bandit.v1 import (
    policy_pb2,
    policy_service_pb2,
)
from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.application.hold import SELF_CHECK
from kedge_bandit.application.learned import Changes
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.mode import Mode
from tests.fixtures.administered import Administered, refusal, with_policy

SUPPORT = PolicyName("support")
APPLY, OBSERVE, FROZEN, BYPASS = (policy_pb2.Mode.Value(f"MODE_{mode}") for mode in Mode)


async def mode(it: Administered, name: str) -> pb.GetModeResponse:
    answer: pb.GetModeResponse = await it.governance.GetMode(pb.GetModeRequest(name=name), metadata=it.operator)
    return answer


async def seed_epoch(it: Administered, policy: str) -> int:
    read = await it.policies.GetPolicy(policy_service_pb2.GetPolicyRequest(name=policy), metadata=it.operator)
    epoch: int = read.policy.seed_epoch
    return epoch


async def releases(engine: AsyncEngine, tenant: str) -> list[tuple[str, str]]:
    schema = "t_" + tenant.removeprefix("tenants/")
    async with engine.connect() as connection:
        rows = await connection.execute(text(f"SELECT policy, choice FROM {schema}.quarantine_release ORDER BY 1"))
        return [tuple(row) for row in rows]


async def freeze(it: Administered, name: str) -> pb.FreezeResponse:
    answer: pb.FreezeResponse = await it.governance.Freeze(
        pb.FreezeRequest(name=name, because="it lies"), metadata=it.operator
    )
    return answer


async def unfreeze(it: Administered, name: str, choice: str = "REPLAY") -> pb.UnfreezeResponse:
    request = pb.UnfreezeRequest(
        name=name, because="it is repaired", quarantine=pb.QuarantineChoice.Value(f"QUARANTINE_CHOICE_{choice}")
    )
    answer: pb.UnfreezeResponse = await it.governance.Unfreeze(request, metadata=it.operator)
    return answer


async def test_a_frozen_policy_resumes_in_its_mode_under_a_new_epoch(administered: Administered) -> None:
    it = administered
    tenant, policy = await with_policy(it)
    await it.governance.SetMode(
        pb.SetModeRequest(name=policy, mode=OBSERVE, because="look first"), metadata=it.operator
    )
    assert (await freeze(it, policy)).effective_mode == FROZEN
    assert (await mode(it, policy)).decided_by == "policy"
    assert (
        await refusal(it.governance.Freeze(pb.FreezeRequest(name=policy, because="again"), metadata=it.operator))
    ) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "ILLEGAL_TRANSITION",
    )
    resumed = await unfreeze(it, policy, "DROP")
    assert (resumed.mode, resumed.effective_mode) == (OBSERVE, OBSERVE)
    assert await seed_epoch(it, policy) == 2
    assert await releases(it.engine, tenant) == [("support", "DROP")]


async def test_a_frozen_tenant_stops_its_policies_and_resumes_them(administered: Administered) -> None:
    it = administered
    tenant, policy = await with_policy(it)
    await freeze(it, tenant)
    read = await mode(it, policy)
    assert (read.mode, read.effective_mode, read.decided_by) == (APPLY, FROZEN, "tenant")
    await unfreeze(it, tenant)
    assert (await mode(it, policy)).effective_mode == APPLY
    assert await seed_epoch(it, policy) == 2
    assert await releases(it.engine, tenant) == [("support", "REPLAY")]


async def test_what_another_level_still_stops_is_not_released(administered: Administered) -> None:
    it = administered
    tenant, policy = await with_policy(it)
    await freeze(it, tenant)
    await freeze(it, policy)
    assert (await unfreeze(it, policy)).effective_mode == FROZEN
    assert await releases(it.engine, tenant) == []
    await unfreeze(it, tenant, "KEEP")
    assert await releases(it.engine, tenant) == [("support", "KEEP")]


async def test_everything_is_stopped_at_once_and_only_by_an_operator(administered: Administered) -> None:
    it = administered
    tenant, policy = await with_policy(it)
    admin = await it.key(tenant, "ROLE_ADMIN")
    request = pb.FreezeRequest(name="global", because="a bad release")
    assert (await refusal(it.governance.Freeze(request, metadata=admin)))[1] == "PERMISSION_DENIED"
    try:
        await freeze(it, "global")
        read = await mode(it, policy)
        assert (read.effective_mode, read.decided_by) == (FROZEN, "global")
    finally:
        await unfreeze(it, "global", "DROP")
    assert (await mode(it, "global")).mode == APPLY
    assert await seed_epoch(it, policy) == 2
    assert await releases(it.engine, tenant) == [("support", "DROP")]


async def test_an_override_restricts_and_never_loosens(administered: Administered) -> None:
    it = administered
    _, policy = await with_policy(it)
    it.override["file"] = Mode.BYPASS
    read = await mode(it, policy)
    assert (read.mode, read.effective_mode, read.decided_by) == (APPLY, BYPASS, "file")
    wanted = policy_service_pb2.GetPolicyStatusRequest(name=policy)
    status = await it.policies.GetPolicyStatus(wanted, metadata=it.operator)
    assert (status.effective_mode, status.warnings[0]) == (BYPASS, "file says BYPASS, from outside the database")


async def test_a_person_lets_learning_go_on_after_an_alarm_of_the_self_check(administered: Administered) -> None:
    it = administered
    tenant, policy = await with_policy(it)
    async with PostgresLedgers(it.engine).open(TenantId(tenant.removeprefix("tenants/"))) as ledger:
        point = await ledger.learning.lock(wait=True)
        assert point is not None
        record = (await ledger.learning.learned([SUPPORT]))[SUPPORT].policy
        record.learning_held = SELF_CHECK
        changes = Changes(high=point.low, evidence_sequence=point.evidence_sequence, policies=[(SUPPORT, record)])
        await ledger.learning.save(changes)
    status = policy_service_pb2.GetPolicyStatusRequest(name=policy)
    assert (await it.policies.GetPolicyStatus(status, metadata=it.operator)).learning_held == "SELF_CHECK"
    assert (await unfreeze(it, policy)).mode == APPLY
    assert (await it.policies.GetPolicyStatus(status, metadata=it.operator)).learning_held == ""
    assert await seed_epoch(it, policy) == 2
    again = pb.UnfreezeRequest(name=policy, because="nothing is held any more")
    assert (await refusal(it.governance.Unfreeze(again, metadata=it.operator)))[1] == "ILLEGAL_TRANSITION"


async def test_resuming_through_set_mode_is_refused(administered: Administered) -> None:
    it = administered
    _, policy = await with_policy(it)
    await freeze(it, policy)
    request = pb.SetModeRequest(name=policy, mode=APPLY, because="a short cut")
    code, reason = await refusal(it.governance.SetMode(request, metadata=it.operator))
    assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "ILLEGAL_TRANSITION")
    request.mode = 17  # type: ignore[assignment]
    assert (await refusal(it.governance.SetMode(request, metadata=it.operator)))[1] == "INVALID_VALUE"


async def test_the_switch_wins_against_changes_made_at_the_same_time(administered: Administered) -> None:
    it = administered
    _, policy = await with_policy(it)

    async def stage(floor: float) -> None:
        request = policy_service_pb2.StagePolicyRequest(name=policy, exploitation_floor=floor, because="go on")
        await it.policies.StagePolicy(request, metadata=it.operator)

    await asyncio.gather(stage(0.9), freeze(it, policy), stage(0.95))
    read = await it.policies.GetPolicy(policy_service_pb2.GetPolicyRequest(name=policy), metadata=it.operator)
    assert (read.policy.mode, read.policy.policy_version) == (FROZEN, 4)


async def test_a_switch_pulled_twice_by_one_request_is_pulled_once(administered: Administered) -> None:
    it = administered
    _, policy = await with_policy(it)
    request = pb.FreezeRequest(name=policy, because="it lies", request_id="r1")
    for _ in range(2):
        assert (await it.governance.Freeze(request, metadata=it.operator)).mode == FROZEN


async def test_the_audit_log_says_who_did_what_and_why(administered: Administered) -> None:
    it = administered
    tenant, policy = await with_policy(it)
    await freeze(it, policy)
    request = pb.ListAuditEventsRequest(parent=tenant, page_size=2)
    page = await it.governance.ListAuditEvents(request, metadata=it.operator)
    assert [(event.verb, event.actor, event.because) for event in page.events] == [
        ("policy.frozen", "key:operator", "it lies"),
        ("policy.created", "key:operator", "to govern it"),
    ]
    request.page_token = page.next_page_token
    rest = await it.governance.ListAuditEvents(request, metadata=it.operator)
    assert [event.verb for event in rest.events] == ["tenant.onboarded"]
    assert rest.next_page_token == ""
    verified = await it.governance.VerifyAudit(pb.VerifyAuditRequest(parent=tenant), metadata=it.operator)
    assert (verified.intact, verified.events, verified.first_broken_sequence) == (True, 3, 0)


@pytest.mark.parametrize(
    ("damage", "broken"),
    [
        ("UPDATE {}.audit_event SET actor = 'mallory' WHERE audit_sequence = 2", 2),
        ("UPDATE {}.audit_payload SET payload = '{{}}'", 1),
        ("DELETE FROM {}.audit_event WHERE audit_sequence = 2", 2),
        ("DELETE FROM {}.audit_event WHERE audit_sequence = 3", 3),
        ("UPDATE {}.audit_head SET row_hash = repeat('0', 64)", 3),
    ],
)
async def test_damage_to_the_audit_log_is_found(administered: Administered, damage: str, broken: int) -> None:
    it = administered
    tenant, policy = await with_policy(it)
    await freeze(it, policy)
    async with it.engine.begin() as owner:
        await owner.execute(text(damage.format("t_" + tenant.removeprefix("tenants/"))))
    verified = await it.governance.VerifyAudit(pb.VerifyAuditRequest(parent=tenant), metadata=it.operator)
    assert (verified.intact, verified.first_broken_sequence) == (False, broken)


async def test_watching_the_audit_log_brings_what_was_and_what_comes(administered: Administered) -> None:
    it = administered
    tenant, policy = await with_policy(it)
    stream = it.governance.WatchAudit(pb.WatchAuditRequest(parent=tenant, after_sequence=1), metadata=it.operator)
    assert (await stream.read()).event.verb == "policy.created"
    await freeze(it, policy)
    assert (await stream.read()).event.verb == "policy.frozen"
    stream.cancel()
