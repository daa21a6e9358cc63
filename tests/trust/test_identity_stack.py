"""The whole service under TLS in the production profile: every port encrypted, the command line with a certificate."""

import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx
import psycopg
import pytest
from cryptography import x509

from kedge_migrations import enable_login, upgrade
from tests.fixtures.stack import free_port, wait_for
from tests.trust.authorities import Authority
from tests.trust.conftest import PASSWORD
from tests.trust.doors import tls_settings

OURS = Authority("ours")
OPERATIONS = OURS.client("spiffe://kedge.example/operations")


class Sealed:
    """A running service whose doors are closed to who shows nothing."""

    process: subprocess.Popen[bytes]

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.port, self.web_port, self.metrics_port = folder, free_port(), free_port(), free_port()
        tls = {f"KEDGE_{name.upper()}": value for name, value in tls_settings(folder, OURS.server(), OURS).items()}
        certificate, key = OPERATIONS.write(folder, "operations")
        (folder / "ours.pem").write_bytes(OURS.certificate)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("KEDGE_")}
        self.environment = {
            **clean,
            **tls,
            "KEDGE_PROFILE": "production",
            "KEDGE_DATABASE_URL": url,
            "KEDGE_DATA_DIR": str(folder),
            "KEDGE_PORT": str(self.port),
            "KEDGE_WEB_PORT": str(self.web_port),
            "KEDGE_METRICS_PORT": str(self.metrics_port),
            "KEDGE_WORKER_METRICS_PORT": "0",
            "KEDGE_GATE_PORT": "0",
            "KEDGE_CA": str(folder / "ours.pem"),
            "KEDGE_CERTIFICATE": str(certificate),
            "KEDGE_CERTIFICATE_KEY": str(key),
        }
        self.kedge = str(Path(sys.executable).parent / "kedge")

    def said(self) -> str:
        """Read what the service has logged."""
        return (self.folder / "serve.log").read_text(encoding="utf-8")

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command line."""
        command = [self.kedge, *arguments]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120, check=False)

    def status(self, port: int, path: str, context: ssl.SSLContext) -> int:
        """Ask a port for a path; 0 where the connection is cut."""
        try:
            return httpx.get(f"https://localhost:{port}{path}", verify=context, timeout=10).status_code
        except httpx.TransportError:
            return 0


def as_service(url: str) -> str:
    """Bring a database to head as its owner does when it is deployed; gives the address that serving logs in with."""
    core = url.replace("postgresql://", "postgresql+psycopg://", 1)
    upgrade(core)
    enable_login(core, PASSWORD)
    parts = urlsplit(url)
    login = f"kedge_service:{quote(PASSWORD, safe='')}@{parts.netloc.rpartition('@')[2]}"
    return parts._replace(netloc=login).geturl()


@pytest.fixture
def sealed(fresh_database: str, tmp_path: Path) -> Iterator[Sealed]:
    with psycopg.connect(fresh_database) as connection:
        assert connection.info.host.startswith("/")  # a socket needs no encryption
    made = Sealed(tmp_path, as_service(fresh_database))
    with (tmp_path / "serve.log").open("wb") as log:
        process = subprocess.Popen([made.kedge, "serve"], env=made.environment, stdout=log, stderr=log)
    made.process = process
    try:
        wait_for(lambda: made.run("tenant", "list").returncode == 0, "the command line to get in")
        yield made
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def test_every_port_is_encrypted_and_asks_for_what_it_should(sealed: Sealed) -> None:
    trusting = ssl.create_default_context(cadata=OURS.certificate.decode())
    known = ssl.create_default_context(cadata=OURS.certificate.decode())
    known.load_cert_chain(sealed.environment["KEDGE_CERTIFICATE"], sealed.environment["KEDGE_CERTIFICATE_KEY"])
    wait_for(lambda: sealed.status(sealed.web_port, "/readyz", trusting) == 200, "REST to be ready")
    assert sealed.status(sealed.web_port, "/v1/tenants", trusting) == 401
    assert sealed.status(sealed.metrics_port, "/metrics", known) == 200
    assert sealed.status(sealed.metrics_port, "/metrics", trusting) == 0
    sealed.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "every process was restarted" in sealed.said(), "all processes to be restarted in turn")
    wait_for(lambda: sealed.status(sealed.web_port, "/readyz", trusting) == 200, "REST to be ready again")
    before = ssl.get_server_certificate(("127.0.0.1", sealed.web_port))
    OURS.sign(x509.DNSName("localhost")).write(sealed.folder, "server")
    wait_for(lambda: ssl.get_server_certificate(("127.0.0.1", sealed.web_port)) != before, "REST's new certificate")
    assert sealed.status(sealed.web_port, "/readyz", trusting) == 200
    sealed.environment["KEDGE_ADDRESS"] = f"localhost:{sealed.port}"
    assert sealed.run("tenant", "onboard", "acme").returncode == 0
    bound = sealed.run("identity", "bind", "acme", "spiffe://kedge.example/core", "--role", "core_app")
    assert bound.stdout.strip() == "spiffe://kedge.example/core is CORE_APP in acme"
    made = sealed.run("key", "create", "acme", "--principal", "app", "--role", "viewer", "--days", "1").stdout.strip()
    key_id = made.split("_")[1]
    assert key_id in sealed.run("key", "list", "acme").stdout
    assert sealed.run("key", "revoke", "acme", key_id, "--because", "lost").returncode == 0

    def is_out() -> bool:
        headers = {"authorization": f"Bearer {made}"}
        url = f"https://localhost:{sealed.web_port}/v1/tenants/acme/policies"
        return httpx.get(url, headers=headers, verify=trusting, timeout=10).status_code == 401

    wait_for(is_out, "the revoked key to be refused")
    for name in ("KEDGE_CERTIFICATE", "KEDGE_CERTIFICATE_KEY"):
        sealed.environment[name] = ""
    assert sealed.run("tenant", "list").returncode == 1
