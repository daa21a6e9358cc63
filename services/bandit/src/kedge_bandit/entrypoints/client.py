"""Connect the command line to a running server: where it is and which key opens it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc

from kedge.bandit.v1 import (
    decision_service_pb2_grpc,
    episode_service_pb2_grpc,
    experiment_service_pb2_grpc,
    governance_service_pb2_grpc,
    holdout_service_pb2_grpc,
    policy_service_pb2_grpc,
    proposal_service_pb2_grpc,
    ramp_service_pb2_grpc,
    tenant_service_pb2_grpc,
    webhook_service_pb2_grpc,
)

OPERATOR_KEY_FILE = "operator.key"
"""Where `kedge serve` leaves the operator's key, under the data folder."""
SECONDS = 60.0
LONG_SECONDS = 3600.0
_MAX_BYTES = 64 * 1024 * 1024
_MAX_PORT = 65535


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """What the command line reads: KEDGE_ADDRESS (or KEDGE_HOST and KEDGE_PORT), KEDGE_KEY, KEDGE_DATA_DIR and others.

    Attributes:
        address: of the server, host:port.
        gate_address: of the gate, which keeps the holdout.
        key: an API key or a token; empty: the operator's key, which `kedge serve` leaves in `data_dir`.
        ca: PEM file of the authorities that the server's certificate is believed by; empty: nothing is encrypted.
        certificate, certificate_key: PEM files of the client's own certificate, where the server demands one.
    """

    address: str
    key: str
    data_dir: Path
    ca: str = ""
    certificate: str = ""
    certificate_key: str = ""
    gate_address: str = ""


def default_address() -> str:
    """Find the server that the same environment would start: KEDGE_HOST and KEDGE_PORT, or their defaults.

    Raises:
        SettingRefused: KEDGE_PORT is no port.
    """
    return _address("KEDGE_PORT", "50051")


def _address(setting: str, default: str) -> str:
    port = os.environ.get(setting, default)
    if not (port.isascii() and port.isdigit() and int(port) <= _MAX_PORT):
        raise SettingRefused(f"setting {setting}: {port!r} is no port, write a number from 1 to {_MAX_PORT}")
    return f"{os.environ.get('KEDGE_HOST', '127.0.0.1')}:{port}"


def read_client_settings() -> ClientSettings:
    """Read the environment; quick, because the kill switch waits for it. Raises SettingRefused."""
    return ClientSettings(
        address=os.environ.get("KEDGE_ADDRESS") or default_address(),
        gate_address=os.environ.get("KEDGE_GATE_ADDRESS") or _address("KEDGE_GATE_PORT", "50053"),
        key=os.environ.get("KEDGE_KEY", ""),
        data_dir=Path(os.environ.get("KEDGE_DATA_DIR", "build/kedge")),
        ca=os.environ.get("KEDGE_CA", ""),
        certificate=os.environ.get("KEDGE_CERTIFICATE", ""),
        certificate_key=os.environ.get("KEDGE_CERTIFICATE_KEY", ""),
    )


class SettingRefused(Exception):
    """Say which setting of the command line cannot be used, and why."""


class NoKey(Exception):
    """Say that no API key was found."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"no API key: set KEDGE_KEY, or start `kedge serve`, which leaves the operator's in {path}")


@dataclass(frozen=True, slots=True)
class Client:
    """Stubs of one channel. `key` goes with every call as its metadata."""

    address: str
    key: tuple[tuple[str, str], ...]
    decisions: Any
    episodes: Any
    policies: Any
    governance: Any
    tenants: Any
    ramps: Any
    experiments: Any
    webhooks: Any
    proposals: Any
    holdout: Any

    def call(self, rpc: Any, request: Any, *, seconds: float = SECONDS) -> Any:
        """Make one call with the key and a deadline. Raises grpc.RpcError."""
        return rpc(request, metadata=self.key, timeout=seconds)


@contextmanager
def connected_to_gate() -> Iterator[Client]:
    """Open a channel to the gate, which serves the holdout and nothing else. Raises NoKey, SettingRefused."""
    settings = read_client_settings()
    with connected(replace(settings, address=settings.gate_address)) as client:
        try:
            yield client
        except grpc.RpcError as error:
            call: Any = error
            if "refused" not in (call.details() or ""):
                raise
            told = f"no gate answers at {settings.gate_address}: start `kedge serve`, or set KEDGE_GATE_ADDRESS"
            raise SettingRefused(told) from error


@contextmanager
def connected(settings: ClientSettings | None = None) -> Iterator[Client]:
    """Open a channel to the server, or to what other settings say. Raises NoKey, SettingRefused."""
    settings = settings or read_client_settings()
    key = settings.key or _operator_key(settings.data_dir / OPERATOR_KEY_FILE)
    with _channel(settings) as channel:
        yield Client(
            address=settings.address,
            key=(("authorization", f"Bearer {key}"),),
            decisions=decision_service_pb2_grpc.DecisionServiceStub(channel),
            episodes=episode_service_pb2_grpc.EpisodeServiceStub(channel),
            policies=policy_service_pb2_grpc.PolicyServiceStub(channel),
            governance=governance_service_pb2_grpc.GovernanceServiceStub(channel),
            tenants=tenant_service_pb2_grpc.TenantServiceStub(channel),
            ramps=ramp_service_pb2_grpc.RampServiceStub(channel),
            experiments=experiment_service_pb2_grpc.ExperimentServiceStub(channel),
            webhooks=webhook_service_pb2_grpc.WebhookServiceStub(channel),
            proposals=proposal_service_pb2_grpc.ProposalServiceStub(channel),
            holdout=holdout_service_pb2_grpc.HoldoutServiceStub(channel),
        )


def _channel(settings: ClientSettings) -> grpc.Channel:
    options = (("grpc.max_receive_message_length", _MAX_BYTES),)
    if not settings.ca:
        return grpc.insecure_channel(settings.address, options=options)
    ca = _pem("KEDGE_CA", settings.ca)
    key = _pem("KEDGE_CERTIFICATE_KEY", settings.certificate_key)
    certificate = _pem("KEDGE_CERTIFICATE", settings.certificate)
    credentials = grpc.ssl_channel_credentials(ca, key, certificate)
    return grpc.secure_channel(settings.address, credentials, options=options)


def _pem(setting: str, path: str) -> bytes | None:
    try:
        return Path(path).read_bytes() if path else None
    except OSError as error:
        raise SettingRefused(f"setting {setting}: {path} cannot be read ({error.strerror})") from error


def _operator_key(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise NoKey(path) from error
