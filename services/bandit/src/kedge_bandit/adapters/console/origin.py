"""Refuse what another site sends, and tell browsers to refuse what a page of ours was not written to do."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SAFE_METHODS: Final = ("GET", "HEAD", "OPTIONS")
HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
"""No inline script or style, nothing from elsewhere, no frame around a page."""


def is_from_here(headers: Headers, origins: Collection[str]) -> bool:
    """Say whether a request that changes something was made by a page of this console.

    Browsers say where a request comes from in Sec-Fetch-Site, older ones in Origin; who says neither is refused.

    >>> is_from_here(Headers({"sec-fetch-site": "same-origin"}), {"https://kedge.example"})
    True
    >>> is_from_here(Headers({"sec-fetch-site": "cross-site"}), {"https://kedge.example"})
    False
    >>> is_from_here(Headers({"origin": "https://kedge.example"}), {"https://kedge.example"})
    True
    >>> is_from_here(Headers({}), {"https://kedge.example"})
    False
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site != "same-origin":
        return False
    if origin is not None:
        return origin in origins
    return site is not None


@dataclass(frozen=True, slots=True)
class SameOrigin:
    """Middleware: known hosts only, changes from our own pages only, and the headers above on every answer.

    Attributes:
        origins: addresses under which the console is reached, e.g. "https://kedge.example"; another Host is refused,
            so that no name that somebody points here becomes one of ours.
    """

    app: ASGIApp
    origins: Collection[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    answered.setdefault(name, value)
            await send(message)

        await self._chosen(scope, headers)(scope, receive, send_with_headers)

    def _chosen(self, scope: Scope, headers: Headers) -> ASGIApp:
        if headers.get("host", "") not in {urlsplit(origin).netloc for origin in self.origins}:
            return PlainTextResponse("this console has another address: see KEDGE_CONSOLE_URL\n", 421)
        if scope["method"] not in SAFE_METHODS and not is_from_here(headers, self.origins):
            return PlainTextResponse("refused: this request did not come from a page of this console\n", 403)
        return self.app
