"""Call the API with a person's own credential; the console holds none of its own and reads no database."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Self

import grpc
from google.rpc import error_details_pb2, status_pb2
from grpc import aio

from kedge.bandit.v1 import (
    decision_service_pb2_grpc,
    episode_service_pb2_grpc,
    experiment_service_pb2_grpc,
    feedback_service_pb2_grpc,
    governance_service_pb2_grpc,
    holdout_service_pb2_grpc,
    policy_service_pb2_grpc,
    proposal_service_pb2_grpc,
    ramp_service_pb2_grpc,
    tenant_service_pb2_grpc,
)
from kedge_bandit.adapters.console.gym_wire import Gym

SECONDS: Final = 15.0
_DETAILS_KEY: Final = "grpc-status-details-bin"
_MAX_BYTES: Final = 64 * 1024 * 1024


class CallRefused(Exception):
    """Carry why the server refused a call, as it said so.

    Attributes:
        code: gRPC code, e.g. NOT_FOUND.
        reason: of error_reason.proto without its prefix; the code where the answer carries none.
    """

    def __init__(self, code: str, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason

    @classmethod
    def of(cls, error: aio.AioRpcError) -> Self:
        """Read a failed call."""
        code = error.code().name
        return cls(code, _reason_of(error) or code, error.details() or "the server gave no reason")


def _reason_of(error: aio.AioRpcError) -> str:
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS_KEY and isinstance(value, bytes):
            info = error_details_pb2.ErrorInfo()
            for detail in status_pb2.Status.FromString(value).details:
                if detail.Unpack(info):
                    return info.reason
    return ""


@dataclass(frozen=True, slots=True)
class Backend:
    """Stubs of the services: `holdout` is the gate's, the others are the server's; and the Gym."""

    decisions: Any
    episodes: Any
    feedback: Any
    policies: Any
    experiments: Any
    governance: Any
    tenants: Any
    proposals: Any
    ramps: Any
    holdout: Any
    gym: Gym

    async def call(self, rpc: Any, request: Any, bearer: str) -> Any:
        """Make one call. Raises CallRefused."""
        try:
            return await rpc(request, metadata=(("authorization", f"Bearer {bearer}"),), timeout=SECONDS)
        except aio.AioRpcError as error:
            raise CallRefused.of(error) from error

    def stream(self, rpc: Any, request: Any, bearer: str) -> Any:
        """Open a stream of answers, which lasts until it is cancelled."""
        return rpc(request, metadata=(("authorization", f"Bearer {bearer}"),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a server is and how it is believed: `credentials` of TLS, None in the clear."""

    address: str
    credentials: grpc.ChannelCredentials | None = None

    def channel(self) -> aio.Channel:
        """Open a channel, which connects when it is used and again whenever it has to."""
        options: Sequence[tuple[str, int]] = (("grpc.max_receive_message_length", _MAX_BYTES),)
        if self.credentials is None:
            return aio.insecure_channel(self.address, options=options)
        return aio.secure_channel(self.address, self.credentials, options=options)


@asynccontextmanager
async def connected(server: Place, gate: Place, gym: Gym) -> AsyncIterator[Backend]:
    """Open the channels to the server and to the gate, a process of its own."""
    async with server.channel() as channel, gate.channel() as to_gate:
        yield Backend(
            decisions=decision_service_pb2_grpc.DecisionServiceStub(channel),
            episodes=episode_service_pb2_grpc.EpisodeServiceStub(channel),
            feedback=feedback_service_pb2_grpc.FeedbackServiceStub(channel),
            experiments=experiment_service_pb2_grpc.ExperimentServiceStub(channel),
            policies=policy_service_pb2_grpc.PolicyServiceStub(channel),
            governance=governance_service_pb2_grpc.GovernanceServiceStub(channel),
            tenants=tenant_service_pb2_grpc.TenantServiceStub(channel),
            proposals=proposal_service_pb2_grpc.ProposalServiceStub(channel),
            ramps=ramp_service_pb2_grpc.RampServiceStub(channel),
            holdout=holdout_service_pb2_grpc.HoldoutServiceStub(to_gate),
            gym=gym,
        )
