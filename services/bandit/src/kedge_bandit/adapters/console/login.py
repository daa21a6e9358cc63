"""Let people in: by their provider, or, on this machine alone, by a link that works once."""

import json
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from kedge_bandit.adapters.console.provider import LoginFailed, Provider
from kedge_bandit.adapters.console.rendering import Rendering
from kedge_bandit.adapters.console.sessions import COOKIE, LONGEST_SECONDS, Session, Sessions
from kedge_bandit.adapters.console.visit import moved, read_form
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.principal import Person, Role

LINKS: Final = "console_links"
"""Folder of unused links under the data folder: one file each, named after the hash of its secret."""
LINK_SECONDS: Final = 3600.0
THEMES: Final = ("light", "dark", "")

OpenPage = tuple[str, str, Callable[[Request], Awaitable[Response]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """Ways to log in.

    Attributes:
        provider: of sign-on; None: there is none.
        links: folder of one-time links; None: they are not taken.
    """

    provider: Provider | None = None
    links: Path | None = None


def write_link(folder: Path, *, subject: str, issuer: str, keys: dict[str, tuple[str, str]]) -> str:
    """Leave a link for one login; gives its secret.

    Args:
        subject: who will use it; empty for an operator.
        keys: role and API key by tenant; under "*" an operator's.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    secret = secrets.token_urlsafe(24)
    document = {"subject": subject, "issuer": issuer, "keys": keys, "until": time.time() + LINK_SECONDS}
    descriptor = os.open(folder / _file_of(secret), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(document, file)
    return secret


def take_link(folder: Path, secret: str) -> Session | None:
    """Use a link up; None where there is none, or it is too old."""
    path = folder / _file_of(secret)
    try:
        used = path.rename(path.with_suffix(".used"))
    except FileNotFoundError:
        return None
    document: Any = json.loads(used.read_text(encoding="utf-8"))
    used.unlink()
    return _session_of(document) if time.time() < document["until"] else None


def peek_link(folder: Path, secret: str) -> dict[str, Any] | None:
    """Say whose link it is, without using it up: a preview of the address must not spend it."""
    try:
        document: dict[str, Any] = json.loads((folder / _file_of(secret)).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return document if time.time() < document["until"] else None


def _file_of(secret: str) -> str:
    return f"{sha256(secret.encode()).hexdigest()}.json"


def _session_of(document: dict[str, Any]) -> Session:
    keys = {None if name == "*" else TenantId(name): given for name, given in document["keys"].items()}
    return Session(
        person=Person(document["issuer"], document["subject"]) if document["subject"] else None,
        roles={tenant: Role(role) for tenant, (role, _) in keys.items()},
        bearers={tenant: key for tenant, (_, key) in keys.items()},
        until=time.time() + LONGEST_SECONDS,
    )


def login_place(request: Request) -> str:
    """Give the login's address, with where to go afterwards."""
    asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return "/login" if asked == "/" or request.method != "GET" else f"/login?next={quote(asked, safe='/')}"


def own_place(text: str | None) -> str:
    """Take a place of this console, and of no other site.

    >>> own_place("/tenants/acme"), own_place("//evil.example"), own_place("https://evil.example"), own_place(None)
    ('/tenants/acme', '/', '/', '/')
    """
    if not text or not text.startswith("/") or text.startswith(("//", "/\\")) or not text.isprintable():
        return "/"
    return "/" if urlsplit(text).netloc else text


def open_pages(doors: Doors, sessions: Sessions, rendering: Rendering) -> Iterator[OpenPage]:
    """List the pages that nobody needs to be logged in for."""
    entrance = _Entrance(doors, sessions, rendering)
    yield "/login", "GET", entrance.ask
    yield "/login/provider", "GET", entrance.leave
    yield "/login/return", "GET", entrance.come_back
    yield "/login/link/{secret}", "GET", entrance.show_link
    yield "/login/link/{secret}", "POST", entrance.use_link
    yield "/logout", "POST", entrance.end
    yield "/theme", "POST", entrance.choose_theme


@dataclass(frozen=True, slots=True)
class _Entrance:
    """Pages in front of the console."""

    doors: Doors
    sessions: Sessions
    rendering: Rendering

    def _show(self, status: int = 200, **facts: Any) -> Response:
        common = {"has_provider": self.doors.provider is not None, "has_links": self.doors.links is not None}
        known = {"link": None, "problem": "", "next": "/", "theme": ""}
        page = self.rendering.render("login.html", **{**known, **common, **facts})
        return HTMLResponse(page, status, headers={"cache-control": "no-store"})

    def _enter(self, session: Session, place: str) -> Response:
        answer = moved(place)
        secret = self.sessions.begin(session)
        answer.set_cookie(COOKIE, secret, secure=True, httponly=True, samesite="lax", path="/")
        return answer

    async def ask(self, request: Request) -> Response:
        """Show how to log in."""
        return self._show(next=own_place(request.query_params.get("next")))

    async def show_link(self, request: Request) -> Response:
        """Ask whoever opened a link to confirm: only the answer uses it up."""
        secret = request.path_params["secret"]
        link = peek_link(self.doors.links, secret) if self.doors.links is not None else None
        if link is None:
            return self._show(410, problem="This link was used already, or it is over an hour old.")
        return self._show(link={"subject": link["subject"] or "operator", "given": link["keys"]})

    async def use_link(self, request: Request) -> Response:
        """Log in by a link."""
        links = self.doors.links
        session = take_link(links, request.path_params["secret"]) if links is not None else None
        if session is None:
            return self._show(410, problem="This link was used already, or it is over an hour old.")
        return self._enter(session, "/")

    async def leave(self, request: Request) -> Response:
        """Send the browser to the provider."""
        if self.doors.provider is None:
            return self._show(404, problem="No provider of sign-on is set up.")
        try:
            return await self.doors.provider.leave(own_place(request.query_params.get("next")))
        except LoginFailed as error:
            return self._show(502, problem=str(error))

    async def come_back(self, request: Request) -> Response:
        """Take the browser back from the provider."""
        if self.doors.provider is None:
            return self._show(404, problem="No provider of sign-on is set up.")
        try:
            session, place = await self.doors.provider.come_back(request)
        except LoginFailed as error:
            return self._show(403, problem=str(error))
        return self._enter(session, place)

    async def end(self, request: Request) -> Response:
        """Log out here; the provider's own session is its own."""
        self.sessions.end(request.cookies.get(COOKIE))
        answer = self._show(problem="You are logged out.")
        answer.delete_cookie(COOKIE, secure=True, httponly=True, samesite="lax", path="/")
        return answer

    async def choose_theme(self, request: Request) -> Response:
        """Keep light or dark; empty follows the system."""
        form = await read_form(request)
        theme = form.get("theme", "")
        answer = moved(own_place(form.get("back")))
        if theme in THEMES:
            answer.set_cookie(
                "kedge-theme", theme, max_age=31_536_000, samesite="lax", path="/", httponly=True, secure=True
            )
        return answer
