"""Make certificates and tokens for tests: an authority, what it signs, and an issuer with its keys."""

import ipaddress
import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

Key = ec.EllipticCurvePrivateKey
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write both, each in one step; gives the paths of certificate and key."""
        paths = folder / f"{name}.pem", folder / f"{name}.key"
        for path, content in zip(paths, (self.certificate, self.key), strict=True):
            fresh = path.with_suffix(".new")
            fresh.write_bytes(content)
            fresh.chmod(0o600)
            fresh.replace(path)
        return paths


class Authority:
    """Sign certificates."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        limits = x509.BasicConstraints(ca=True, path_length=None)
        made = _builder(self._name, self._name, self._key, ends=DAY).add_extension(limits, critical=True)
        self.certificate = made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)

    def server(self) -> Pair:
        """Make a certificate of this machine."""
        return self.sign(x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1")))

    def client(self, name: str) -> Pair:
        """Make a certificate of a SPIFFE id."""
        return self.sign(x509.UniformResourceIdentifier(name))

    def sign(self, *names: x509.GeneralName, common_name: str = "nobody", ends: timedelta = DAY) -> Pair:
        """Make a certificate of some names."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = _builder(_named(common_name), self._name, key, ends=ends)
        if names:
            made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return Pair(made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM), _pem(key))


@dataclass(slots=True)
class Issuer:
    """Sign tokens as an identity provider does."""

    name: str = "https://login.example"
    audience: str = "kedge"
    keys: list[ECKey] = field(default_factory=lambda: [new_key("k1")])

    def write(self, path: Path) -> None:
        """Write the public keys as a JWKS, in one step."""
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(KeySet(list(self.keys)).as_dict(private=False)), encoding="utf-8")
        fresh.replace(path)

    def claims(self, subject: str, role: str, tenants: object = "acme", **more: Any) -> dict[str, Any]:
        """Write what a person's token says; None leaves a claim out."""
        now = int(time.time())
        said = {
            "iss": self.name,
            "aud": self.audience,
            "sub": subject,
            "iat": now,
            "exp": now + 600,
            "auth_time": now,
            "kedge_tenants": tenants,
            "kedge_role": role,
            **more,
        }
        return {name: value for name, value in said.items() if value is not None}

    def token(self, subject: str, role: str, tenants: object = "acme", **more: Any) -> str:
        """Sign a token of a person with the newest key."""
        return self.sign(self.claims(subject, role, tenants, **more))

    def sign(self, claims: dict[str, Any], *, key: ECKey | None = None, **header: Any) -> str:
        """Sign some claims."""
        used = key or self.keys[-1]
        return jwt.encode({"alg": "ES256", "kid": used.kid, **header}, claims, used)


def new_key(key_id: str) -> ECKey:
    """Make a signing key."""
    return ECKey.generate_key("P-256", {"kid": key_id})


def _named(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: Key, *, ends: timedelta) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * DAY)
        .not_valid_after(now + ends)
    )


def _pem(key: Key) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
