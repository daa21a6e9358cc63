"""Serve the pages for people, by `python -m kedge_bandit.entrypoints.console`; without a database or key of its own."""

import asyncio
import socket
import sys
from collections.abc import Collection
from functools import partial
from importlib import import_module
from pathlib import Path
from urllib.parse import urlsplit

import grpc
import uvicorn
import uvloop

from kedge_bandit.adapters.console.app import Console, build_app
from kedge_bandit.adapters.console.backend import Place, connected
from kedge_bandit.adapters.console.gym_wire import Gym
from kedge_bandit.adapters.console.login import LINKS, Doors
from kedge_bandit.adapters.console.provider import Provider
from kedge_bandit.adapters.console.rendering import make_rendering
from kedge_bandit.adapters.console.sessions import Sessions
from kedge_bandit.adapters.identity.proof import Tokens
from kedge_bandit.entrypoints.client import read_client_settings
from kedge_bandit.entrypoints.doors import follow_certificate
from kedge_bandit.entrypoints.logs import set_up_logs
from kedge_bandit.entrypoints.metrics_port import IDENTITY_WIRING, is_encrypted
from kedge_bandit.entrypoints.profile import is_loopback, refuse, weaknesses
from kedge_bandit.entrypoints.readiness import say_ready
from kedge_bandit.entrypoints.settings import Profile, Settings, read_settings


def origins_of(settings: Settings) -> list[str]:
    """List the addresses under which browsers may reach the console; the first is the one to name.

    >>> origins_of(Settings(console_url="https://kedge.example/"))
    ['https://kedge.example']
    >>> origins_of(Settings(console_port=8090))[:2]
    ['http://127.0.0.1:8090', 'http://localhost:8090']
    """
    if settings.console_url:
        parts = urlsplit(settings.console_url)
        return [f"{parts.scheme}://{parts.netloc}"]
    scheme = "https" if is_encrypted(settings) else "http"
    names = dict.fromkeys([settings.host, "127.0.0.1", "localhost", "[::1]"])
    return [f"{scheme}://{name}:{settings.console_port}" for name in names]


def check_reachable(settings: Settings) -> None:
    """Refuse what would send credentials in the clear. Raises SystemExit."""
    found = weaknesses(settings)
    for name, address in (("KEDGE_CONSOLE_URL", settings.console_url), ("KEDGE_JWT_ISSUER", _issuer_of(settings))):
        parts = urlsplit(address)
        if address and not (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))):
            found.append(f"{name} is {address}: browsers have to come over https, to another machine than this one")
    if settings.console_client_id and not settings.jwt_issuer:
        found.append("KEDGE_CONSOLE_CLIENT_ID needs KEDGE_JWT_ISSUER: who signs people on?")
    refuse(found)


def _issuer_of(settings: Settings) -> str:
    return settings.jwt_issuer if settings.console_client_id else ""


def doors_of(settings: Settings, tokens: Tokens | None) -> Doors:
    """Open the ways in: sign-on where a client is named; links in the demo profile, on this machine alone.

    Args:
        tokens: verifies what the provider issues; None where no client is named.
    """
    takes_links = settings.profile is Profile.DEMO and is_loopback(settings.host) and not settings.console_client_id
    return Doors(
        provider=None if tokens is None else _provider_of(settings, tokens),
        links=settings.data_dir / LINKS if takes_links else None,
    )


def _provider_of(settings: Settings, tokens: Tokens) -> Provider:
    return Provider(
        issuer=settings.jwt_issuer,
        client_id=settings.console_client_id,
        client_secret=settings.console_client_secret,
        audience=settings.jwt_audience,
        return_address=f"{origins_of(settings)[0]}/login/return",
        algorithms=tuple(name.strip() for name in settings.jwt_algorithms.split(",")),
        tokens=tokens,
    )


def places() -> tuple[Place, Place]:
    """Find server and gate as the command line does: their addresses, KEDGE_CA, a certificate where they demand one."""
    client = read_client_settings()
    if not client.ca:
        return Place(address=client.address), Place(address=client.gate_address)
    ca, key, certificate = (
        Path(path).read_bytes() if path else None for path in (client.ca, client.certificate_key, client.certificate)
    )
    credentials = grpc.ssl_channel_credentials(ca, key, certificate)
    return Place(address=client.address, credentials=credentials), Place(
        address=client.gate_address, credentials=credentials
    )


class Server(uvicorn.Server):
    """Uvicorn's, which says when it serves, and when it is about to stop."""

    def __init__(self, config: uvicorn.Config, closing: asyncio.Event) -> None:
        super().__init__(config)
        self._closing = closing

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; where that fails, uvicorn ends the process."""
        await super().startup(sockets)
        if self.started:
            say_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let go of pages that are kept up to date, then stop as uvicorn does."""
        self._closing.set()
        await super().shutdown(sockets)


def make_console(settings: Settings, origins: Collection[str], doors: Doors) -> Console:
    """Make the console over the server that the environment names."""
    return Console(
        origins=frozenset(origins),
        connect=partial(connected, *places(), Gym(settings.gym_url)),
        doors=doors,
        rendering=make_rendering(),
        sessions=Sessions(),
    )


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT."""
    bearer = import_module(IDENTITY_WIRING).bearer_of(settings) if settings.console_client_id else None
    doors = doors_of(settings, bearer)
    console = make_console(settings, origins_of(settings), doors)
    config = uvicorn.Config(
        build_app(console),
        host=settings.host,
        port=settings.console_port,
        log_config=None,
        access_log=False,
        server_header=False,
        ssl_certfile=settings.tls_certificate or None,
        ssl_keyfile=settings.tls_key or None,
    )
    config.load()
    tasks = [] if config.ssl is None else [follow_certificate(settings, config.ssl)]
    if bearer is not None:
        tasks.append(asyncio.create_task(bearer.keys.run()))
    await Server(config, console.closing).serve()
    for task in tasks:
        task.cancel()


def main() -> None:
    """Run the process."""
    settings = read_settings()
    check_reachable(settings)
    set_up_logs(settings.log_level)
    if not settings.console_port:
        sys.exit("KEDGE_CONSOLE_PORT is not set: set it to the port of the console, e.g. 8090")
    uvloop.run(serve(settings))


if __name__ == "__main__":
    main()
