"""Serve the real gRPC server with an Echo beside it, in a process of its own: the control of the decide bench.

Echo is a handler on the very same server object and port. It takes the request as bytes, looks at nothing, and answers
bytes that were set before: what any RPC of these sizes costs here.
"""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import grpc
import uvloop

from kedge_bandit.entrypoints.doors import bind_grpc
from kedge_bandit.entrypoints.logs import set_up_logs
from kedge_bandit.entrypoints.server import DRAIN_SECONDS, make_server, spare_the_collector
from kedge_bandit.entrypoints.settings import Settings, read_settings
from kedge_bandit.entrypoints.wiring import Replica, build_replica

SERVICE = "kedge.bench.Echo"


class Echo:
    """Answer whatever was set last."""

    def __init__(self) -> None:
        self._answer = b""

    async def set_answer(self, request: bytes, _context: object) -> bytes:
        self._answer = request
        return b""

    async def echo(self, _request: bytes, _context: object) -> bytes:
        return self._answer

    def handler(self) -> grpc.GenericRpcHandler:
        """Register both without a serialiser: bytes in, bytes out."""
        methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            "Echo": grpc.unary_unary_rpc_method_handler(self.echo),
            "SetAnswer": grpc.unary_unary_rpc_method_handler(self.set_answer),
        }
        handler: grpc.GenericRpcHandler = grpc.method_handlers_generic_handler(SERVICE, methods)
        return handler


async def serve() -> None:
    """Serve the replica and Echo."""
    settings = read_settings()
    replica = await build_replica(settings, settings.database_url)
    server, _ = make_server(replica)
    server.add_generic_rpc_handlers((Echo().handler(),))
    await run(replica, server, settings)


async def run(replica: Replica, server: grpc.aio.Server, settings: Settings) -> None:
    """Serve until SIGTERM as `kedge_bandit.entrypoints.server` does, and say the port on standard output."""
    port = bind_grpc(server, settings)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await replica.snapshot.refresh()
    endless = [asyncio.create_task(task) for task in (replica.snapshot.run(), spare_the_collector())]
    writing = asyncio.create_task(replica.writer.run())
    await server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    await stop.wait()
    await server.stop(DRAIN_SECONDS)
    await replica.writer.close()
    await writing
    for task in endless:
        task.cancel()
    await replica.close()


def alone(serving: Callable[[], Coroutine[Any, Any, None]], about: str | None) -> None:
    """Take a core for this process alone, if one is named, before any thread is started, and serve."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--core", type=int)
    core = parser.parse_args().core
    if core is not None:
        os.sched_setaffinity(0, {core})
    set_up_logs("WARNING")
    uvloop.run(serving())


if __name__ == "__main__":
    alone(serve, __doc__)
