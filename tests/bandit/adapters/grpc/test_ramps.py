"""RampService, incidents and the floor's rule over a real channel and a real database."""

import grpc
import pytest

from kedge.bandit.v1 import governance_service_pb2, policy_pb2, policy_service_pb2, tenant_service_pb2
from kedge.bandit.v1 import ramp_service_pb2 as pb
from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.domain.audit import KEDGE
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.incident import Incident
from tests.fixtures.administered import Administered, refusal
from tests.fixtures.ledgers import START
from tests.fixtures.policies import two_models

Metadata = tuple[tuple[str, str], ...]


async def person(it: Administered, tenant: str, role: str = "ROLE_APPROVER", name: str = "ada") -> Metadata:
    """Make a key of a person that is accepted at once."""
    request = tenant_service_pb2.CreateKeyRequest(
        parent=tenant, principal=name, role=tenant_service_pb2.Role.Value(role), because="a test needs it"
    )
    request.person.issuer, request.person.subject = "https://login.example", name
    made = await it.tenants.CreateKey(request, metadata=it.operator)
    await it.reload_keys()
    return (("authorization", f"Bearer {made.key}"),)


async def with_policy(it: Administered) -> tuple[str, str]:
    """Onboard a tenant with one policy at a floor of .8; gives both resource names."""
    tenant = await it.tenant()
    policy = two_models(tenant.removeprefix("tenants/"))
    policy.exploration.exploitation_floor = 0.8
    return tenant, (await put(it, policy, 0)).name


async def read(it: Administered, policy: str) -> pb.GetRampResponse:
    found: pb.GetRampResponse = await it.ramps.GetRamp(pb.GetRampRequest(name=policy), metadata=it.operator)
    return found


async def stage(it: Administered, policy: str, floor: float) -> policy_pb2.Policy:
    request = policy_service_pb2.StagePolicyRequest(name=policy, exploitation_floor=floor, because="a test")
    staged: policy_pb2.Policy = (await it.policies.StagePolicy(request, metadata=it.operator)).policy
    return staged


async def put(it: Administered, policy: policy_pb2.Policy, version: int) -> policy_pb2.Policy:
    request = policy_service_pb2.PutPolicyRequest(policy=policy, because="a test", expected_version=version)
    done: policy_pb2.Policy = (await it.policies.PutPolicy(request, metadata=it.operator)).policy
    return done


async def open_incident(ledgers: PostgresLedgers, tenant: str) -> str:
    own = TenantId(tenant.removeprefix("tenants/"))
    incident = Incident(
        policy=PolicyName("support"), detector="divergence", statistic=1e3, evidence="a test", open_time=START
    )
    change = Change(tenant=own, actor=KEDGE, because="it tripped", at=START)
    async with ledgers.open(own) as ledger:
        return f"{tenant}/incidents/{(await ledger.incidents.open(incident, change)).number}"


async def test_a_new_policy_is_at_its_first_stage_and_every_stage_says_what_it_costs(
    administered: Administered,
) -> None:
    _, policy = await with_policy(administered)

    [ramp] = (await read(administered, policy)).ramps

    assert (ramp.kind, ramp.state, ramp.stage) == (pb.RAMP_KIND_FLOOR, pb.RAMP_STATE_RUNNING, 0)
    assert [(stage.value, stage.origin) for stage in ramp.stages] == [
        (0.8, pb.RAMP_STAGE_ORIGIN_START),
        (0.5, pb.RAMP_STAGE_ORIGIN_AUTOMATIC),
    ]
    assert [stage.harvestable_share for stage in ramp.stages] == [pytest.approx(0.2), pytest.approx(0.5)]
    assert not ramp.stages[0].HasField("alarm_days")
    assert "2,000 settled episodes; there are 0" in ramp.waits_for
    assert [metric.breached for metric in ramp.metrics] == [False] * 5


async def test_by_hand_a_floor_goes_up_and_back_and_never_below_what_its_stages_allow(
    administered: Administered,
) -> None:
    it = administered
    _, policy = await with_policy(it)

    for floor in (0.79, 0.5, 0.05):
        code, reason = await refusal(stage(it, policy, floor))
        assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "PROPOSAL_REQUIRED")
    await stage(it, policy, 0.95)
    [ramp] = (await read(it, policy)).ramps
    assert (ramp.state, ramp.why) == (pb.RAMP_STATE_PAUSED, "the floor was set to 0.95 by hand")
    await stage(it, policy, 0.8)
    assert (await refusal(stage(it, policy, 0.7)))[1] == "PROPOSAL_REQUIRED"


