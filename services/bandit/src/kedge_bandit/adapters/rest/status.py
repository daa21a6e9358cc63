"""Turn gRPC status into HTTP status and google.rpc.Status JSON; the only place that knows both vocabularies."""

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import grpc
import orjson
from google.protobuf import any_pb2, json_format
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2
from starlette.responses import Response

from kedge_bandit.adapters.grpc.status import ERROR_DOMAIN, STATUS_DETAILS_KEY

# google/rpc/code.proto, "HTTP Mapping" of each code.
HTTP_STATUS: Final[dict[grpc.StatusCode, int]] = {
    grpc.StatusCode.OK: 200,
    grpc.StatusCode.CANCELLED: 499,
    grpc.StatusCode.UNKNOWN: 500,
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.ABORTED: 409,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.INTERNAL: 500,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DATA_LOSS: 500,
}


class Reason(StrEnum):
    """Name what the HTTP edge itself refuses; everything else is named by the servicer."""

    MALFORMED_JSON = "MALFORMED_JSON"
    UNKNOWN_FIELD = "UNKNOWN_FIELD"
    INVALID_VALUE = "INVALID_VALUE"
    BODY_TOO_LARGE = "BODY_TOO_LARGE"
    UNSUPPORTED_MEDIA_TYPE = "UNSUPPORTED_MEDIA_TYPE"
    ROUTE_NOT_FOUND = "ROUTE_NOT_FOUND"
    METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED"
    CANCELLED = "CANCELLED"
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    INTERNAL = "INTERNAL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Hold an answer that is not a success, ready to be written as HTTP.

    Attributes:
        http_status: HTTP status, 400 to 599.
        code: the gRPC code that callers of both protocols share.
        message: a sentence that says what to do.
        details: google.rpc details, the ErrorInfo among them.
        headers: extra HTTP headers, such as ``allow``.
    """

    http_status: int
    code: grpc.StatusCode
    message: str
    details: tuple[any_pb2.Any, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()

    def body(self) -> bytes:
        """Write ``{"error": {"code", "status", "message", "details"}}`` as UTF-8 JSON."""
        error = {
            "code": self.http_status,
            "status": self.code.name,
            "message": self.message,
            "details": [_detail_json(detail) for detail in self.details],
        }
        return orjson.dumps({"error": error})

    def response(self) -> Response:
        """Build the HTTP response, with ``retry-after`` and ``www-authenticate`` where they belong."""
        headers = dict(self.headers)
        if self.code is grpc.StatusCode.UNAUTHENTICATED:
            headers["www-authenticate"] = "Bearer"
        if (seconds := _retry_after_seconds(self.details)) is not None:
            headers["retry-after"] = str(seconds)
        return Response(self.body(), self.http_status, headers, media_type="application/json")


class RequestRefused(Exception):
    """Refuse a request at the HTTP edge, before or instead of the servicer.

    Attributes:
        failure: what the caller is told.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def refuse(reason: Reason, message: str, **facts: str) -> RequestRefused:
    """Build the error for a bad request (HTTP 400, INVALID_ARGUMENT).

    Args:
        reason: why, in one word.
        message: what is wrong and what to send instead.
        facts: metadata of the ErrorInfo, such as ``field``.

    >>> refuse(Reason.UNKNOWN_FIELD, "remove it", field="colour").failure.http_status
    400
    """
    return RequestRefused(edge_failure(400, grpc.StatusCode.INVALID_ARGUMENT, reason, message, facts=facts))


def edge_failure(
    http_status: int,
    code: grpc.StatusCode,
    reason: str,
    message: str,
    *,
    facts: Mapping[str, str] | None = None,
    headers: tuple[tuple[str, str], ...] = (),
) -> Failure:
    """Build a failure whose only detail is an ErrorInfo with ``reason`` and ``facts``."""
    return Failure(
        http_status=http_status,
        code=code,
        message=message,
        details=(_error_info(reason, facts or {}),),
        headers=headers,
    )


def internal_failure() -> Failure:
    """Build the answer to a bug: INTERNAL, without a word of the exception."""
    message = "The server failed on this request; the failure is in its log. Retry with the same request_id."
    return edge_failure(500, grpc.StatusCode.INTERNAL, Reason.INTERNAL, message)


def rpc_failure(code: grpc.StatusCode, message: str, trailing_metadata: Iterable[tuple[str, str | bytes]]) -> Failure:
    """Build the HTTP answer for the status that a servicer ended with.

    Args:
        code: the servicer's code, not OK.
        message: its sentence; the rich status' own message is used when it is empty.
        trailing_metadata: where ``grpc-status-details-bin`` carries a google.rpc.Status, if anywhere.

    Returns:
        A failure that always carries an ErrorInfo: the servicer's, or one whose reason is the code's name.
    """
    rich = _rich_status(trailing_metadata)
    details = tuple(rich.details)
    if not any(detail.TypeName() == "google.rpc.ErrorInfo" for detail in details):
        details = (_error_info(code.name, {}), *details)
    return Failure(http_status=HTTP_STATUS[code], code=code, message=message or rich.message, details=details)


def _rich_status(metadata: Iterable[tuple[str, str | bytes]]) -> status_pb2.Status:
    status = status_pb2.Status()
    for key, value in metadata:
        if key == STATUS_DETAILS_KEY and isinstance(value, bytes):
            try:
                status.ParseFromString(value)
            except DecodeError:
                return status_pb2.Status()
    return status


def _error_info(reason: str, facts: Mapping[str, str]) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(error_details_pb2.ErrorInfo(reason=str(reason), domain=ERROR_DOMAIN, metadata=dict(facts)))
    return packed


def _detail_json(detail: any_pb2.Any) -> dict[str, object]:
    try:
        return dict(json_format.MessageToDict(detail))
    except (TypeError, DecodeError):  # a detail whose type this process does not know travels as bytes
        return {"@type": detail.type_url, "value": base64.b64encode(detail.value).decode("ascii")}


def _retry_after_seconds(details: Sequence[any_pb2.Any]) -> int | None:
    retry = error_details_pb2.RetryInfo()
    for detail in details:
        if detail.Unpack(retry):
            return max(0, math.ceil(retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9))
    return None
