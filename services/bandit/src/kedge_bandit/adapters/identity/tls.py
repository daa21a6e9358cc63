"""Serve TLS from files that are read again when they change, so that certificates rotate without a restart."""

import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import structlog
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where the server's certificate chain and key are, and the authorities of client certificates, if asked for."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


@dataclass(frozen=True, slots=True)
class _Pem:
    certificate: bytes
    key: bytes
    client_ca: bytes | None


@dataclass(slots=True)
class ServedCertificate:
    """The newest certificate whose files fit together; half of a rotation is left until the other half is there."""

    files: TlsFiles
    _stamp: object = None
    _pem: _Pem = field(init=False)
    _brought: _Pem | None = None

    def __post_init__(self) -> None:
        """Read the files. Raises OSError, or ValueError for what is no certificate or cannot be served with its key."""
        self._stamp = self._look()
        self._pem = self._read()

    def credentials(self) -> grpc.ServerCredentials:
        """Make gRPC's credentials; where authorities are named a client without a certificate of theirs is cut off."""
        return grpc.dynamic_ssl_server_credentials(
            self._configuration(),
            self._fetch,  # type: ignore[arg-type]  # None says "as before", which the stub forgot
            require_client_authentication=self.files.client_ca is not None,
        )

    def renew(self) -> bool:
        """Read the files again if they changed, and say whether there is a new certificate."""
        try:
            stamp = self._look()
            if stamp == self._stamp:
                return False
            self._stamp = stamp
            before, self._pem = self._pem, self._read()
        except Exception as error:  # noqa: BLE001 - whatever the files hold, the old certificate serves and is followed
            if isinstance(error, OSError):
                self._stamp = None
            log.error("tls.not_renewed", error=type(error).__name__)
            return False
        log.info("tls.renewed")
        return before != self._pem

    def bring(self, context: ssl.SSLContext) -> None:
        """Let new connections of a TLS context have the newest certificate, if it has another one."""
        self.renew()
        if self._pem == self._brought:
            return
        try:
            _load(context, self._pem)
        except OSError as error:
            log.error("tls.not_renewed", error=type(error).__name__)
        else:
            self._brought = self._pem

    def _fetch(self) -> grpc.ServerCertificateConfiguration | None:
        return self._configuration() if self.renew() else None

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration([(self._pem.key, self._pem.certificate)], self._pem.client_ca)

    def _look(self) -> list[tuple[int, int, int]]:
        files = (self.files.certificate, self.files.key, self.files.client_ca)
        found = [path.stat() for path in files if path is not None]
        return [(each.st_ino, each.st_size, each.st_mtime_ns) for each in found]

    def _read(self) -> _Pem:
        certificate, key = self.files.certificate.read_bytes(), self.files.key.read_bytes()
        authorities = None if self.files.client_ca is None else self.files.client_ca.read_bytes()
        pem = _Pem(certificate, key, authorities)
        try:
            self._check(pem)
        except (TypeError, UnsupportedAlgorithm, ssl.SSLError) as error:
            raise ValueError(f"{self.files.key} is encrypted, or of a kind that is not served: {error}") from error
        return pem

    def _check(self, pem: _Pem) -> None:
        served = x509.load_pem_x509_certificates(pem.certificate)[0].public_key()
        ours = load_pem_private_key(pem.key, password=None).public_key()
        form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        if served.public_bytes(*form) != ours.public_bytes(*form):
            raise ValueError(f"{self.files.key} is not the key of {self.files.certificate}")
        if pem.client_ca is not None:
            x509.load_pem_x509_certificates(pem.client_ca)
        _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), pem)


def _load(context: ssl.SSLContext, pem: _Pem) -> None:
    """Give a context what was read; it takes files only, and this one is in memory. Raises OSError."""
    with os.fdopen(os.memfd_create("certificate"), "wb") as file:
        file.write(pem.key + b"\n" + pem.certificate)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
