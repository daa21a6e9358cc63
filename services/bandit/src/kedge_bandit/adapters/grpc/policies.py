"""Serve PolicyService."""

from dataclasses import dataclass

from kedge.bandit.v1 import policy_service_pb2 as pb
from kedge.bandit.v1 import policy_service_pb2_grpc
from kedge_bandit.adapters.grpc.credentials import Keyring
from kedge_bandit.adapters.grpc.permissions import permissions_of
from kedge_bandit.adapters.grpc.status import Context, answering
from kedge_bandit.adapters.grpc.unimplemented import completing
from kedge_bandit.adapters.grpc.wire import MODE, moment
from kedge_bandit.adapters.grpc.wire_browse import belief_message, history_message
from kedge_bandit.adapters.grpc.wire_evaluation import evaluated_message, target_of
from kedge_bandit.adapters.grpc.wire_governance import order_of, page_size_of, status_message
from kedge_bandit.adapters.grpc.wire_policy import arm_of, dimension_of, policy_message, spec_of
from kedge_bandit.application.administration_ports import GovernedLedgers
from kedge_bandit.application.browse import ReadHistory
from kedge_bandit.application.configure import PutPolicy, RetireArm, UpsertArm
from kedge_bandit.application.evaluate import EvaluatePolicy
from kedge_bandit.application.govern import StagePolicy
from kedge_bandit.application.read_belief import ReadBelief
from kedge_bandit.application.read_modes import Levels, Scope
from kedge_bandit.application.rebuild import Rebuild
from kedge_bandit.application.report_status import ReportStatus
from kedge_bandit.domain.errors import InvalidName
from kedge_bandit.domain.identifiers import parse_policy, parse_tenant
from kedge_bandit.domain.lifecycle import ArmPointer
from kedge_bandit.domain.proposal import proposal_name

_ALLOWED = permissions_of("PolicyService")
_LEAST_HASH_PREFIX = 12


