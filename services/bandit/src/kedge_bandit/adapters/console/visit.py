"""Hold one request of somebody who is logged in: who they are, what they named, what they wrote."""

import asyncio
import uuid
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from kedge_bandit.adapters.console import happened
from kedge_bandit.adapters.console.backend import Backend
from kedge_bandit.adapters.console.rendering import Rendering
from kedge_bandit.adapters.console.sessions import Session
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.principal import Permission

MAX_FORM_BYTES: Final = 1 << 17
_MAX_FIELDS: Final = 50


class NotFound(Exception):
    """Say that there is no such page, or none for this person: the two look the same."""


class FormRefused(Exception):
    """Say that a form is not one of ours: too large, or too many fields."""


async def read_form(request: Request) -> dict[str, str]:
    """Read a form's fields. Raises FormRefused."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            raise FormRefused(f"a form may have {MAX_FORM_BYTES} bytes")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    except ValueError as error:
        raise FormRefused("this is no form of the console") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One request.

    Attributes:
        tenant: that the path names; None where it names none.
        form: fields of a form that was sent; empty for a page that is only looked at.
        now: time of the request.
        newest: each tenant's newest audit events, once they are being read.
    """

    request: Request
    session: Session
    backend: Backend
    rendering: Rendering
    tenant: TenantId | None
    form: Mapping[str, str]
    now: datetime
    newest: dict[TenantId, "asyncio.Future[Any]"] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The address that was asked for."""
        return self.request.url.path

    def named(self, part: str) -> str:
        """Give a part of the path, e.g. the policy."""
        return str(self.request.path_params[part])

    @property
    def closing(self) -> asyncio.Event:
        """Set once the console is about to stop."""
        event: asyncio.Event = self.request.app.state.closing
        return event

    @property
    def policy(self) -> str:
        """Resource name of the policy that the path names."""
        return f"tenants/{self.tenant}/policies/{self.named('policy')}"

    def asked(self, name: str, default: str = "") -> str:
        """Give a parameter of the query."""
        return self.request.query_params.get(name, default)

    def may(self, permission: Permission) -> bool:
        """Say whether to offer something in the tenant of this page."""
        return self.session.may(permission, self.tenant)

    def call(self, rpc: Any, request: Any, tenant: TenantId | None = None) -> Awaitable[Any]:
        """Call the server as this person, in a tenant, by default the one of the page. Raises CallRefused."""
        return self.backend.call(rpc, request, self.session.bearer_for(tenant or self.tenant))

    def show(self, template: str, status: int = 200, **facts: Any) -> HTMLResponse:
        """Render a page."""
        common = {
            "visit": self,
            "session": self.session,
            "tenant": self.tenant,
            "now": self.now,
            "happened": happened,
            "permission": Permission,
            "notes": [] if "x-live" in self.request.headers else self.session.take_notes(),
            "theme": self.request.cookies.get("kedge-theme", ""),
            "request_id": str(uuid.uuid4()),
            "inbox": 0,
        }
        return HTMLResponse(self.rendering.render(template, **{**common, **facts}), status)


def moved(place: str) -> Response:
    """Send a browser to another page, by GET."""
    return RedirectResponse(place, 303)
