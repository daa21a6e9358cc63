"""Serve RampService."""

from dataclasses import dataclass

from kedge.bandit.v1 import ramp_service_pb2 as pb
from kedge.bandit.v1 import ramp_service_pb2_grpc
from kedge_bandit.adapters.grpc.credentials import Keyring
from kedge_bandit.adapters.grpc.unimplemented import completing


@completing(pb.DESCRIPTOR.services_by_name["RampService"])
@dataclass(frozen=True, slots=True)
class RampServicer(ramp_service_pb2_grpc.RampServiceServicer):
    """Say how far traffic was given, and let people decide on."""

    keyring: Keyring