@completing(pb.DESCRIPTOR.services_by_name["PolicyService"])
@dataclass(frozen=True, slots=True)
class PolicyServicer(policy_service_pb2_grpc.PolicyServiceServicer):
    """Configure policies and arms, and say how they do."""

    keyring: Keyring
    ledgers: GovernedLedgers
    levels: Levels
    put: PutPolicy
    stage: StagePolicy
    upsert: UpsertArm
    retire: RetireArm
    report: ReportStatus
    rebuild: Rebuild
    evaluate: EvaluatePolicy
    belief: ReadBelief
    history: ReadHistory

    @answering
    async def PutPolicy(self, request: pb.PutPolicyRequest, context: Context) -> pb.PutPolicyResponse:
        """Create or replace a policy's configuration."""
        tenant, name = parse_policy(request.policy.name)
        actor = self.keyring.require(context, _ALLOWED["PutPolicy"], tenant).actor
        order = order_of(actor, "PutPolicy", request, because=request.because, request_id=request.request_id)
        spec = spec_of(request.policy)
        put = await self.put(
            tenant,
            name,
            spec,
            order,
            expected_version=request.expected_version,
            keeps_floor=not request.policy.exploration.HasField("exploitation_floor"),
        )
        return pb.PutPolicyResponse(policy=policy_message(tenant, put.policy), warnings=put.warnings)

    @answering
    async def GetPolicy(self, request: pb.GetPolicyRequest, context: Context) -> pb.GetPolicyResponse:
        """Read a policy and its effective mode."""
        tenant, name = parse_policy(request.name)
        self.keyring.require(context, _ALLOWED["GetPolicy"], tenant)
        async with self.ledgers.open(tenant) as ledger:
            policy = await ledger.policies.get(name)
        modes = await self.levels(Scope(tenant, name))
        return pb.GetPolicyResponse(policy=policy_message(tenant, policy), effective_mode=MODE[modes.effective])

    @answering
    async def ListPolicies(self, request: pb.ListPoliciesRequest, context: Context) -> pb.ListPoliciesResponse:
        """List a tenant's policies by name; the page token is the last name."""
        tenant = parse_tenant(request.parent)
        self.keyring.require(context, _ALLOWED["ListPolicies"], tenant)
        size = page_size_of(request.page_size)
        async with self.ledgers.open(tenant) as ledger:
            found = [policy for policy in await ledger.policies.list() if policy.name > request.page_token]
        return pb.ListPoliciesResponse(
            policies=[policy_message(tenant, policy) for policy in found[:size]],
            next_page_token=found[size - 1].name if len(found) > size else "",
        )

    @answering
    async def StagePolicy(self, request: pb.StagePolicyRequest, context: Context) -> pb.StagePolicyResponse:
        """Move floor and slice to another stage."""
        tenant, name = parse_policy(request.name)
        actor = self.keyring.require(context, _ALLOWED["StagePolicy"], tenant).actor
        order = order_of(actor, "StagePolicy", request, because=request.because, request_id=request.request_id)
        uniform_slice = request.uniform_slice if request.HasField("uniform_slice") else None
        policy = await self.stage(tenant, name, order, floor=request.exploitation_floor, uniform_slice=uniform_slice)
        return pb.StagePolicyResponse(policy=policy_message(tenant, policy))

    @answering
    async def UpsertArm(self, request: pb.UpsertArmRequest, context: Context) -> pb.UpsertArmResponse:
        """Change an arm's card; new content becomes a proposal."""
        tenant, name = parse_policy(request.policy)
        caller = self.keyring.require(context, _ALLOWED["UpsertArm"], tenant)
        order = order_of(caller.actor, "UpsertArm", request, because=request.because, request_id=request.request_id)
        arm, version = arm_of(request.arm), request.expected_version
        done = await self.upsert(tenant, name, arm, order, expected_version=version, person=caller.answering.person)
        proposal = "" if done.proposal is None else proposal_name(tenant, done.proposal.proposal_id)
        return pb.UpsertArmResponse(policy=policy_message(tenant, done.policy), proposal=proposal)

    @answering
    async def RetireArm(self, request: pb.RetireArmRequest, context: Context) -> pb.RetireArmResponse:
        """Make an arm a tombstone."""
        tenant, name = parse_policy(request.policy)
        actor = self.keyring.require(context, _ALLOWED["RetireArm"], tenant).actor
        order = order_of(actor, "RetireArm", request, because=request.because, request_id=request.request_id)
        prefix = request.arm.content_hash
        if prefix and len(prefix) < _LEAST_HASH_PREFIX:
            raise InvalidName("content_hash", prefix, "at least 12 hex digits, or leave it out for the live arm")
        pointer = ArmPointer(dimension_of(request.dimension), request.arm.name, prefix)
        policy = await self.retire(tenant, name, pointer, order, expected_version=request.expected_version)
        return pb.RetireArmResponse(policy=policy_message(tenant, policy))

    @answering
    async def GetPolicyStatus(self, request: pb.GetPolicyStatusRequest, context: Context) -> pb.GetPolicyStatusResponse:
        """Say what was learned and what to look at."""
        tenant, name = parse_policy(request.name)
        self.keyring.require(context, _ALLOWED["GetPolicyStatus"], tenant)
        status = await self.report(tenant, name, with_cells=not request.without_cells)
        return status_message(tenant, status)

    @answering
    async def GetBelief(self, request: pb.GetBeliefRequest, context: Context) -> pb.GetBeliefResponse:
        """Read what is believed in one bucket."""
        tenant, name = parse_policy(request.name)
        self.keyring.require(context, _ALLOWED["GetBelief"], tenant)
        return belief_message(await self.belief(tenant, name, request.bucket))

    @answering
    async def GetHistory(self, request: pb.GetHistoryRequest, context: Context) -> pb.GetHistoryResponse:
        """Count decisions and what became of them over time."""
        tenant, name = parse_policy(request.name)
        self.keyring.require(context, _ALLOWED["GetHistory"], tenant)
        start = moment(request.start_time, field="start_time") if request.HasField("start_time") else None
        end = moment(request.end_time, field="end_time") if request.HasField("end_time") else None
        return history_message(await self.history(tenant, name, start=start, end=end, points=request.points))

    @answering
    async def RebuildPolicy(self, request: pb.RebuildPolicyRequest, context: Context) -> pb.RebuildPolicyResponse:
        """Refold the evidence log and compare, or compare and replace."""
        tenant, name = parse_policy(request.name)
        self.keyring.require(context, _ALLOWED["RebuildPolicy"], tenant)
        found = await self.rebuild(tenant, name, verify_only=request.verify_only)
        return pb.RebuildPolicyResponse(
            evidence_rows=found.evidence_rows, cells=found.cells, max_error=found.max_error, agrees=found.agrees
        )

    @answering
    async def EvaluatePolicy(self, request: pb.EvaluatePolicyRequest, context: Context) -> pb.EvaluatePolicyResponse:
        """Value what was never served from what was."""
        tenant, name = parse_policy(request.name)
        self.keyring.require(context, _ALLOWED["EvaluatePolicy"], tenant)
        start = moment(request.start_time, field="start_time") if request.HasField("start_time") else None
        end = moment(request.end_time, field="end_time") if request.HasField("end_time") else None
        return evaluated_message(await self.evaluate(tenant, name, target_of(request), start=start, end=end))
