"""Serve one HTTP request by calling one servicer method in-process: unary as a JSON answer, a stream as JSON lines."""

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Protocol

import grpc
from google.protobuf.message import Message
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kedge_bandit.adapters.rest.bindings import HttpBinding, RouteMatch
from kedge_bandit.adapters.rest.messages import RequestBuilder, to_json
from kedge_bandit.adapters.rest.rpc import RestRpc, RpcAborted, rpc_of
from kedge_bandit.adapters.rest.status import Failure, Reason, RequestRefused, edge_failure, internal_failure

MAX_BODY_BYTES: Final = 1 << 20
INLINE_BYTES: Final = 1 << 16
"""More is converted in a thread: a full body takes a good part of a second, in which other calls must go on."""
NDJSON: Final = "application/x-ndjson"
_log = logging.getLogger(__name__)

Authenticate = Callable[[str, RestRpc], Awaitable[None]]
"""Check the caller of ``/package.Service/Method``; refuse by ``await rpc.abort(...)``."""


class ServicerMethod(Protocol):
    """Be called as gRPC calls a servicer's method."""

    def __call__(self, request: Message, context: RestRpc, /) -> object:
        """Return an awaitable response, or an async iterator of responses for a stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Serve one binding.

    Attributes:
        binding: the RPC and its HTTP rule.
        builder: makes its request.
        method: the servicer's bound method.
        authenticate: run before the body is read; None lets everybody in.
    """

    binding: HttpBinding
    builder: RequestBuilder
    method: ServicerMethod
    authenticate: Authenticate | None

    async def serve(self, scope: Scope, receive: Receive, send: Send, found: RouteMatch) -> None:
        """Answer one HTTP request."""
        try:
            rpc = rpc_of(scope)
        except RequestRefused as refused:
            await refused.failure.response()(scope, receive, send)
            return
        if self.binding.rpc.server_streaming:
            await self._stream(scope, receive, found, rpc, _Lines(scope, receive, send))
        else:
            answer = await self._unary(scope, receive, found, rpc)
            await answer(scope, receive, send)

    async def _unary(self, scope: Scope, receive: Receive, found: RouteMatch, rpc: RestRpc) -> Response:
        limit = asyncio.timeout_at(rpc.deadline)
        try:
            async with limit:
                request = await self._request(scope, receive, found, rpc)
                reply = self.method(request, rpc)
                reply = await reply if inspect.isawaitable(reply) else reply
            if (failure := rpc.failure()) is None:
                return Response(await self._json(reply), media_type="application/json")
        except Exception as error:  # noqa: BLE001 - the boundary: every failure becomes one answer
            failure = self._failure(error, rpc, limit)
        finally:
            rpc.end()
        return failure.response()

    async def _stream(self, scope: Scope, receive: Receive, found: RouteMatch, rpc: RestRpc, lines: "_Lines") -> None:
        limit = asyncio.timeout_at(rpc.deadline)
        gone = True
        try:
            async with limit:
                request = await self._request(scope, receive, found, rpc)
                gone = await _gone_first(receive, self._pump(request, rpc, lines))
            failure = rpc.failure()
        except Exception as error:  # noqa: BLE001 - the boundary: every failure becomes one answer
            gone, failure = False, self._failure(error, rpc, limit)
        finally:
            rpc.end("cancelled" if gone else "done")
        if not gone:
            await lines.close(failure)

    async def _pump(self, request: Message, rpc: RestRpc, lines: "_Lines") -> None:
        replies = self.method(request, rpc)
        if isinstance(replies, AsyncGenerator):
            async with aclosing(replies):
                async for reply in replies:
                    await lines.write(await self._json(reply))
        elif inspect.isawaitable(replies):  # a method that only aborts has no yield and is a plain coroutine
            await replies
        else:
            raise TypeError(f"{self.binding.full_method} must be an async generator")

    async def _request(self, scope: Scope, receive: Receive, found: RouteMatch, rpc: RestRpc) -> Message:
        if self.authenticate is not None:
            await self.authenticate(self.binding.full_method, rpc)
            if rpc.failure() is not None:  # refused by set_code, or an abort whose exception was swallowed
                raise RpcAborted
        body = await read_body(scope, receive)
        variables = self.binding.template.values(found.segments)
        if len(body) > INLINE_BYTES:
            return await asyncio.to_thread(self.builder.build, variables, scope["query_string"], body)
        return self.builder.build(variables, scope["query_string"], body)

    async def _json(self, reply: object) -> bytes:
        if not isinstance(reply, Message):
            raise TypeError(f"{self.binding.full_method} returned no message")
        if reply.ByteSize() > INLINE_BYTES:
            return await asyncio.to_thread(to_json, reply, self.binding.response_body)
        return to_json(reply, self.binding.response_body)

    def _failure(self, error: Exception, rpc: RestRpc, limit: asyncio.Timeout) -> Failure:
        if isinstance(error, RequestRefused):
            return error.failure
        if isinstance(error, TimeoutError) and limit.expired():
            message = "The deadline in grpc-timeout passed before the answer; allow more time."
            return edge_failure(504, grpc.StatusCode.DEADLINE_EXCEEDED, Reason.DEADLINE_EXCEEDED, message)
        if (failure := rpc.failure()) is not None:
            return failure
        if not isinstance(error, RpcAborted):
            _log.error("rest.failed", exc_info=error, extra={"rpc_method": self.binding.full_method})
        return internal_failure()


