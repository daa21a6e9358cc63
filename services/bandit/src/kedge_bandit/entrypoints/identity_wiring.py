"""Wire the cryptography of identity: the server's certificate, clients' certificates, the issuer of tokens."""

import time
from pathlib import Path

from kedge_bandit.adapters.identity.bearer import ALGORITHMS, Bearer
from kedge_bandit.adapters.identity.certificates import read_certificate
from kedge_bandit.adapters.identity.key_source import KeySource, KeysRefused
from kedge_bandit.adapters.identity.tls import ServedCertificate, TlsFiles
from kedge_bandit.domain.identity import ClaimRules
from kedge_bandit.entrypoints.settings import Settings

__all__ = ["bearer_of", "read_certificate", "served_certificate"]


def served_certificate(settings: Settings) -> ServedCertificate:
    """Read the server's certificate. Raises SystemExit for one that cannot be served."""
    client_ca = Path(settings.tls_client_ca) if settings.tls_client_ca else None
    try:
        return ServedCertificate(TlsFiles(Path(settings.tls_certificate), Path(settings.tls_key), client_ca))
    except (OSError, ValueError) as error:
        raise SystemExit(f"the certificate of KEDGE_TLS_CERTIFICATE cannot be served: {error}") from error


def bearer_of(settings: Settings) -> Bearer:
    """Make what verifies tokens. Raises SystemExit for a set-up that would verify too little."""
    needed = {"ISSUER": settings.jwt_issuer, "AUDIENCE": settings.jwt_audience, "KEYS": settings.jwt_keys}
    missing = [f"KEDGE_JWT_{name}" for name, value in needed.items() if not value]
    if missing:
        raise SystemExit(f"tokens need {' and '.join(missing)} too: without, tokens meant for others would be taken")
    return Bearer(
        keys=_keys_of(settings.jwt_keys),
        issuer=settings.jwt_issuer,
        audience=settings.jwt_audience,
        algorithms=_algorithms_of(settings.jwt_algorithms),
        rules=ClaimRules(
            tenants=settings.jwt_tenants_claim, role=settings.jwt_role_claim, person=settings.jwt_person_claim
        ),
        now=time.time,
    )


def _algorithms_of(text: str) -> tuple[str, ...]:
    algorithms = tuple(name.strip() for name in text.split(",") if name.strip())
    unknown = [name for name in algorithms if name not in ALGORITHMS]
    if unknown or not algorithms:
        raise SystemExit(f"KEDGE_JWT_ALGORITHMS: {', '.join(unknown) or 'none given'}; take {', '.join(ALGORITHMS)}")
    return algorithms


def _keys_of(place: str) -> KeySource:
    keys = KeySource(place)
    if "://" in place and not keys.is_remote:
        raise SystemExit("KEDGE_JWT_KEYS: keys come from a file or from an https:// address, from nowhere else")
    if not keys.is_remote:
        try:
            keys.read()
        except (OSError, KeysRefused) as error:
            raise SystemExit(f"KEDGE_JWT_KEYS cannot be read: {error}") from error
    return keys
