"""Open the doors of a server, in the clear or under TLS; the cryptography is loaded only where it is used."""

import asyncio
import ssl
from importlib import import_module

import grpc

from kedge_bandit.adapters.grpc.credentials import Keyring
from kedge_bandit.adapters.identity.proof import KeptKeys
from kedge_bandit.adapters.postgres.callers import CallersView
from kedge_bandit.adapters.postgres.serving_reads import ServingReads
from kedge_bandit.entrypoints.metrics_port import IDENTITY_WIRING, LOOK_SECONDS, is_encrypted
from kedge_bandit.entrypoints.settings import Settings


def keyring_of(settings: Settings) -> tuple[Keyring, KeptKeys | None]:
    """Make what knows callers, and the source of the issuer's keys, None without an issuer.

    Raises:
        SystemExit: tokens are set up by half.
    """
    has_tokens = bool(settings.jwt_issuer or settings.jwt_audience or settings.jwt_keys)
    if not (has_tokens or settings.tls_client_ca):
        return Keyring(), None
    wiring = import_module(IDENTITY_WIRING)
    tokens = wiring.bearer_of(settings) if has_tokens else None
    keyring = Keyring(tokens=tokens, certificates=wiring.read_certificate if settings.tls_client_ca else None)
    if tokens is None:
        return keyring, None
    tokens.keys.changed = keyring.forget
    return keyring, tokens.keys


def callers_of(reads: ServingReads, keyring: Keyring) -> CallersView:
    """Make what keeps a keyring true."""
    callers = CallersView(reads, keyring.replace)
    keyring.look = callers.look
    return callers


def bind_grpc(server: grpc.aio.Server, settings: Settings, port: int | None = None, setting: str = "KEDGE_PORT") -> int:
    """Bind a gRPC port, by default the server's; gives the port. Raises SystemExit where nothing can listen there."""
    address = f"{settings.host}:{settings.port if port is None else port}"
    try:
        if not is_encrypted(settings):
            return server.add_insecure_port(address)
        certificate = import_module(IDENTITY_WIRING).served_certificate(settings)
        return server.add_secure_port(address, certificate.credentials())
    except RuntimeError as error:
        raise SystemExit(f"gRPC cannot listen on {address}: set {setting} to a port that is free") from error


def follow_certificate(settings: Settings, context: ssl.SSLContext) -> "asyncio.Task[None]":
    """Let new connections of a TLS context have the newest certificate; gives the task that does, to be cancelled."""
    certificate = import_module(IDENTITY_WIRING).served_certificate(settings)

    async def follow() -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            certificate.bring(context)

    return asyncio.create_task(follow())
