"""Leave without failing a call: say so in health, let clients go elsewhere, end what would never end by itself."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import wraps
from typing import Any

from grpc_health.v1.health import aio as health

Watch = Callable[[Any, Any], AsyncIterator[Any]]


class Health(health.HealthServicer):
    """Answer health checks.

    Attributes:
        draining: set it, and watchers are let go instead of holding the drain up.
    """

    def __init__(self) -> None:
        """Start without a drain."""
        super().__init__()
        self.draining = asyncio.Event()

    async def Watch(self, request: Any, context: Any) -> None:  # noqa: N802 - the name on the wire
        """Write every change of a service's state, until the caller hangs up or the replica drains."""
        watching: asyncio.Future[None] = asyncio.ensure_future(super().Watch(request, context))
        ending = asyncio.ensure_future(self.draining.wait())
        try:
            await asyncio.wait((watching, ending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            watching.cancel()
            ending.cancel()


def until(draining: asyncio.Event, watch: Watch) -> Watch:
    """Make a stream without an end one that ends, as if all had been said, when the replica drains."""

    @wraps(watch)
    async def watched(request: Any, context: Any) -> AsyncIterator[Any]:
        stream = watch(request, context)
        ending = asyncio.ensure_future(draining.wait())
        coming: asyncio.Future[Any] | None = None
        try:
            while True:
                coming = asyncio.ensure_future(_next(stream))
                await asyncio.wait((coming, ending), return_when=asyncio.FIRST_COMPLETED)
                if not coming.done():
                    return
                yield coming.result()
        except StopAsyncIteration:
            return
        finally:
            ending.cancel()
            if coming is not None:
                coming.cancel()

    return watched


async def _next(stream: AsyncIterator[Any]) -> Any:
    return await anext(stream)
