"""List what `kedge serve` runs: so many servers, each on ports of its own, one worker, one web process."""

import socket
import ssl
from functools import partial
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from kedge_bandit.entrypoints.metrics_port import is_encrypted
from kedge_bandit.entrypoints.settings import Settings
from kedge_bandit.entrypoints.supervisor import Program, settings_of

_CHECK_SECONDS = 1.0


def servers(settings: Settings) -> list[Program]:
    """List the server processes: `server` on the configured ports, `server-2` on the next ones, and so on.

    >>> [program.name for program in servers(Settings(replicas=2))]
    ['server', 'server-2']
    >>> servers(Settings(replicas=2, port=7000, metrics_port=0))[1].settings
    {'KEDGE_PORT': '7001', 'KEDGE_METRICS_PORT': '0'}
    """
    return [_server(settings, number) for number in range(settings.replicas)]


def _server(settings: Settings, number: int) -> Program:
    port = _nth(settings.port, number)
    return Program(
        name="server" if number == 0 else f"server-{number + 1}",
        module="server",
        settings=settings_of(port=str(port), metrics_port=str(_nth(settings.metrics_port, number))),
        is_ready=partial(_shakes_hands if is_encrypted(settings) else _serves, settings.host, port),
    )


def worker() -> Program:
    """Give the worker; its matrices are small, and threads of the linear algebra would only take CPU."""
    return Program(name="worker", module="worker", settings={"OPENBLAS_NUM_THREADS": "1"})


def web() -> Program:
    """Give REST."""
    return Program(name="web", module="web")


def console(settings: Settings) -> list[Program]:
    """Give the pages for people, where they have a port; they get no database login.

    >>> console(Settings()), [program.name for program in console(Settings(console_port=8090))]
    ([], ['console'])
    """
    if not settings.console_port:
        return []
    no_database = {"KEDGE_DATABASE_URL": "", "DATABASE_URL": ""}
    return [Program(name="console", module="console", settings=no_database)]


def gate(settings: Settings, url: str) -> list[Program]:
    """Give the process that alone can read the holdout, where it has a port and a login; it gets no other login.

    >>> gate(Settings(), ""), [program.name for program in gate(Settings(), "postgresql://kedge_gate@/kedge")]
    ([], ['gate'])
    """
    if not settings.gate_port or not url:
        return []
    own = settings_of(database_url="", gate_database_url=url) | {"DATABASE_URL": "", "OPENBLAS_NUM_THREADS": "1"}
    return [Program(name="gate", module="gate", settings=own)]


def everything(settings: Settings, gate_url: str) -> list[Program]:
    """List every process of one machine.

    >>> [program.name for program in everything(Settings(console_port=8090), "")]
    ['server', 'worker', 'web', 'console']
    """
    return [*servers(settings), worker(), web(), *gate(settings, gate_url), *console(settings)]


def _nth(port: int, number: int) -> int:
    """Count ports up; 0 means none or any, and stays."""
    return port + number if port else 0


def _serves(host: str, port: int) -> bool:
    with grpc.insecure_channel(f"{host}:{port}") as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=_CHECK_SECONDS)
        except grpc.RpcError:
            return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def _shakes_hands(host: str, port: int) -> bool:
    """Say whether a server accepts TLS; for its health it would have to know a client's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # this machine's own child
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection((host, port), timeout=_CHECK_SECONDS) as plain,
            context.wrap_socket(plain) as encrypted,
        ):
            return encrypted.version() is not None
    except OSError:
        return False
