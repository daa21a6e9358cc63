"""Serve gRPC servicers over HTTP: one route for every google.api.http rule of the given services."""

from collections.abc import Sequence
from typing import Final

import grpc
from fastapi import FastAPI
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from kedge_bandit.adapters.rest.bindings import HttpBinding, RouteMatch, RouteTable, http_rules
from kedge_bandit.adapters.rest.calls import Authenticate, Call
from kedge_bandit.adapters.rest.messages import RequestBuilder
from kedge_bandit.adapters.rest.openapi import openapi_document
from kedge_bandit.adapters.rest.status import HTTP_STATUS, Reason, edge_failure, internal_failure

__all__ = ["Authenticate", "RestApi", "build_app", "http_rules"]

_MATCH: Final = "kedge.rest.match"
_CODE_OF: Final = {status: code for code, status in reversed(HTTP_STATUS.items())}


class RestApi(FastAPI):
    """Serve the transcoded routes and the OpenAPI document made from the proto descriptors."""

    def __init__(self, *, title: str, version: str, document: dict[str, object], routes: BaseRoute) -> None:
        """Install the routes; the documentation pages are left out because they load scripts from elsewhere."""
        super().__init__(title=title, version=version, docs_url=None, redoc_url=None, redirect_slashes=False)
        self._document = document
        self.router.routes.append(routes)
        self.add_exception_handler(HTTPException, _refused_by_router)
        self.add_exception_handler(Exception, _broken)

    def openapi(self) -> dict[str, object]:
        """Return the OpenAPI 3.1 document, built once at start."""
        return self._document


class RpcRoutes(BaseRoute):
    """Answer every HTTP rule as one Starlette route, found by table instead of by trying patterns in turn."""

    def __init__(self, calls: Sequence[Call]) -> None:
        """Index the calls.

        Raises:
            ValueError: two rules answer the same method and path.
        """
        self.bindings: tuple[HttpBinding, ...] = tuple(call.binding for call in calls)
        self._calls = tuple(calls)
        self._table = RouteTable(self.bindings)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match fully on method and path, partially on the path alone."""
        if scope["type"] != "http":
            return Match.NONE, {}
        path = raw_path(scope)
        if (found := self._table.find(scope["method"], path)) is not None:
            return Match.FULL, {_MATCH: found, "endpoint": self._calls[found.index].method}
        if allowed := self._table.allowed(path):
            return Match.PARTIAL, {_MATCH: allowed}
        return Match.NONE, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve what was matched."""
        found = scope[_MATCH]
        if isinstance(found, RouteMatch):
            await self._calls[found.index].serve(scope, receive, send, found)
            return
        allowed = ", ".join(found)
        message = f"This path answers to {allowed}, not to {scope['method']}."
        failure = edge_failure(
            405, grpc.StatusCode.UNIMPLEMENTED, Reason.METHOD_NOT_ALLOWED, message, headers=(("allow", allowed),)
        )
        await failure.response()(scope, receive, send)


def build_app(
    servicers: Sequence[tuple[ServiceDescriptor, object]],
    *,
    title: str,
    version: str,
    authenticate: Authenticate | None = None,
    descriptors: FileDescriptorSet | None = None,
) -> RestApi:
    """Build the REST application of some gRPC services.

    Args:
        servicers: each service's descriptor with the servicer that implements it (grpc.aio style).
        title: of the API, for the OpenAPI document.
        version: of the API, for the OpenAPI document.
        authenticate: run before every call, before its body is read; refuses by ``await rpc.abort(...)``, and what it
            sets in context variables the servicer sees. None lets everybody in.
        descriptors: the services' files with source info, whose comments become descriptions.

    Raises:
        ValueError: an HTTP rule cannot be served, or two rules collide.
        AttributeError: a servicer lacks a method.
    """
    calls = [
        Call(
            binding=binding,
            builder=RequestBuilder.of(binding),
            method=getattr(servicer, binding.rpc.name),
            authenticate=authenticate,
        )
        for service, servicer in servicers
        for binding in http_rules(service)
    ]
    document = openapi_document(
        [call.binding for call in calls],
        title=title,
        version=version,
        descriptors=descriptors,
        security="none" if authenticate is None else "bearer",
    )
    return RestApi(title=title, version=version, document=document, routes=RpcRoutes(calls))


def raw_path(scope: Scope) -> str:
    """Return the percent-encoded path below the application's mount point."""
    encoded = scope.get("raw_path") or scope["path"].encode("utf-8")
    path: str = encoded.decode("latin-1").partition("?")[0]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


async def _refused_by_router(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 404:
        message = f"No call answers {request.method} {request.url.path[:200]}; /openapi.json lists them all."
        return edge_failure(404, grpc.StatusCode.NOT_FOUND, Reason.ROUTE_NOT_FOUND, message).response()
    code = _CODE_OF.get(status, grpc.StatusCode.UNIMPLEMENTED)
    return edge_failure(status, code, code.name, f"The request was refused with HTTP status {status}.").response()


async def _broken(_request: Request, _error: Exception) -> Response:
    return internal_failure().response()
