"""Tell an open page when something changed, by server-sent events; without a script it is reloaded by hand."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from grpc import aio
from starlette.responses import Response, StreamingResponse

from kedge.bandit.v1 import governance_service_pb2
from kedge_bandit.adapters.console import reading
from kedge_bandit.adapters.console.visit import Visit

TICK_SECONDS: Final = 5.0
LONGEST_SECONDS: Final = 120.0
"""After it a browser connects again by itself, and shows by that that its session still stands."""
MOST_OF_ONE: Final = 8
"""Streams that one session may hold open; a browser opens one a page."""


async def show(visit: Visit) -> Response:
    """Stream `changed` for every audit event of the page's tenant, and `tick` while there is none."""
    if visit.session.streams >= MOST_OF_ONE:
        return Response("too many pages are open\n", 429, media_type="text/plain")
    newest = 0
    if visit.tenant is not None:
        page = await reading.events_of(visit, visit.tenant, size=1)
        newest = page.events[0].sequence if page.events else 0
    return StreamingResponse(_told(visit, newest), media_type="text/event-stream")


async def _told(visit: Visit, newest: int) -> AsyncIterator[str]:
    if visit.session.streams >= MOST_OF_ONE:  # others began since the page asked
        return
    visit.session.streams += 1
    watch = None
    try:
        watch = _watch(visit, newest)
        yield "retry: 3000\n\n"
        async for name in _names(watch, visit.closing):
            yield f"event: {name}\ndata: \n\n"
    except aio.AioRpcError:
        return  # the browser comes again, and is told then what is wrong
    finally:
        visit.session.streams -= 1
        if watch is not None:
            watch.cancel()


def _watch(visit: Visit, newest: int) -> Any:
    """Open the stream of a tenant's audit events; None where the page is about many tenants."""
    if visit.tenant is None:
        return None
    request = governance_service_pb2.WatchAuditRequest(parent=f"tenants/{visit.tenant}", after_sequence=newest)
    return visit.backend.stream(visit.backend.governance.WatchAudit, request, visit.session.bearer_for(visit.tenant))


async def _names(watch: Any, closing: asyncio.Event) -> AsyncIterator[str]:
    """Name what happens, until the stream ends, it lasted long enough, or the console closes."""
    loop = asyncio.get_running_loop()
    until = loop.time() + LONGEST_SECONDS
    ended = asyncio.ensure_future(closing.wait())
    heard: asyncio.Future[Any] | None = None
    try:
        while loop.time() < until:
            if heard is None and watch is not None:
                heard = asyncio.ensure_future(watch.read())
            waiting = {ended} if heard is None else {ended, heard}
            done, _ = await asyncio.wait(waiting, timeout=TICK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if ended in done:
                return
            if heard is None or heard not in done:
                yield "tick"
                continue
            if heard.result() is aio.EOF:
                return
            heard = None
            yield "changed"
    finally:
        for task in (ended, heard):
            if task is not None:
                task.cancel()
