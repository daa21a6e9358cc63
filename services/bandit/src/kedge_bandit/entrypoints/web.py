"""Serve REST: the same servicers, transcoded from the HTTP annotations. `python -m kedge_bandit.entrypoints.web`."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import uvicorn
import uvloop
from fastapi import FastAPI, Response
from starlette.routing import Route

from kedge_bandit.adapters.flags.own import OwnProvider, flag_of
from kedge_bandit.adapters.grpc.permissions import check_declared, check_routes_declared
from kedge_bandit.adapters.rest.alerts import Alerts
from kedge_bandit.adapters.rest.ofrep import Ofrep
from kedge_bandit.adapters.rest.transcode import build_app
from kedge_bandit.entrypoints.doors import follow_certificate
from kedge_bandit.entrypoints.logs import set_up_logs
from kedge_bandit.entrypoints.profile import check_profile
from kedge_bandit.entrypoints.readiness import say_ready
from kedge_bandit.entrypoints.settings import Settings, read_settings
from kedge_bandit.entrypoints.wiring import Replica, build_replica


def make_app(replica: Replica) -> FastAPI:
    """Make the application over a replica's servicers, with OFREP, alerts, /openapi.json, /healthz and /readyz."""
    check_declared([service for service, _ in replica.servicers])
    app = build_app(replica.servicers, title="Kedge", version="1")

    snapshot = replica.snapshot
    ofrep = Ofrep(
        replica.keyring, OwnProvider(snapshot), lambda tenant: map(flag_of, snapshot.policies.get(tenant, {}))
    )
    app.router.routes.extend((*ofrep.routes(), *Alerts(replica.keyring, replica.heed).routes()))

    @app.get("/healthz", include_in_schema=False)
    async def alive() -> dict[str, str]:
        return {"status": "alive"}

    @app.get("/readyz", include_in_schema=False)
    async def ready(response: Response) -> dict[str, object]:
        stale = replica.snapshot.stale
        response.status_code = 503 if stale else 200
        return {"status": "stale" if stale else "ready", "age_seconds": replica.snapshot.age_seconds}

    check_routes_declared(plain_routes(app))
    return app


def plain_routes(app: FastAPI) -> Iterator[str]:
    """Name the routes that are no RPCs, as "GET /path"; what answers HEAD beside GET is one route."""
    for route in app.routes:
        if isinstance(route, Route):
            yield from (f"{method} {route.path}" for method in route.methods or () if method != "HEAD")


@asynccontextmanager
async def running(replica: Replica) -> AsyncIterator[None]:
    """Keep a replica's background work going."""
    await replica.snapshot.refresh()
    refreshing = asyncio.create_task(replica.keep_view())
    writing = asyncio.create_task(replica.writer.run())
    try:
        yield
    finally:
        await replica.writer.close()
        await asyncio.wait({writing}, timeout=10)
        for task in (refreshing, writing):
            task.cancel()
        await replica.close()


class Server(uvicorn.Server):
    """Uvicorn's, which says when it serves."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; where that fails, uvicorn ends the process."""
        await super().startup(sockets)
        if self.started:
            say_ready()


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT."""
    replica = await build_replica(settings, settings.database_url)
    async with running(replica):
        config = uvicorn.Config(
            make_app(replica),
            host=settings.host,
            port=settings.web_port,
            log_config=None,
            access_log=False,
            server_header=False,
            ssl_certfile=settings.tls_certificate or None,
            ssl_keyfile=settings.tls_key or None,
        )
        config.load()
        following = None if config.ssl is None else follow_certificate(settings, config.ssl)
        await Server(config).serve()
        if following is not None:
            following.cancel()


def main() -> None:
    """Run the process."""
    settings = read_settings()
    check_profile(settings)
    set_up_logs(settings.log_level)
    if not settings.database_url:
        sys.exit("KEDGE_DATABASE_URL is not set: `kedge serve` starts the embedded database and this process with it")
    uvloop.run(serve(settings))


if __name__ == "__main__":
    main()