async def test_a_put_policy_obeys_the_same_rule_and_keeps_the_floor_it_does_not_state(
    administered: Administered,
) -> None:
    it = administered
    tenant = await it.tenant()
    policy = two_models(tenant.removeprefix("tenants/"))
    policy.exploration.exploitation_floor = 0.2
    first = await put(it, policy, 0)
    raised = await stage(it, policy.name, 0.6)

    policy.exploration.ClearField("exploitation_floor")
    policy.half_life.FromSeconds(3600)
    kept = await put(it, policy, raised.policy_version)
    policy.exploration.exploitation_floor = 0.1
    code, reason = await refusal(put(it, policy, kept.policy_version))

    assert (first.exploration.exploitation_floor, kept.exploration.exploitation_floor) == (0.2, 0.6)
    assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "PROPOSAL_REQUIRED")
    policy.exploration.exploitation_floor = 0.2
    assert (await put(it, policy, kept.policy_version)).exploration.exploitation_floor == 0.2


async def test_a_ramp_is_paused_and_aborted_by_who_may_freeze_and_advanced_by_a_person_who_may_approve(
    administered: Administered,
) -> None:
    it = administered
    tenant, policy = await with_policy(it)
    ada, program = await person(it, tenant), await it.key(tenant, "ROLE_ADMIN")
    pause = pb.PauseRampRequest(name=policy, because="a holiday", request_id="one")

    for _ in range(2):
        paused = (await it.ramps.PauseRamp(pause, metadata=ada)).ramp
        assert (paused.state, paused.why) == (pb.RAMP_STATE_PAUSED, "a holiday")
    advance = pb.AdvanceRampRequest(name=policy, because="back again")
    assert (await refusal(it.ramps.AdvanceRamp(advance, metadata=program)))[1] == "PERMISSION_DENIED"
    resumed = (await it.ramps.AdvanceRamp(advance, metadata=ada)).ramp
    assert (resumed.state, resumed.stage) == (pb.RAMP_STATE_RUNNING, 0)
    code, reason = await refusal(it.ramps.AdvanceRamp(advance, metadata=ada))
    assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "ILLEGAL_TRANSITION")
    aborted = (await it.ramps.AbortRamp(pb.AbortRampRequest(name=policy, because="stop"), metadata=program)).ramp
    assert aborted.state == pb.RAMP_STATE_ABORTED
    without = pb.PauseRampRequest(name=policy, arm_id="none@0123456789ab", because="x")
    assert (await refusal(it.ramps.PauseRamp(without, metadata=ada)))[1] == "ARM_NOT_FOUND"
    viewer = await it.key(tenant, "ROLE_VIEWER")
    assert (await refusal(it.ramps.PauseRamp(pause, metadata=viewer)))[1] == "PERMISSION_DENIED"


async def test_an_incident_is_listed_taken_on_and_closed_with_its_cause(
    administered: Administered, ledgers: PostgresLedgers
) -> None:
    it = administered
    tenant, policy = await with_policy(it)
    names = [await open_incident(ledgers, tenant) for _ in range(3)]
    admin = await person(it, tenant, "ROLE_ADMIN")
    assert f"incident {names[0]} is open" in (await read(it, policy)).ramps[0].holds

    listing = governance_service_pb2.ListIncidentsRequest(parent=tenant, page_size=2)
    page = await it.governance.ListIncidents(listing, metadata=admin)
    assert [incident.name for incident in page.incidents] == [names[2], names[1]]
    listing.page_token = page.next_page_token
    last = await it.governance.ListIncidents(listing, metadata=admin)
    assert ([incident.name for incident in last.incidents], last.next_page_token) == ([names[0]], "")

    take = governance_service_pb2.AcknowledgeIncidentRequest(name=names[0], because="mine")
    taken = (await it.governance.AcknowledgeIncident(take, metadata=admin)).incident
    assert taken.owner.startswith("person:https://login.example#ada")
    close = governance_service_pb2.CloseIncidentRequest(cause="a broken judge")
    for name in names:
        close.name = name
        closed = (await it.governance.CloseIncident(close, metadata=admin)).incident
        assert (closed.cause, closed.HasField("close_time")) == ("a broken judge", True)
    assert (await refusal(it.governance.CloseIncident(close, metadata=admin)))[1] == "ILLEGAL_TRANSITION"
    assert not any("incident" in hold for hold in (await read(it, policy)).ramps[0].holds)
    close.name = f"{tenant}/incidents/999"
    assert (await refusal(it.governance.CloseIncident(close, metadata=admin)))[1] == "INCIDENT_NOT_FOUND"
    close.name, close.cause = await open_incident(ledgers, tenant), ""
    assert (await refusal(it.governance.CloseIncident(close, metadata=admin)))[1] == "REASON_REQUIRED"
