"""Serve ExperimentService."""

from dataclasses import dataclass

from kedge.bandit.v1 import experiment_service_pb2 as pb
from kedge.bandit.v1 import experiment_service_pb2_grpc
from kedge_bandit.adapters.grpc.credentials import Keyring
from kedge_bandit.adapters.grpc.permissions import permissions_of
from kedge_bandit.adapters.grpc.status import Context, answering
from kedge_bandit.adapters.grpc.wire_experiment import (
    SIDE,
    draft_of,
    experiment_message,
    kpis_message,
    reported_message,
)
from kedge_bandit.adapters.grpc.wire_governance import order_of
from kedge_bandit.application.experiments import Experimenting
from kedge_bandit.application.read_kpis import ReadKpis
from kedge_bandit.domain.errors import InvalidName
from kedge_bandit.domain.experiment import parse_experiment
from kedge_bandit.domain.identifiers import PolicyName, TenantId, parse_policy, parse_tenant

_ALLOWED = permissions_of("ExperimentService")


@dataclass(frozen=True, slots=True)
class ExperimentServicer(experiment_service_pb2_grpc.ExperimentServiceServicer):
    """Fix experiments, show them, and end them."""

    keyring: Keyring
    experiments: Experimenting
    kpis: ReadKpis

    @answering
    async def CreateExperiment(
        self, request: pb.CreateExperimentRequest, context: Context
    ) -> pb.CreateExperimentResponse:
        """Fix one before its first episode."""
        tenant = parse_tenant(request.parent)
        actor = self.keyring.require(context, _ALLOWED["CreateExperiment"], tenant).actor
        order = order_of(actor, "CreateExperiment", request, because=request.because, request_id=request.request_id)
        made = await self.experiments.create(tenant, draft_of(tenant, request.experiment), order)
        return pb.CreateExperimentResponse(experiment=experiment_message(tenant, made))

    @answering
    async def GetExperiment(self, request: pb.GetExperimentRequest, context: Context) -> pb.GetExperimentResponse:
        """Read one with what it shows."""
        tenant, experiment_id = parse_experiment(request.name)
        self.keyring.require(context, _ALLOWED["GetExperiment"], tenant)
        found = await self.experiments.get(tenant, experiment_id)
        return pb.GetExperimentResponse(experiment=reported_message(tenant, found))

    @answering
    async def ListExperiments(self, request: pb.ListExperimentsRequest, context: Context) -> pb.ListExperimentsResponse:
        """List them, newest first."""
        tenant = parse_tenant(request.parent)
        self.keyring.require(context, _ALLOWED["ListExperiments"], tenant)
        found = await self.experiments.list(tenant, _policy_of(tenant, request.policy))
        return pb.ListExperimentsResponse(experiments=[reported_message(tenant, one) for one in found])

    @answering
    async def EndExperiment(self, request: pb.EndExperimentRequest, context: Context) -> pb.EndExperimentResponse:
        """End one and freeze its report."""
        tenant, experiment_id = parse_experiment(request.name)
        actor = self.keyring.require(context, _ALLOWED["EndExperiment"], tenant).actor
        order = order_of(actor, "EndExperiment", request, because=request.because, request_id=request.request_id)
        ended = await self.experiments.end(tenant, experiment_id, order)
        return pb.EndExperimentResponse(experiment=reported_message(tenant, ended))

    @answering
    async def GetAssignment(self, request: pb.GetAssignmentRequest, context: Context) -> pb.GetAssignmentResponse:
        """Say which side a session or cohort is on."""
        tenant, experiment_id = parse_experiment(request.name)
        self.keyring.require(context, _ALLOWED["GetAssignment"], tenant)
        side = await self.experiments.assignment(tenant, experiment_id, request.unit_id)
        return pb.GetAssignmentResponse(side=SIDE[side])

    @answering
    async def GetPolicyKpis(self, request: pb.GetPolicyKpisRequest, context: Context) -> pb.GetPolicyKpisResponse:
        """Say how a policy does."""
        tenant, name = parse_policy(request.name)
        self.keyring.require(context, _ALLOWED["GetPolicyKpis"], tenant)
        return kpis_message(await self.kpis(tenant, name, days=request.days))


def _policy_of(tenant: TenantId, name: str) -> PolicyName | None:
    """Read which policy to list; None: every one."""
    if not name:
        return None
    owner, policy = parse_policy(name)
    if owner != tenant:
        raise InvalidName("policy", name[:80], f"a policy of tenants/{tenant}")
    return policy
