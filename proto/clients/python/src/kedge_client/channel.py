"""Open the gRPC channel with options that suit short calls to several replicas."""

import ipaddress
import json
from collections.abc import Sequence
from typing import Final

import grpc.aio

_KEEPALIVE_MS: Final = 300_000
"""The shortest ping interval that a gRPC server accepts by default; quicker ones are answered with GOAWAY."""
_KEEPALIVE_TIMEOUT_MS: Final = 10_000
"""Also how long unacknowledged bytes may hang before a dead connection is dropped (TCP_USER_TIMEOUT)."""
_LONGEST_RECONNECT_MS: Final = 5_000
"""Below the breaker's longest pause, so that a probe finds the channel trying; gRPC's own default is two minutes."""
_CONNECT_TIMEOUT_MS: Final = 2_000
"""How long one attempt to connect may hang; the name of gRPC's option says something else."""

# Replicas in turn, and none that says it is not serving: one that drains is left before it refuses calls.
_SERVICE_CONFIG: Final = {"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": ""}}

OPTIONS: Final = (
    ("grpc.service_config", json.dumps(_SERVICE_CONFIG)),
    ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", _CONNECT_TIMEOUT_MS),
    ("grpc.max_reconnect_backoff_ms", _LONGEST_RECONNECT_MS),
    ("grpc.primary_user_agent", "kedge-client-python"),
)


def target(address: str | Sequence[str]) -> str:
    """Spell one gRPC target for one or more addresses.

    Args:
        address: one `host:port` or gRPC target (a DNS name may stand for several replicas), or several `ip:port`, all
            of one IP version: gRPC takes a list of addresses, not of names.

    Raises:
        ValueError: nothing is given, or one of several is not `ip:port`.

    >>> target("kedge.internal:7233")
    'kedge.internal:7233'
    >>> target(["127.0.0.1:7233", "127.0.0.1:7234"])
    'ipv4:127.0.0.1:7233,127.0.0.1:7234'
    """
    addresses = [address] if isinstance(address, str) else list(address)
    if not addresses or not all(addresses):
        raise ValueError("address must be host:port, or a list of ip:port")
    if len(addresses) == 1:
        return addresses[0]
    versions = {_ip_version(each) for each in addresses}
    if len(versions) != 1:
        raise ValueError(f"several addresses must be of one IP version, got {addresses}")
    return f"ipv{versions.pop()}:{','.join(addresses)}"


def open_channel(address: str | Sequence[str], tls: grpc.ChannelCredentials | None) -> grpc.aio.Channel:
    """Open a channel in the running event loop. It connects with the first call.

    Args:
        address: see `target`.
        tls: from `grpc.ssl_channel_credentials`; None sends everything in the clear, the key too.
    """
    if tls is None:
        return grpc.aio.insecure_channel(target(address), options=OPTIONS)
    return grpc.aio.secure_channel(target(address), tls, options=OPTIONS)


def _ip_version(address: str) -> int:
    host, _, port = address.rpartition(":")
    try:
        version = ipaddress.ip_address(host.strip("[]")).version
        int(port)
    except ValueError as error:
        raise ValueError(f"{address!r} is one of several, so it must be ip:port; give a DNS name alone") from error
    return version
