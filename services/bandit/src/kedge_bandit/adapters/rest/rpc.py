"""Stand in for gRPC's servicer context when a servicer is called in-process for an HTTP request."""

import asyncio
import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, Never

import grpc
from grpc import aio
from starlette.types import Scope

from kedge_bandit.adapters.rest.status import Failure, Reason, refuse, rpc_failure

# Headers that concern one HTTP connection or its body, not the call.
_HTTP_ONLY: Final = frozenset(
    b"connection content-encoding content-length content-type expect host keep-alive te trailer transfer-encoding "
    b"upgrade".split()
)
_TIMEOUT: Final = re.compile(r"([0-9]{1,8})([HMSmun])", re.ASCII)
_UNIT_SECONDS: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}

Metadata = Iterable[tuple[str, str | bytes]]


class Metadatum(NamedTuple):
    """Hold one piece of metadata as gRPC's own context does."""

    key: str
    value: str | bytes


class RpcAborted(aio.AbortError):
    """End a servicer's method after ``abort``; the status is on the context."""


class RestRpc(aio.ServicerContext[Any, Any]):
    """Give a servicer what it uses of gRPC's context, and remember the status it ends with.

    The remembered status holds even when the servicer swallows the exception that ``abort`` raises, as in gRPC.
    """

    def __init__(self, *, metadata: tuple[Metadatum, ...], peer: str, deadline: float | None) -> None:
        """Start a call.

        Args:
            metadata: invocation metadata, keys in lower case, ``-bin`` values decoded.
            peer: the client's address as gRPC writes it.
            deadline: on the event loop's clock, seconds; None without one.
        """
        self._metadata = metadata
        self._peer = peer
        self._deadline = deadline
        self._code: grpc.StatusCode | None = None
        self._details = ""
        self._trailing: tuple[tuple[str, str | bytes], ...] = ()
        self._callbacks: list[Callable[[Any], None]] = []
        self._ended = False
        self._cancelled = False

    @property
    def deadline(self) -> float | None:
        """When the call must end, on the event loop's clock; None without a deadline."""
        return self._deadline

    def failure(self) -> Failure | None:
        """Return the answer for the status that the servicer set, None while it is OK."""
        if self._code is None or self._code is grpc.StatusCode.OK:
            return None
        return rpc_failure(self._code, self._details, self._trailing)

    def end(self, how: str = "done") -> None:
        """Mark the call as over and run the servicer's callbacks.

        Args:
            how: "done", or "cancelled" when the client went away.
        """
        self._ended = True
        self._cancelled = how == "cancelled"
        for callback in self._callbacks:
            callback(self)

    # What servicers call.

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> Never:
        """End the call with a status; OK is no abort and becomes UNKNOWN, as in gRPC."""
        self._code = grpc.StatusCode.UNKNOWN if code is grpc.StatusCode.OK else code
        self._details = details
        self._trailing = (*self._trailing, *trailing_metadata)
        raise RpcAborted(f"{self._code.name}: {details}")

    async def abort_with_status(self, status: grpc.Status) -> Never:
        """End the call with a rich status, as ``grpc_status.rpc_status.to_status`` makes it."""
        await self.abort(status.code, status.details, status.trailing_metadata or ())

    def set_code(self, code: grpc.StatusCode) -> None:
        """Set the status code with which the method will return."""
        self._code = code

    def set_details(self, details: str) -> None:
        """Set the sentence that goes with the code."""
        self._details = details

    def set_trailing_metadata(self, trailing_metadata: Any) -> None:
        """Set trailing metadata; over HTTP only the status details in it reach the client."""
        self._trailing = tuple(trailing_metadata)

    def invocation_metadata(self) -> Any:
        """Return the HTTP headers of the call as pairs of key and value."""
        return self._metadata

    def peer(self) -> str:
        """Return the client's address, such as ``ipv4:127.0.0.1:5000``."""
        return self._peer

    def time_remaining(self) -> float | None:  # type: ignore[override]  # the runtime answers None, its stub forgot
        """Return the seconds until the deadline, 0 when it is over, None without one."""
        if self._deadline is None:
            return None
        return max(0.0, self._deadline - asyncio.get_running_loop().time())

    def code(self) -> grpc.StatusCode:
        """Return the status code set so far."""
        return self._code or grpc.StatusCode.OK

    def details(self) -> str:
        """Return the sentence set so far."""
        return self._details

    def trailing_metadata(self) -> Any:
        """Return the trailing metadata set so far."""
        return self._trailing

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Ask to be called with this context when the call is over."""
        self._callbacks.append(callback)

    def done(self) -> bool:
        """Say whether the call is over."""
        return self._ended

    def cancelled(self) -> bool:
        """Say whether the client went away."""
        return self._cancelled

    # What HTTP has no place for.

    async def read(self) -> Never:
        """Refuse: a stream of requests cannot have an HTTP rule."""
        raise NotImplementedError("HTTP calls carry one request; take it from the method's argument")

    async def write(self, message: object) -> Never:
        """Refuse: streaming methods yield."""
        raise NotImplementedError("yield the message instead of writing it to the context")

    async def send_initial_metadata(self, initial_metadata: Any) -> None:
        """Drop initial metadata; no HTTP client of this API reads it."""

    def set_compression(self, compression: grpc.Compression) -> None:
        """Ignore gRPC's compression."""

    def disable_next_message_compression(self) -> None:
        """Ignore gRPC's compression."""

    def peer_identities(self) -> Iterable[bytes] | None:
        """Return None: identities come from ``authenticate``."""
        return None

    def peer_identity_key(self) -> str | None:
        """Return None: identities come from ``authenticate``."""
        return None

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """Return an empty mapping: identities come from ``authenticate``."""
        return {}


def rpc_of(scope: Scope) -> RestRpc:
    """Make the context of an HTTP request.

    Raises:
        RequestRefused: INVALID_VALUE for a ``-bin`` header that is not base64 or a ``grpc-timeout`` that is none.
    """
    metadata: list[Metadatum] = []
    deadline: float | None = None
    for name, value in scope["headers"]:
        text = value.decode("latin-1")
        if name == b"grpc-timeout":
            deadline = asyncio.get_running_loop().time() + _seconds(text)
        elif name not in _HTTP_ONLY and not name.startswith(b"grpc-"):
            metadata.append(_metadatum(name.decode("latin-1").lower(), text))
    return RestRpc(metadata=tuple(metadata), peer=_peer(scope.get("client")), deadline=deadline)


def _metadatum(key: str, text: str) -> Metadatum:
    if not key.endswith("-bin"):
        return Metadatum(key, text)
    try:
        return Metadatum(key, base64.b64decode(text + "=" * (-len(text) % 4), validate=True))
    except (binascii.Error, ValueError):
        raise refuse(Reason.INVALID_VALUE, f"Header {key} must be base64.", header=key) from None


def _seconds(text: str) -> float:
    found = _TIMEOUT.fullmatch(text)
    if found is None:
        problem = "Header grpc-timeout takes up to eight digits and one unit of H, M, S, m, u, n, such as 500m."
        raise refuse(Reason.INVALID_VALUE, problem, header="grpc-timeout")
    return int(found[1]) * _UNIT_SECONDS[found[2]]


def _peer(client: tuple[str, int] | None) -> str:
    """Write an address as gRPC does.

    >>> _peer(("::1", 80))
    'ipv6:[::1]:80'
    """
    if client is None:
        return "unknown:"
    host, port = client
    return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"
