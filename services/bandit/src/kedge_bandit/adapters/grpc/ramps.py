"""Serve RampService."""

from dataclasses import dataclass

from kedge.bandit.v1 import ramp_service_pb2 as pb
from kedge.bandit.v1 import ramp_service_pb2_grpc
from kedge_bandit.adapters.grpc.credentials import Keyring
from kedge_bandit.adapters.grpc.permissions import permissions_of
from kedge_bandit.adapters.grpc.status import Context, answering
from kedge_bandit.adapters.grpc.wire_governance import order_of
from kedge_bandit.adapters.grpc.wire_ramp import ramp_message, report_message
from kedge_bandit.application.ramps import Movement, MoveRamp, ReadRamps, aborting, advancing, pausing
from kedge_bandit.domain.identifiers import parse_policy

_ALLOWED = permissions_of("RampService")


@dataclass(frozen=True, slots=True)
class RampServicer(ramp_service_pb2_grpc.RampServiceServicer):
    """Say how far traffic was given, and let people decide on."""

    keyring: Keyring
    read: ReadRamps
    move: MoveRamp

    @answering
    async def GetRamp(self, request: pb.GetRampRequest, context: Context) -> pb.GetRampResponse:
        """Read every ramp of a policy."""
        tenant, name = parse_policy(request.name)
        self.keyring.require(context, _ALLOWED["GetRamp"], tenant)
        return report_message(tenant, await self.read(tenant, name, with_metrics=not request.without_metrics))

    @answering
    async def AdvanceRamp(self, request: pb.AdvanceRampRequest, context: Context) -> pb.AdvanceRampResponse:
        """Go to the next approved stage, or let a ramp that stands go on."""
        return pb.AdvanceRampResponse(ramp=await self._moved("AdvanceRamp", request, context, advancing))

    @answering
    async def PauseRamp(self, request: pb.PauseRampRequest, context: Context) -> pb.PauseRampResponse:
        """Keep a ramp at its stage."""
        return pb.PauseRampResponse(ramp=await self._moved("PauseRamp", request, context, pausing))

    @answering
    async def AbortRamp(self, request: pb.AbortRampRequest, context: Context) -> pb.AbortRampResponse:
        """Go back to the first stage."""
        return pb.AbortRampResponse(ramp=await self._moved("AbortRamp", request, context, aborting))

    async def _moved(
        self,
        verb: str,
        request: pb.AdvanceRampRequest | pb.PauseRampRequest | pb.AbortRampRequest,
        context: Context,
        move: Movement,
    ) -> pb.Ramp:
        tenant, name = parse_policy(request.name)
        actor = self.keyring.require(context, _ALLOWED[verb], tenant).actor
        order = order_of(actor, verb, request, because=request.because, request_id=request.request_id)
        await self.move(tenant, name, request.arm_id, order, move)
        report = await self.read(tenant, name)
        [seen] = [seen for seen in report.seen if seen.ramp.arm_id == request.arm_id]
        return ramp_message(tenant, seen, report.decisions_per_day, report.seen[0].ramp.stage.value)
