"""Whoever stops something may not let it go on alone, through whatever door they come."""

import pytest

from kedge.bandit.v1 import governance_service_pb2 as pb
from kedge.bandit.v1 import policy_pb2
from tests.fixtures.administered import Administered, refusal, with_policy
from tests.fixtures.proposing import Credential, person


async def frozen(it: Administered, name: str, by: Credential) -> None:
    await it.governance.Freeze(pb.FreezeRequest(name=name, because="look at it"), metadata=by)


async def unfreeze(it: Administered, name: str, by: Credential) -> policy_pb2.Mode.ValueType:
    answer = await it.governance.Unfreeze(pb.UnfreezeRequest(name=name, because="it was nothing"), metadata=by)
    mode: policy_pb2.Mode.ValueType = answer.mode
    return mode


@pytest.mark.parametrize("level", ["policy", "tenant"])
async def test_another_person_lets_it_go_on(administered: Administered, level: str) -> None:
    it = administered
    tenant, policy = await with_policy(it)
    name = policy if level == "policy" else tenant
    alice, bob = await person(it, tenant, "ROLE_ADMIN", "alice"), await person(it, tenant, "ROLE_ADMIN", "bob")
    other_door = await person(it, tenant, "ROLE_ADMIN", "alice")
    await frozen(it, name, alice)
    await it.governance.SetMode(
        pb.SetModeRequest(name=name, mode=policy_pb2.MODE_BYPASS, because="to be sure"), metadata=bob
    )
    for same in (alice, other_door):
        assert (await refusal(unfreeze(it, name, same)))[1] == "SECOND_PERSON_REQUIRED"
    assert await unfreeze(it, name, bob) == policy_pb2.MODE_APPLY


async def test_what_a_program_stopped_any_person_and_any_program_lets_go_on(administered: Administered) -> None:
    it = administered
    tenant, policy = await with_policy(it)
    alice = await person(it, tenant, "ROLE_ADMIN", "alice")
    await frozen(it, policy, it.operator)
    assert await unfreeze(it, policy, it.operator) == policy_pb2.MODE_APPLY
    await frozen(it, policy, it.operator)
    assert await unfreeze(it, policy, alice) == policy_pb2.MODE_APPLY
    await frozen(it, policy, alice)
    assert await unfreeze(it, policy, it.operator) == policy_pb2.MODE_APPLY
