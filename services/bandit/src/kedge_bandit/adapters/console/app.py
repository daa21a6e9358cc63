"""Put the console together: one table of pages, each with the permission it takes, behind one door."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from kedge_bandit.adapters.console import failures
from kedge_bandit.adapters.console.backend import Backend, CallRefused
from kedge_bandit.adapters.console.login import Doors, login_place, open_pages
from kedge_bandit.adapters.console.origin import HEADERS, SAFE_METHODS, SameOrigin
from kedge_bandit.adapters.console.pages import PAGES, Page
from kedge_bandit.adapters.console.rendering import Rendering
from kedge_bandit.adapters.console.sessions import COOKIE, Session, Sessions
from kedge_bandit.adapters.console.visit import FormRefused, NotFound, Visit, moved, read_form
from kedge_bandit.domain.errors import InvalidName
from kedge_bandit.domain.identifiers import TenantId, tenant_id
from kedge_bandit.domain.principal import Permission

_YEAR: Final = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """What the pages stand on.

    Attributes:
        origins: addresses under which the console is reached.
        connect: opens the way to the server while the console runs.
        doors: ways to log in.
        closing: set once it is about to stop, so that pages that are kept up to date let go.
    """

    origins: Collection[str]
    connect: Callable[[], AbstractAsyncContextManager[Backend]]
    doors: Doors
    rendering: Rendering
    sessions: Sessions
    closing: asyncio.Event = field(default_factory=asyncio.Event)


def build_app(console: Console) -> FastAPI:
    """Make the application.

    Raises:
        LookupError: a page declares no permission.
    """

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        async with console.connect() as backend:
            app.state.backend, app.state.closing = backend, console.closing
            yield

    app = FastAPI(
        title="Kedge",
        openapi_url=None,
        lifespan=running,
        middleware=[
            Middleware(SameOrigin, origins=console.origins),
            Middleware(GZipMiddleware, minimum_size=1024),
        ],
    )
    app.add_exception_handler(Exception, _broken(console))
    app.add_route("/healthz", _alive, methods=["GET"], include_in_schema=False)
    app.add_route("/static/{name}", _static(console.rendering), methods=["GET"], include_in_schema=False)
    for path, method, answer in open_pages(console.doors, console.sessions, console.rendering):
        app.add_route(path, answer, methods=[method], include_in_schema=False)
    for page in PAGES:
        app.add_route(page.path, _guarded(page, console), methods=[page.method], include_in_schema=False)
    app.add_route("/{rest:path}", _missing(console), methods=["GET"], include_in_schema=False)
    return app


async def _alive(_request: Request) -> Response:
    return PlainTextResponse(f"alive {os.getpid()}\n")


def _static(rendering: Rendering) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        asset = rendering.assets.get(request.path_params["name"])
        if asset is None:
            return PlainTextResponse("there is no such file\n", 404)
        kept = {"cache-control": _YEAR if request.query_params.get("v") == asset.mark else "no-cache"}
        return Response(asset.content, media_type=asset.media_type, headers=kept)

    return answer


def _guarded(page: Page, console: Console) -> Callable[[Request], Awaitable[Response]]:
    """Admit who is logged in and has the page's permission in its tenant; answer every failure with a page."""

    async def answer(request: Request) -> Response:
        session = console.sessions.find(request.cookies.get(COOKIE))
        if session is None:
            return moved(login_place(request))
        try:
            form = {} if request.method in SAFE_METHODS else await read_form(request)
            visit = await _visit(request, console, session, form)
        except (NotFound, FormRefused) as error:
            return _lost(console, error)
        if not _admits(page.permission, visit):
            return failures.denied(visit, page.permission)
        try:
            response = await page.answer(visit)
        except NotFound:
            response = failures.missing(visit)
        except CallRefused as error:
            if error.code == "UNAUTHENTICATED":
                console.sessions.end(request.cookies.get(COOKIE))
                return moved(login_place(request))
            response = failures.refused(visit, error)
        response.headers.setdefault("cache-control", "no-store")
        return response

    return answer


async def _visit(request: Request, console: Console, session: Session, form: dict[str, str]) -> Visit:
    """Make the visit. Raises NotFound where the path names a tenant of somebody else."""
    return Visit(
        request=request,
        session=session,
        backend=request.app.state.backend,
        rendering=console.rendering,
        tenant=_tenant_of(request, session),
        form=form,
        now=datetime.now(UTC),
    )


def _tenant_of(request: Request, session: Session) -> TenantId | None:
    named = request.path_params.get("tenant")
    if named is None:
        return None
    try:
        tenant = tenant_id(named)
    except InvalidName as error:
        raise NotFound from error
    if session.role_in(tenant) is None:
        raise NotFound
    return tenant


def _admits(permission: Permission, visit: Visit) -> bool:
    if visit.tenant is None and permission is Permission.READ:
        return any(visit.session.may(permission, tenant) for tenant in visit.session.roles)
    return visit.session.may(permission, visit.tenant)


def _lost(console: Console, error: Exception) -> Response:
    sentence = str(error) or failures.NOWHERE
    page = console.rendering.render("lost.html", title=failures.LOST, sentence=sentence, theme="")
    return HTMLResponse(page, 404 if isinstance(error, NotFound) else 413, headers={"cache-control": "no-store"})


def _broken(console: Console) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Show a page for a fault of our own; its traceback is in the log."""

    async def answer(_request: Request, _error: Exception) -> Response:
        sentence = "The console failed on this page. Nothing was changed by showing it; what went wrong is in its log."
        page = console.rendering.render("lost.html", title="This page broke", sentence=sentence, theme="")
        return HTMLResponse(page, 500, headers={**HEADERS, "cache-control": "no-store"})

    return answer


def _missing(console: Console) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        session = console.sessions.find(request.cookies.get(COOKIE))
        if session is None:
            return moved(login_place(request))
        return _lost(console, NotFound())

    return answer
