"""Serve and ask the holdout, which no other process can read, by `python -m kedge_bandit.entrypoints.gate`."""

import asyncio
import logging
import signal
import sys

import structlog
import uvloop
from grpc_health.v1 import health_pb2

from kedge_bandit.entrypoints.doors import bind_grpc
from kedge_bandit.entrypoints.gate_wiring import Gate, build_gate
from kedge_bandit.entrypoints.logs import set_up_logs
from kedge_bandit.entrypoints.metrics_port import serve_metrics
from kedge_bandit.entrypoints.profile import check_database, refuse, weaknesses
from kedge_bandit.entrypoints.readiness import say_ready
from kedge_bandit.entrypoints.server import server_of
from kedge_bandit.entrypoints.settings import Settings, read_settings

DRAIN_SECONDS = 10.0

log = structlog.get_logger(__name__)


async def serve(settings: Settings, gate: Gate) -> None:
    """Serve and run queries until SIGTERM or SIGINT."""
    server, checks = server_of(gate.servicers)
    port = bind_grpc(server, settings, settings.gate_port, "KEDGE_GATE_PORT")
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await gate.refresh()
    if settings.gate_metrics_port:
        serve_metrics(settings, settings.gate_metrics_port, gate.metrics.registry)
    await server.start()
    await checks.set("", health_pb2.HealthCheckResponse.SERVING)
    log.info("gate.ready", port=port)
    say_ready()
    keeping, stopped = asyncio.create_task(gate.keep_view()), asyncio.create_task(stop.wait())
    await asyncio.wait({keeping, stopped}, return_when=asyncio.FIRST_COMPLETED)
    keeping.cancel()
    await checks.enter_graceful_shutdown()
    await server.stop(DRAIN_SECONDS)
    await gate.close()
    log.info("gate.stopped")


def main() -> None:
    """Run the process."""
    settings = read_settings()
    refuse(weaknesses(settings))
    set_up_logs(settings.log_level)
    url = settings.gate_database_url
    if not url:
        sys.exit("KEDGE_GATE_DATABASE_URL is not set: `kedge serve` makes the gate's login and starts this process")
    check_database(settings, url, may_read_holdout=True)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    uvloop.run(serve(settings, build_gate(settings, url)))


if __name__ == "__main__":
    main()