class _Lines:
    """Write a stream of JSON lines; nothing is sent before the first line or the end, so an early error has a status.

    An error after the first line is a last line ``{"error": {...}}``.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._started = False

    async def write(self, line: bytes) -> None:
        if not self._started:
            await self._start()
        await self._send({"type": "http.response.body", "body": line + b"\n", "more_body": True})

    async def close(self, failure: Failure | None) -> None:
        if failure is not None and not self._started:
            await failure.response()(self._scope, self._receive, self._send)
            return
        if not self._started:
            await self._start()
        last = b"" if failure is None else failure.body() + b"\n"
        await self._send({"type": "http.response.body", "body": last})

    async def _start(self) -> None:
        self._started = True
        headers = [(b"content-type", NDJSON.encode("ascii")), (b"x-accel-buffering", b"no")]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})


async def _gone_first(receive: Receive, work: Coroutine[None, None, None]) -> bool:
    """Run the work until it ends or the client goes away, and say whether the client did.

    Raises:
        Exception: what the work raised.
    """
    pump = asyncio.create_task(work)
    gone = asyncio.create_task(_disconnected(receive))
    try:
        await asyncio.wait({pump, gone}, return_when=asyncio.FIRST_COMPLETED)
        if pump.done():
            pump.result()
            return False
        return True
    finally:
        for task in (pump, gone):
            task.cancel()
        await asyncio.gather(pump, gone, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def read_body(scope: Scope, receive: Receive) -> bytes:
    """Read a request's body of JSON.

    Raises:
        RequestRefused: more than MAX_BODY_BYTES (413), or another media type or an encoding (415).
    """
    headers = {name: value.decode("latin-1").strip().lower() for name, value in scope["headers"]}
    stated = headers.get(b"content-length", "0")
    if stated.isdecimal() and int(stated) > MAX_BODY_BYTES:
        raise _too_large()
    parts: list[bytes] = []
    size = 0
    more = True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise _client_gone()
        parts.append(event.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY_BYTES:
            raise _too_large()
        more = event.get("more_body", False)
    if size:
        _check_media_type(headers.get(b"content-type", ""), headers.get(b"content-encoding", "identity"))
    return b"".join(parts)


def _check_media_type(content_type: str, encoding: str) -> None:
    media_type, _, parameters = content_type.partition(";")
    media_type = media_type.strip()
    is_json = media_type in ("", "application/json") or media_type.endswith("+json")
    if is_json and "charset" in parameters:
        is_json = parameters.replace('"', "").replace(" ", "").rpartition("charset=")[2] in ("utf-8", "utf8")
    if not is_json or encoding != "identity":
        message = "Send the body as content-type: application/json in UTF-8, without content-encoding."
        code = grpc.StatusCode.INVALID_ARGUMENT
        raise RequestRefused(edge_failure(415, code, Reason.UNSUPPORTED_MEDIA_TYPE, message))


def _too_large() -> RequestRefused:
    message = f"The body is larger than {MAX_BODY_BYTES} bytes; send it in several calls."
    return RequestRefused(edge_failure(413, grpc.StatusCode.RESOURCE_EXHAUSTED, Reason.BODY_TOO_LARGE, message))


def _client_gone() -> RequestRefused:
    message = "The client closed the connection before the end of the body."
    return RequestRefused(edge_failure(499, grpc.StatusCode.CANCELLED, Reason.CANCELLED, message))
