"""Run a server with its doors as some settings say, over a real database: gRPC on a real port, REST in-process."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import httpx
from fastapi import FastAPI
from grpc import aio
from prometheus_client import CollectorRegistry
from sqlalchemy import insert

from kedge.bandit.v1 import (
    governance_service_pb2_grpc,
    policy_service_pb2_grpc,
    proposal_service_pb2_grpc,
    tenant_service_pb2,
    tenant_service_pb2_grpc,
)
from kedge_bandit.adapters.grpc.status import reason_of
from kedge_bandit.adapters.postgres import control_tables as tables
from kedge_bandit.domain.api_key import format_key, hash_of, split_key
from kedge_bandit.entrypoints.doors import bind_grpc
from kedge_bandit.entrypoints.server import make_server
from kedge_bandit.entrypoints.settings import Settings
from kedge_bandit.entrypoints.web import make_app
from kedge_bandit.entrypoints.wiring import Replica, build_replica
from tests.trust.authorities import Authority, Pair

WAIT_SECONDS = 30.0


class Stubs:
    """Stubs over one channel; `key` goes with every call."""

    def __init__(self, channel: aio.Channel, key: str) -> None:
        self.channel = channel
        self.metadata = (("authorization", f"Bearer {key}"),) if key else ()
        self.policies: Any = policy_service_pb2_grpc.PolicyServiceStub(channel)
        self.tenants: Any = tenant_service_pb2_grpc.TenantServiceStub(channel)
        self.governance: Any = governance_service_pb2_grpc.GovernanceServiceStub(channel)
        self.proposals: Any = proposal_service_pb2_grpc.ProposalServiceStub(channel)

    async def call(self, rpc: Any, request: Any) -> Any:
        """Call with the key."""
        return await rpc(request, metadata=self.metadata, timeout=20)

    async def refusal(self, rpc: Any, request: Any) -> tuple[str, str]:
        """Give code and reason with which a call is refused; OK where it is not."""
        try:
            await self.call(rpc, request)
        except aio.AioRpcError as error:
            return error.code().name, reason_of(error)
        return "OK", ""


@dataclass(slots=True)
class Doors:
    """A running server, its REST application, and an operator's key."""

    replica: Replica
    port: int
    app: FastAPI
    operator: str
    root: bytes | None = None

    @asynccontextmanager
    async def stubs(self, key: str = "", *, own: Pair | None = None) -> AsyncIterator[Stubs]:
        """Connect anew, with a certificate where the server demands one."""
        address = f"127.0.0.1:{self.port}"
        if self.root is None:
            channel = aio.insecure_channel(address)
        else:
            certificate = (own.key, own.certificate) if own is not None else (None, None)
            channel = aio.secure_channel(address, grpc.ssl_channel_credentials(self.root, *certificate))
        async with channel:
            yield Stubs(channel, key)

    def http(self) -> httpx.AsyncClient:
        """Open a client of REST."""
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://kedge")

    async def tenant(self, own: Pair | None = None) -> str:
        """Onboard a tenant; gives its own name."""
        name = f"t{secrets.token_hex(5)}"
        request = tenant_service_pb2.OnboardTenantRequest(because="a test needs it")
        request.tenant.name = f"tenants/{name}"
        async with self.stubs(self.operator, own=own) as stubs:
            await stubs.call(stubs.tenants.OnboardTenant, request)
        return name

    async def key(self, tenant: str, role: str, *, person: str = "", own: Pair | None = None) -> str:
        """Make a key of a tenant that works at once."""
        request = tenant_service_pb2.CreateKeyRequest(
            parent=f"tenants/{tenant}",
            principal="someone",
            role=tenant_service_pb2.Role.Value(f"ROLE_{role}"),
            because="a test needs it",
        )
        if person:
            request.person.issuer, request.person.subject = "kedge", person
        async with self.stubs(self.operator, own=own) as stubs:
            key: str = (await stubs.call(stubs.tenants.CreateKey, request)).key
        await self.replica.snapshot.refresh()
        return key


@asynccontextmanager
async def open_doors(
    url: str, *, authority: Authority | None = None, polls: bool = True, **settings: Any
) -> AsyncIterator[Doors]:
    """Run a server on a free port; `authority` signed its certificate, if it has one.

    One that does not poll knows what there was when it started, and what it looks for on its own.
    """
    read = Settings(host="127.0.0.1", port=0, **settings)
    replica = await build_replica(read, url.replace("postgresql+psycopg://", "postgresql://", 1), CollectorRegistry())
    operator = format_key(secrets.token_bytes(36))
    key_id, secret = split_key(operator) or ("", "")
    async with replica.engine.begin() as connection:
        row = {"key_id": key_id, "key_hash": hash_of(secret), "principal": "operator", "role": "OPERATOR"}
        await connection.execute(insert(tables.api_key).values(row))
    await replica.snapshot.refresh()
    server, _ = make_server(replica)
    port = bind_grpc(server, read)
    await server.start()
    stop = asyncio.Event()
    if not polls:
        stop.set()
    viewing, writing = asyncio.create_task(_keep_view(replica, stop)), asyncio.create_task(replica.writer.run())
    keeping = None if replica.issuer_keys is None else asyncio.create_task(replica.issuer_keys.run())
    try:
        root = None if authority is None else authority.certificate
        yield Doors(replica, port, make_app(replica), operator, root)
    finally:
        replica.watch.close()
        await server.stop(None)
        stop.set()
        await viewing
        await replica.writer.close()
        await writing
        if keeping is not None:
            keeping.cancel()
        await replica.engine.dispose()


async def _keep_view(replica: Replica, stop: asyncio.Event) -> None:
    """Poll as a replica does, and end between two polls, so that no connection is dropped in the middle."""
    while not stop.is_set():
        await replica.snapshot.refresh()
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 0.1)


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until an awaited condition holds."""
    deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
    while not await condition():
        assert asyncio.get_running_loop().time() < deadline, f"waited in vain for {what}"
        await asyncio.sleep(0.05)


def tls_settings(folder: Path, server: Pair, clients: Authority) -> dict[str, str]:
    """Write a server's certificate and the authorities of its clients; gives the settings that name them."""
    certificate, key = server.write(folder, "server")
    (folder / "clients.pem").write_bytes(clients.certificate)
    return {
        "tls_certificate": str(certificate),
        "tls_key": str(key),
        "tls_client_ca": str(folder / "clients.pem"),
    }
