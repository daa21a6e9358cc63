"""/metrics answers beside connections that say nothing, in the clear and under TLS, and lets these go."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIServer

import httpx
import pytest
from prometheus_client import CollectorRegistry, Counter

from kedge_bandit.entrypoints.metrics_port import serve_metrics
from kedge_bandit.entrypoints.settings import Settings
from tests.trust.authorities import Authority
from tests.trust.doors import tls_settings

OURS, STRANGERS = Authority("ours"), Authority("strangers")


@contextmanager
def served(**tls: Any) -> Iterator[WSGIServer]:
    registry = CollectorRegistry()
    Counter("looked", "How often somebody looked.", registry=registry).inc()
    server = serve_metrics(Settings(host="127.0.0.1", **tls), 0, registry)
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def as_client(folder: Path, authority: Authority) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=OURS.certificate.decode())
    context.load_cert_chain(*authority.client("spiffe://kedge.example/metrics").write(folder, "metrics"))
    return context


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_connection_that_says_nothing_keeps_nobody_waiting_and_is_closed(tmp_path: Path, is_encrypted: bool) -> None:
    tls = tls_settings(tmp_path, OURS.server(), OURS) if is_encrypted else {}
    with served(**tls) as server:
        port = server.server_port
        with socket.create_connection(("127.0.0.1", port), timeout=60) as idle:
            url = f"http{'s' * is_encrypted}://127.0.0.1:{port}/metrics"
            answer = httpx.get(url, verify=as_client(tmp_path, OURS), timeout=60)
            assert (answer.status_code, "looked_total 1.0" in answer.text) == (200, True)
            assert idle.recv(1) == b""


def test_who_shakes_hands_wrongly_is_let_go_in_silence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with served(**tls_settings(tmp_path, OURS.server(), OURS)) as server:
        url = f"https://127.0.0.1:{server.server_port}/metrics"
        for context in (as_client(tmp_path, STRANGERS), ssl.create_default_context()):
            with pytest.raises(httpx.TransportError):
                httpx.get(url, verify=context, timeout=60)
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as plain:
            plain.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            while plain.recv(100):
                pass
        assert httpx.get(url, verify=as_client(tmp_path, OURS), timeout=60).status_code == 200
    assert "Traceback" not in capfd.readouterr().err
