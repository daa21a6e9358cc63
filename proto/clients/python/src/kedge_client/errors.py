"""Name what can go wrong in a call.

    KedgeClientError
    ├── CallFailed          the server or the network gave no answer, or refused
    ├── QuestionRefused     a local decision was asked for what the server would refuse
    └── ArmContentMismatch  the content that came is not the content that was asked for

A mistake of the calling code (a wrong type, an empty id) is a plain ValueError.
"""

from collections.abc import Iterable
from typing import Final

import grpc.aio
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

_DETAILS_KEY: Final = "grpc-status-details-bin"
_NANOS: Final = 1e-9
CLIENT_CLOSED: Final = "CLIENT_CLOSED"
"""Reason of a call that was made, or was still waiting, when the client was closed."""

_REQUEST_AT_FAULT: Final = frozenset(
    {
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "UNAUTHENTICATED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
    }
)


class KedgeClientError(Exception):
    """Be the root of every error that this client raises."""


class CallFailed(KedgeClientError):
    """Say that a call had no usable answer.

    Attributes:
        code: name of the gRPC status code, e.g. `UNAVAILABLE`.
        reason: the server's ErrorReason without its prefix; empty where it gave none.
        detail: the server's sentence that says what to do.
        retry_after_s: seconds the server asked to wait; None where it did not.
    """

    def __init__(self, *, code: str, reason: str = "", detail: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(": ".join(part for part in (code, reason, detail) if part))
        self.code = code
        self.reason = reason
        self.detail = detail
        self.retry_after_s = retry_after_s

    @property
    def summary(self) -> str:
        """Name the failure in one word for counters: the reason where there is one, else the code."""
        return self.reason or self.code

    @property
    def is_transient(self) -> bool:
        """Say whether the same request may pass later; False where the request itself was refused."""
        return self.code not in _REQUEST_AT_FAULT and self.reason != CLIENT_CLOSED


class QuestionRefused(KedgeClientError):
    """Say that the server would refuse to decide this, so that the local answer is the same as to its refusal.

    Attributes:
        reason: the server's ErrorReason without its prefix.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ArmContentMismatch(KedgeClientError):
    """Refuse arm content whose hash is not the one that was asked for: it is not the approved text."""

    def __init__(self, *, expected_hash: str, actual_hash: str) -> None:
        super().__init__(f"asked for content {expected_hash}, got {actual_hash}. Do not serve it; report the server.")
        self.expected_hash = expected_hash
        self.actual_hash = actual_hash


def call_failed(error: grpc.aio.AioRpcError) -> CallFailed:
    """Read code, ErrorInfo and RetryInfo from what gRPC raised."""
    reason, retry_after_s = "", None
    for detail in _details(error).details:
        info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
        if detail.Unpack(info):
            reason = info.reason.removeprefix("ERROR_REASON_")
        elif detail.Unpack(retry):
            retry_after_s = max(0.0, retry.retry_delay.seconds + retry.retry_delay.nanos * _NANOS)
    return CallFailed(code=error.code().name, reason=reason, detail=error.details() or "", retry_after_s=retry_after_s)


def _details(error: grpc.aio.AioRpcError) -> status_pb2.Status:
    status = status_pb2.Status()
    entries: Iterable[tuple[str, str | bytes]] = error.trailing_metadata() or ()
    for key, value in entries:
        if key == _DETAILS_KEY and isinstance(value, bytes):
            try:
                status.ParseFromString(value)
            except DecodeError:
                # Details are a courtesy; without them the code still says what happened.
                return status_pb2.Status()
    return status
