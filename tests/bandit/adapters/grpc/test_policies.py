"""PolicyService over a real channel and a real database."""

import grpc
import pytest

from kedge.bandit.v1 import policy_pb2
from kedge.bandit.v1 import policy_service_pb2 as pb
from tests.fixtures.administered import Administered, refusal
from tests.fixtures.policies import two_models
from tests.fixtures.proposing import add_arm


async def put(it: Administered, policy: policy_pb2.Policy, **fields: object) -> pb.PutPolicyResponse:
    request = pb.PutPolicyRequest(policy=policy, because="to test it", **fields)  # type: ignore[arg-type]
    answer: pb.PutPolicyResponse = await it.policies.PutPolicy(request, metadata=it.operator)
    return answer


async def test_a_policy_is_put_read_and_listed(administered: Administered) -> None:
    it = administered
    tenant = await it.tenant()
    wanted = two_models(tenant.removeprefix("tenants/"))
    made = (await put(it, wanted)).policy
    assert (made.policy_version, made.mode, made.seed_epoch) == (1, policy_pb2.MODE_APPLY, 1)
    assert len(made.action_keys) == 2
    assert made.action_keys[made.baseline_index].startswith("small@")
    read = await it.policies.GetPolicy(pb.GetPolicyRequest(name=wanted.name), metadata=it.operator)
    assert (read.policy, read.effective_mode) == (made, policy_pb2.MODE_APPLY)
    listed = await it.policies.ListPolicies(pb.ListPoliciesRequest(parent=tenant), metadata=it.operator)
    assert list(listed.policies) == [made]


async def test_putting_the_same_again_is_no_change_and_an_old_version_is_refused(administered: Administered) -> None:
    it = administered
    tenant = await it.tenant()
    policy = two_models(tenant.removeprefix("tenants/"))
    first = (await put(it, policy)).policy
    assert (await put(it, first, expected_version=1)).policy.policy_version == 1
    changed = two_models(tenant.removeprefix("tenants/"), judge_rate=0.5)
    assert (await put(it, changed, expected_version=1)).policy.policy_version == 2
    request = pb.PutPolicyRequest(policy=policy, because="late", expected_version=1)
    answer = await refusal(it.policies.PutPolicy(request, metadata=it.operator))
    assert answer == (grpc.StatusCode.ABORTED, "VERSION_MISMATCH")
    again = pb.PutPolicyRequest(policy=policy, because="as if it were new")
    assert (await refusal(it.policies.PutPolicy(again, metadata=it.operator)))[1] == "VERSION_MISMATCH"


async def test_a_request_sent_twice_counts_once(administered: Administered) -> None:
    it = administered
    tenant = await it.tenant()
    policy = two_models(tenant.removeprefix("tenants/"))
    request = pb.PutPolicyRequest(policy=policy, because="to test it", request_id="r1")
    first = await it.policies.PutPolicy(request, metadata=it.operator)
    assert (await it.policies.PutPolicy(request, metadata=it.operator)).policy == first.policy
    stage = pb.StagePolicyRequest(name=policy.name, exploitation_floor=0.9, because="go on", request_id="r2")
    staged = await it.policies.StagePolicy(stage, metadata=it.operator)
    assert (await it.policies.StagePolicy(stage, metadata=it.operator)).policy == staged.policy
    assert staged.policy.policy_version == 2
    stage.exploitation_floor = 0.6
    code, reason = await refusal(it.policies.StagePolicy(stage, metadata=it.operator))
    assert (code, reason) == (grpc.StatusCode.ALREADY_EXISTS, "IDEMPOTENCY_CONFLICT")


async def test_the_card_of_an_arm_is_changed_at_once_and_new_content_becomes_a_proposal(
    administered: Administered,
) -> None:
    it = administered
    tenant = await it.tenant()
    policy = two_models(tenant.removeprefix("tenants/"))
    await put(it, policy)
    route = policy_pb2.DIMENSION_MODEL_ROUTE
    arm = policy_pb2.Arm(dimension=route, name="large", content="large-model")
    arm.cost_card.usd_per_episode = 0.5
    upsert = pb.UpsertArmRequest(policy=policy.name, arm=arm, expected_version=1, because="it got dearer")
    answer = await it.policies.UpsertArm(upsert, metadata=it.operator)
    assert (answer.policy.policy_version, answer.proposal) == (2, "")
    arm.content = "large-model-2"
    upsert = pb.UpsertArmRequest(policy=policy.name, arm=arm, expected_version=2, because="newer", request_id="r7")
    answer = await it.policies.UpsertArm(upsert, metadata=it.operator)
    assert answer.policy.policy_version == 2
    assert answer.proposal.startswith(f"{tenant}/proposals/p-")
    assert [arm.content for arm in answer.policy.arms] == ["small-model", "large-model"]
    assert await it.policies.UpsertArm(upsert, metadata=it.operator) == answer


