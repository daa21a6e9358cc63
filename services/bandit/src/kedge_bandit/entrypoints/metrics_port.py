"""Serve /metrics, in the clear or under TLS as the other ports are; with client authorities only to their clients."""

import threading
import time
from importlib import import_module
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server

from kedge_bandit.entrypoints.settings import Settings

IDENTITY_WIRING = "kedge_bandit.entrypoints.identity_wiring"
"""What loads the cryptography; imported where TLS or tokens are set up."""
LOOK_SECONDS = 5.0
"""How often a new certificate is looked for where no handshake asks; gRPC looks at every one."""


def is_encrypted(settings: Settings) -> bool:
    """Say whether the ports are under TLS. Raises SystemExit for half a set-up."""
    given = (settings.tls_certificate, settings.tls_key)
    if any((*given, settings.tls_client_ca)) and not all(given):
        raise SystemExit("KEDGE_TLS_CERTIFICATE and KEDGE_TLS_KEY belong together: set both, or neither")
    return all(given)


def serve_metrics(settings: Settings, port: int, registry: CollectorRegistry) -> None:
    """Serve them from threads that end with the process. Raises SystemExit where nothing can listen there."""
    try:
        _serve(settings, port, registry)
    except OSError as error:
        raise SystemExit(
            f"/metrics cannot listen on {settings.host}:{port} ({error.strerror}): "
            "set KEDGE_METRICS_PORT or KEDGE_WORKER_METRICS_PORT to a port that is free"
        ) from error


def _serve(settings: Settings, port: int, registry: CollectorRegistry) -> None:
    if not is_encrypted(settings):
        start_http_server(port, addr=settings.host, registry=registry)
        return
    server, _ = start_http_server(
        port,
        addr=settings.host,
        registry=registry,
        certfile=settings.tls_certificate,
        keyfile=settings.tls_key,
        client_cafile=settings.tls_client_ca or None,
        client_auth_required=bool(settings.tls_client_ca),
    )
    certificate, socket = import_module(IDENTITY_WIRING).served_certificate(settings), server.socket
    threading.Thread(target=_follow, args=(certificate, socket), daemon=True).start()


def _follow(certificate: Any, socket: Any) -> None:
    while True:
        time.sleep(LOOK_SECONDS)
        certificate.bring(socket.context)
