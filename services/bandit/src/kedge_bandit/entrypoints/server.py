"""Serve gRPC: one process, one port; `python -m kedge_bandit.entrypoints.server`, started by `kedge serve`."""

import asyncio
import gc
import inspect
import itertools
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import structlog
import uvloop
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from kedge_bandit.adapters.grpc.permissions import check_declared
from kedge_bandit.adapters.grpc.status import reader
from kedge_bandit.entrypoints.doors import bind_grpc
from kedge_bandit.entrypoints.drain import Health, until
from kedge_bandit.entrypoints.logs import set_up_logs
from kedge_bandit.entrypoints.metrics_port import serve_metrics
from kedge_bandit.entrypoints.profile import check_profile
from kedge_bandit.entrypoints.readiness import say_ready
from kedge_bandit.entrypoints.settings import Settings, read_settings
from kedge_bandit.entrypoints.wiring import Replica, build_replica

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
NOTICE_SECONDS = 0.5
"""How long a server that is NOT_SERVING still takes calls, so that clients that watch its health go elsewhere first."""
DRAIN_SECONDS = 10.0
YOUNG_OBJECTS = 5_000
"""Objects made before the collector looks at the young ones."""
LOOK_AT_ALL_SECONDS = 60
"""Between two looks of the collector at all that came since the start."""

log = structlog.get_logger(__name__)


def handler_of(
    service: ServiceDescriptor, servicer: object, draining: asyncio.Event | None = None
) -> grpc.GenericRpcHandler:
    """Register a servicer's methods by the descriptor, without the generated helper of each service.

    Args:
        draining: ends the streams that would never end (Watch...).
    """
    methods = {}
    for rpc in service.methods:
        ways = ("stream" if rpc.client_streaming else "unary", "stream" if rpc.server_streaming else "unary")
        make: Callable[..., Any] = getattr(grpc, "_".join((*ways, "rpc_method_handler")))
        request: type[Message] = GetMessageClass(rpc.input_type)
        method = getattr(servicer, rpc.name)
        is_watch = rpc.name.startswith("Watch") and inspect.isasyncgenfunction(method)
        methods[rpc.name] = make(
            until(draining, method) if is_watch and draining is not None else method,
            request_deserializer=reader(request),
            response_serializer=lambda message: message.SerializeToString(),
        )
    handler: grpc.GenericRpcHandler = grpc.method_handlers_generic_handler(service.full_name, methods)
    return handler


def make_server(replica: Replica) -> tuple[grpc.aio.Server, Health]:
    """Make the server with every service, health and reflection; NOT_SERVING until told otherwise."""
    return server_of(replica.servicers)


def server_of(servicers: Sequence[tuple[ServiceDescriptor, object]]) -> tuple[grpc.aio.Server, Health]:
    """Make a server of some servicers, with health and reflection."""
    services = [service for service, _ in servicers]
    check_declared(services)
    server = grpc.aio.server(
        options=(
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.so_reuseport", 0),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
        )
    )
    checks = Health()
    server.add_generic_rpc_handlers(
        tuple(handler_of(service, servicer, checks.draining) for service, servicer in servicers)
    )
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    names = [service.full_name for service in services]
    reflection.enable_server_reflection(
        (*names, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name, reflection.SERVICE_NAME), server
    )
    return server, checks


async def spare_the_collector() -> None:
    """Keep garbage collection short, for ever.

    What is alive at the start is for the most part libraries: it is never looked at again, which were 60 ms each time.
    A decision makes dozens of objects, none of them in a cycle, and they are remembered: what outlived a look is walked
    once a minute, some 10 ms. gRPC and a raised error make a cycle with their call: most die at once, those of calls in
    flight within the minute.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 1_000, 1_000)
    for second in itertools.count(1):
        await asyncio.sleep(1.0)
        gc.collect(2 if second % LOOK_AT_ALL_SECONDS == 0 else 1)


async def serve(settings: Settings, url: str, *, announce: Callable[[int], None] = lambda _port: None) -> None:
    """Serve until SIGTERM or SIGINT; drains: clients are told, running calls finish, every row is written."""
    replica = await build_replica(settings, url)
    server, checks = make_server(replica)
    port = bind_grpc(server, settings)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await replica.snapshot.refresh()
    refreshing = asyncio.create_task(replica.keep_view())
    writing = asyncio.create_task(replica.writer.run())
    sparing = asyncio.create_task(spare_the_collector())
    if settings.metrics_port:
        serve_metrics(settings, settings.metrics_port, replica.telemetry.registry)
    await server.start()
    await checks.set("", health_pb2.HealthCheckResponse.SERVING)
    for service, _ in replica.servicers:
        await checks.set(service.full_name, health_pb2.HealthCheckResponse.SERVING)
    log.info("server.ready", port=port)
    say_ready()
    announce(port)
    stopped: asyncio.Task[Any] = asyncio.create_task(stop.wait())
    done, _ = await asyncio.wait({stopped, refreshing, writing}, return_when=asyncio.FIRST_COMPLETED)
    await checks.enter_graceful_shutdown()
    await asyncio.sleep(NOTICE_SECONDS)
    checks.draining.set()
    replica.watch.close()
    await server.stop(DRAIN_SECONDS)
    await replica.writer.close()
    await asyncio.wait({writing}, timeout=DRAIN_SECONDS)
    for task in (refreshing, writing, sparing, stopped):
        task.cancel()
    await replica.close()
    for task in done - {stopped}:
        task.result()


def main() -> None:
    """Run the process."""
    settings = read_settings()
    check_profile(settings)
    set_up_logs(settings.log_level)
    if not settings.database_url:
        sys.exit("KEDGE_DATABASE_URL is not set: `kedge serve` starts the embedded database and this process with it")
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    uvloop.run(serve(settings, settings.database_url))


if __name__ == "__main__":
    main()
