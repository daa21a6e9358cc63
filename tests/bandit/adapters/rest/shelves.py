"""Implement the test API, including every way in which a servicer can fail."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from google.protobuf import any_pb2, duration_pb2, empty_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status


def rich_status() -> status_pb2.Status:
    """Make a status with an ErrorInfo, a delay and a detail of a type that nobody knows."""
    info, retry = any_pb2.Any(), any_pb2.Any()
    info.Pack(error_details_pb2.ErrorInfo(reason="QUEUE_FULL", domain="shelf", metadata={"queue": "outcomes"}))
    retry.Pack(error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=1, nanos=200_000_000)))
    unknown = any_pb2.Any(type_url="type.googleapis.com/nobody.Knows", value=b"\x01\x02")
    return status_pb2.Status(
        code=code_pb2.RESOURCE_EXHAUSTED, message="The queue is full; retry.", details=[info, retry, unknown]
    )


class ShelfServicer:
    """Answer as asked, and keep what was asked."""

    def __init__(self, pb2: Any) -> None:
        self.pb2 = pb2
        self.requests: list[Any] = []
        self.rpcs: list[Any] = []
        self.ended = asyncio.Event()

    async def GetBook(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        self.rpcs.append(context)
        return self.pb2.Book(name=request.name, colour=request.colour)

    async def ListBooks(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        return self.pb2.ListBooksResponse(books=[self.pb2.Book(name=f"{request.parent}/books/1")])

    async def PutBook(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        return request.book

    async def DeleteBook(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        return empty_pb2.Empty()

    async def FreezeShelf(self, request: Any, context: Any) -> Any:
        return self.pb2.FreezeShelfResponse(name=request.name, because=request.because)

    async def CountBooks(self, request: Any, context: Any) -> Any:
        return self.pb2.CountBooksResponse(counts={"red": 2**40})

    async def Echo(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        return request

    async def ReadFile(self, request: Any, context: Any) -> Any:
        return self.pb2.ReadFileResponse(path=request.path)

    async def WatchBooks(self, request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            if request.how == "abort first":
                await context.abort(grpc.StatusCode.NOT_FOUND, "No such shelf; list them.")
            yield self.pb2.Book(name="1")
            if request.how == "abort later":
                await context.abort(grpc.StatusCode.UNAVAILABLE, "The lease is over; connect again.")
            if request.how == "break later":
                raise ValueError("secret")
            if request.how == "for ever":
                await asyncio.Event().wait()
            yield self.pb2.Book(name="2")
        finally:
            self.ended.set()

    async def Fail(self, request: Any, context: Any) -> Any:
        self.rpcs.append(context)
        await failures(context)[request.how]()
        return empty_pb2.Empty()


def shelf_servicer(pb2: Any, base: type) -> Any:
    """Make the servicer on top of the generated base class, so that what it leaves out is UNIMPLEMENTED."""
    return type("GeneratedShelfServicer", (ShelfServicer, base), {})(pb2)


def failures(context: Any) -> dict[str, Any]:
    """Name the ways to fail."""

    async def raise_secret() -> None:
        raise RuntimeError("password is hunter2")

    async def abort_rich() -> None:
        await context.abort_with_status(rpc_status.to_status(rich_status()))

    async def abort_and_go_on() -> None:
        try:
            await context.abort(grpc.StatusCode.ABORTED, "Somebody was faster; read and retry.")
        except grpc.aio.AbortError:
            return

    async def set_code() -> None:
        context.set_code(grpc.StatusCode.FAILED_PRECONDITION)
        context.set_details("The shelf is frozen; unfreeze it.")

    async def set_trailing() -> None:
        context.set_trailing_metadata(rpc_status.to_status(rich_status()).trailing_metadata)
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "Full; retry.")

    async def sleep() -> None:
        await asyncio.Event().wait()

    async def abort_ok() -> None:
        await context.abort(grpc.StatusCode.OK, "fine")

    async def own_timeout() -> None:
        raise TimeoutError("database at 10.0.0.1")

    named = {
        "raise": raise_secret,
        "rich": abort_rich,
        "swallow": abort_and_go_on,
        "set code": set_code,
        "trailing": set_trailing,
        "sleep": sleep,
        "abort ok": abort_ok,
        "own timeout": own_timeout,
    }
    return named | {code.name: aborting(context, code) for code in grpc.StatusCode}


def aborting(context: Any, code: grpc.StatusCode) -> Any:
    """Make a failure that aborts with a code."""

    async def abort() -> None:
        await context.abort(code, f"{code.name} happened; act on it.")

    return abort