async def test_arms_come_and_go_as_tombstones(administered: Administered) -> None:
    it = administered
    tenant = await it.tenant()
    policy = two_models(tenant.removeprefix("tenants/"))
    await put(it, policy)
    route = policy_pb2.DIMENSION_MODEL_ROUTE
    arm = policy_pb2.Arm(dimension=route, name="large", content="large-model-2")
    after = await add_arm(it, policy.name, arm)
    assert [(arm.content, arm.HasField("retire_time")) for arm in after.arms] == [
        ("small-model", False),
        ("large-model", True),
        ("large-model-2", False),
    ]
    retire = pb.RetireArmRequest(
        policy=policy.name, dimension=route, arm=policy_pb2.ArmRef(name="large"), expected_version=2, because="worse"
    )
    after = (await it.policies.RetireArm(retire, metadata=it.operator)).policy
    assert list(after.action_keys) == [after.action_keys[after.baseline_index]]
    again = (await put(it, after, expected_version=3)).policy
    assert (again.policy_version, len(again.arms)) == (3, 3)
    retire.arm.name, retire.expected_version = "small", 3
    assert (await refusal(it.policies.RetireArm(retire, metadata=it.operator)))[1] == "ILLEGAL_TRANSITION"
    retire.arm.content_hash = "abc"
    assert (await refusal(it.policies.RetireArm(retire, metadata=it.operator)))[1] == "INVALID_NAME"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"exploration": {"exploitation_floor": 0.01}}, "INVALID_EXPLORATION"),
        ({"reward": {"cost_reference_usd": -1, "latency_reference_ms": 1}}, "INVALID_REWARD_SPEC"),
        ({"learner": "oracle"}, "INVALID_POLICY"),
        ({"arms": [policy_pb2.Arm(name="spend", content="money")]}, "UNKNOWN_DIMENSION"),
    ],
)
async def test_a_configuration_that_cannot_serve_is_refused(
    administered: Administered, change: dict[str, object], reason: str
) -> None:
    it = administered
    tenant = await it.tenant()
    policy = two_models(tenant.removeprefix("tenants/"))
    for field in change:
        policy.ClearField(field)  # type: ignore[arg-type]
    policy.MergeFrom(policy_pb2.Policy(**change))  # type: ignore[arg-type]
    request = pb.PutPolicyRequest(policy=policy, because="to test it")
    code, found = await refusal(it.policies.PutPolicy(request, metadata=it.operator))
    assert (code, found) == (grpc.StatusCode.INVALID_ARGUMENT, reason)
    none = await refusal(it.policies.GetPolicy(pb.GetPolicyRequest(name=policy.name), metadata=it.operator))
    assert none == (grpc.StatusCode.NOT_FOUND, "POLICY_NOT_FOUND")


@pytest.mark.parametrize("because", ["", " ", "x" * 1001, "a\0b"])
async def test_a_change_needs_a_reason(administered: Administered, because: str) -> None:
    it = administered
    tenant = await it.tenant()
    request = pb.PutPolicyRequest(policy=two_models(tenant.removeprefix("tenants/")), because=because)
    code, reason = await refusal(it.policies.PutPolicy(request, metadata=it.operator))
    assert (code, reason) == (grpc.StatusCode.INVALID_ARGUMENT, "REASON_REQUIRED")


async def test_a_fresh_policy_reports_an_empty_status(administered: Administered) -> None:
    it = administered
    tenant = await it.tenant()
    policy = two_models(tenant.removeprefix("tenants/"))
    await put(it, policy)
    status = await it.policies.GetPolicyStatus(pb.GetPolicyStatusRequest(name=policy.name), metadata=it.operator)
    assert (status.allocation_version, status.backlog, status.learning_held) == (0, 0, "")
    assert not status.self_check.alarm
    assert any("budget is off" in warning for warning in status.warnings)


async def test_policies_are_listed_page_by_page(administered: Administered) -> None:
    it = administered
    tenant = await it.tenant()
    names = ["alpha", "beta", "gamma"]
    for name in names:
        await put(it, two_models(tenant.removeprefix("tenants/"), name=name))
    token, seen = "", []
    while True:
        request = pb.ListPoliciesRequest(parent=tenant, page_size=2, page_token=token)
        page = await it.policies.ListPolicies(request, metadata=it.operator)
        seen += [policy.name.rpartition("/")[2] for policy in page.policies]
        token = page.next_page_token
        if not token:
            break
    assert seen == names


async def test_rebuilding_an_empty_log_agrees(administered: Administered) -> None:
    it = administered
    tenant = await it.tenant()
    policy = two_models(tenant.removeprefix("tenants/"))
    await put(it, policy)
    request = pb.RebuildPolicyRequest(name=policy.name, verify_only=True)
    answer = await it.policies.RebuildPolicy(request, metadata=it.operator)
    assert (answer.evidence_rows, answer.agrees) == (0, True)
