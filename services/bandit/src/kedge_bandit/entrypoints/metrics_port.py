"""Serve /metrics, in the clear or under TLS as the other ports are; with client authorities only to their clients."""

import socket
import ssl
import sys
import threading
import time
from importlib import import_module
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, disable_created_metrics, make_wsgi_app

from kedge_bandit.entrypoints.settings import Settings

IDENTITY_WIRING = "kedge_bandit.entrypoints.identity_wiring"
"""What loads the cryptography; imported where TLS or tokens are set up."""
IDLE_SECONDS = 5.0
"""How long a connection may keep silent."""
LOOK_SECONDS = 5.0
"""How often a new certificate is looked for where no handshake asks; gRPC looks at every one."""


def is_encrypted(settings: Settings) -> bool:
    """Say whether the ports are under TLS. Raises SystemExit for half a set-up."""
    given = (settings.tls_certificate, settings.tls_key)
    if any((*given, settings.tls_client_ca)) and not all(given):
        raise SystemExit("KEDGE_TLS_CERTIFICATE and KEDGE_TLS_KEY belong together: set both, or neither")
    return all(given)


class _Server(ThreadingMixIn, WSGIServer):
    """Answer every connection in a thread of its own, its handshake too, so that none keeps the others waiting."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Let go who breaks off, keeps silent or is refused by the handshake; tell of all else."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = IDLE_SECONDS

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def serve_metrics(settings: Settings, port: int, registry: CollectorRegistry) -> WSGIServer:
    """Serve them from threads that end with the process. Raises SystemExit where nothing can listen there.

    When a counter was made is left out: it would double the series, and no query reads it.
    """
    disable_created_metrics()  # type: ignore[no-untyped-call]
    try:
        kind = _Server6 if ":" in settings.host else _Server
        server = make_server(settings.host, port, make_wsgi_app(registry), kind, _Handler)
    except OSError as error:
        raise SystemExit(
            f"/metrics cannot listen on {settings.host}:{port} ({error.strerror}): "
            "set KEDGE_METRICS_PORT, KEDGE_WORKER_METRICS_PORT or KEDGE_GATE_METRICS_PORT to a port that is free"
        ) from error
    if is_encrypted(settings):
        _encrypt(server, settings)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def _encrypt(server: WSGIServer, settings: Settings) -> None:
    certificate = import_module(IDENTITY_WIRING).served_certificate(settings)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if settings.tls_client_ca:
        context.load_verify_locations(settings.tls_client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    certificate.bring(context)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=_follow, args=(certificate, context), daemon=True).start()


def _follow(certificate: Any, context: ssl.SSLContext) -> None:
    while True:
        time.sleep(LOOK_SECONDS)
        certificate.bring(context)
