"""Turn errors into gRPC status: the only place that knows both an error's reason and a code.

Every refusal is a google.rpc.Status with one ErrorInfo: the reason, the domain "kedge.dev", and the error's facts.
"""

import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from functools import wraps
from typing import Any, Final, Never, TypeAlias, TypeVar, cast, overload

import grpc
from google.protobuf import any_pb2
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode, aio

from kedge_bandit.adapters.identity.proof import MayBeNew
from kedge_bandit.adapters.telemetry import Telemetry
from kedge_bandit.domain.errors import InvalidValue, KedgeError

ERROR_DOMAIN: Final = "kedge.dev"
STATUS_DETAILS_KEY: Final = "grpc-status-details-bin"

# gRPC carries trailing metadata in at most 8 KiB; a fact is there to be matched on, not to be read.
_MAX_FACT_CHARACTERS: Final = 256
_MAX_MESSAGE_CHARACTERS: Final = 1000

_REASONS: Final[dict[StatusCode, str]] = {
    StatusCode.INVALID_ARGUMENT: """
        INVALID_VALUE INVALID_NAME UNDECLARED_FEATURE CONTEXT_TOO_LARGE UNKNOWN_DIMENSION INVALID_POLICY
        INVALID_REWARD_SPEC INVALID_EXPLORATION UNKNOWN_ACTION INVALID_OUTCOME INVALID_TRAJECTORY INVALID_TOKEN
        TIME_OUT_OF_RANGE BATCH_TOO_LARGE REASON_REQUIRED""",
    StatusCode.UNAUTHENTICATED: "UNAUTHENTICATED",
    StatusCode.PERMISSION_DENIED: "TENANT_DENIED PERMISSION_DENIED SECOND_PERSON_REQUIRED",
    StatusCode.NOT_FOUND: """
        POLICY_NOT_FOUND DECISION_NOT_FOUND EPISODE_NOT_FOUND ARM_NOT_FOUND CREDENTIAL_NOT_FOUND
        PROPOSAL_NOT_FOUND INCIDENT_NOT_FOUND WEBHOOK_NOT_FOUND EXPERIMENT_NOT_FOUND""",
    StatusCode.ALREADY_EXISTS: "TENANT_EXISTS IDEMPOTENCY_CONFLICT EXPERIMENT_EXISTS",
    StatusCode.FAILED_PRECONDITION: """
        ILLEGAL_TRANSITION POLICY_FROZEN INCIDENT_OPEN ARM_IN_USE PROPOSAL_REQUIRED RECENTLY_REVERTED""",
    StatusCode.ABORTED: "VERSION_MISMATCH",
    StatusCode.RESOURCE_EXHAUSTED: "QUEUE_FULL QUOTA_EXHAUSTED",
    StatusCode.UNAVAILABLE: "STORE_UNAVAILABLE",
    StatusCode.INTERNAL: "INTERNAL NUMERICAL_FAILURE",
    StatusCode.UNIMPLEMENTED: "UNIMPLEMENTED",
}
CODES: Final[dict[str, StatusCode]] = {reason: code for code, reasons in _REASONS.items() for reason in reasons.split()}
"""Code of every reason in error_reason.proto; a test demands that none is missing."""

INTERNAL_MESSAGE: Final = "the server failed on this request: send it again with the same request_id, and report it"

_log = logging.getLogger(__name__)

Context: TypeAlias = aio.ServicerContext[Any, Any]
_Servicer = TypeVar("_Servicer")
_Request = TypeVar("_Request")
_Response = TypeVar("_Response")


@overload
def answering(
    handler: Callable[[_Servicer, _Request, Context], Coroutine[Any, Any, _Response]],
) -> Callable[[_Servicer, _Request, Context], Coroutine[Any, Any, _Response]]: ...
@overload
def answering(
    handler: Callable[[_Servicer, _Request, Context], AsyncIterator[_Response]],
) -> Callable[[_Servicer, _Request, Context], AsyncIterator[_Response]]: ...
def answering(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Let a servicer's method raise domain errors; on the way without one it costs a try.

    Args:
        handler: an async method for a unary answer, an async generator for a stream.
    """
    if inspect.isasyncgenfunction(handler):
        return _streaming(handler)

    @wraps(handler)
    async def answer(servicer: object, request: object, context: Context) -> object:
        try:
            given = _readable(request)
            try:
                return await handler(servicer, given, context)
            except MayBeNew as error:
                if not await _may_try_again(error, given):
                    raise
                return await handler(servicer, given, context)
        except aio.AbortError:
            raise
        except Exception as error:  # noqa: BLE001 - the boundary: every failure becomes one answer
            refused = _refused(servicer, error)
        del request
        return await _refuse(context, *refused)

    return answer


def reader(kind: type[Message]) -> Callable[[bytes], Message | InvalidValue]:
    """Make a deserializer that never raises: for bytes that are no such message it gives the refusal in their place.

    gRPC would answer UNKNOWN and write a stack trace for every one; `answering` refuses it as any bad value.
    """
    parse = kind.FromString

    def read(data: bytes) -> Message | InvalidValue:
        try:
            return parse(data)
        except DecodeError:
            return InvalidValue("the message", "none that can be read", f"a {kind.DESCRIPTOR.name}, its text in UTF-8")

    return read


def _readable(request: object) -> object:
    """Raise InvalidValue in the place of a request, or of one in a stream, that could not be read."""
    if isinstance(request, InvalidValue):
        raise request
    return _Readable(request) if isinstance(request, AsyncIterator) else request


class _Readable(AsyncIterator[object]):
    """Requests of a stream; knows whether one was taken."""

    def __init__(self, requests: AsyncIterator[object]) -> None:
        self._requests, self.is_untouched = requests, True

    async def __anext__(self) -> object:
        self.is_untouched = False
        request = await anext(self._requests)
        if isinstance(request, InvalidValue):
            raise request
        return request


async def _may_try_again(error: MayBeNew, given: object) -> bool:
    """Look whether a caller is known by now; a stream of which a request was taken cannot be handled again."""
    is_whole = not isinstance(given, _Readable) or given.is_untouched
    return is_whole and await error.may_try_again()


def _count(servicer: object, error: Exception) -> None:
    """Count a refusal where the servicer has a telemetry."""
    telemetry = getattr(servicer, "telemetry", None)
    if isinstance(telemetry, Telemetry):
        telemetry.refused(error.reason if isinstance(error, KedgeError) else "INTERNAL")


def _streaming(handler: Callable[..., AsyncGenerator[object, None]]) -> Callable[..., Any]:
    @wraps(handler)
    async def answer(servicer: object, request: object, context: Context) -> AsyncIterator[object]:
        has_begun = False
        try:
            given = _readable(request)
            try:
                async with aclosing(handler(servicer, given, context)) as responses:
                    async for response in responses:
                        has_begun = True
                        yield response
            except MayBeNew as error:
                if has_begun or not await _may_try_again(error, given):
                    raise
                async with aclosing(handler(servicer, given, context)) as responses:
                    async for response in responses:
                        yield response
        except aio.AbortError:
            raise
        except aio.InternalError:
            return  # the caller has gone; there is nobody to answer
        except Exception as error:  # noqa: BLE001 - the boundary: every failure becomes one answer
            refused = _refused(servicer, error)
        else:
            return
        del request
        await _refuse(context, *refused)

    return answer


def _refused(servicer: object, error: Exception) -> tuple[StatusCode, status_pb2.Status]:
    """Count an error, and build its status; what is no domain error is logged and says nothing of itself."""
    _count(servicer, error)
    if not isinstance(error, KedgeError):
        _log.error("rpc.failed", exc_info=error)
    return status_of(error)


async def _refuse(context: Context, code: StatusCode, status: status_pb2.Status) -> Never:
    """End the call.

    gRPC keeps what abort raises with the call, in a cycle that the collector may never be shown (server.py spares it
    what lives long). So this is called outside of the handler of the error, whose frames hold the request: else a
    message would be kept for ever with every refusal.
    """
    details = ((STATUS_DETAILS_KEY, status.SerializeToString()),)
    await context.abort(code, status.message, trailing_metadata=details)


def status_of(error: Exception) -> tuple[StatusCode, status_pb2.Status]:
    """Build the code and the google.rpc.Status of an error.

    >>> from kedge_bandit.domain.errors import PolicyNotFound
    >>> code, status = status_of(PolicyNotFound("support"))
    >>> code.name, status.message
    ('NOT_FOUND', "policy 'support' does not exist in this tenant: apply it first.")
    """
    if not isinstance(error, KedgeError):
        return status_for("INTERNAL", INTERNAL_MESSAGE)
    message = str(error) or (type(error).__doc__ or "").splitlines()[0]
    return status_for(error.reason, message, facts=_facts(error), retry_seconds=getattr(error, "retry_seconds", None))


def status_for(
    reason: str, message: str, *, facts: dict[str, str] | None = None, retry_seconds: float | None = None
) -> tuple[StatusCode, status_pb2.Status]:
    """Build the code and the google.rpc.Status of a reason.

    Args:
        reason: of error_reason.proto, without its prefix.
        message: a sentence that says what to do.
        facts: metadata of the ErrorInfo.
        retry_seconds: when the same request may be sent again, as a RetryInfo.
    """
    code = CODES[reason]
    status = status_pb2.Status(code=_number(code), message=message[:_MAX_MESSAGE_CHARACTERS])
    info = error_details_pb2.ErrorInfo(reason=reason, domain=ERROR_DOMAIN, metadata=facts or {})
    status.details.append(_packed(info))
    if retry_seconds is not None:
        delay = Duration()
        delay.FromMicroseconds(round(retry_seconds * 1e6))
        status.details.append(_packed(error_details_pb2.RetryInfo(retry_delay=delay)))
    return code, status


def reason_of(error: grpc.RpcError) -> str:
    """Read the reason of a refused call, as a client sees it; the code's name when it carries none."""
    call = cast("grpc.Call", error)
    for key, value in call.trailing_metadata() or ():
        if key == STATUS_DETAILS_KEY and isinstance(value, bytes):
            info = error_details_pb2.ErrorInfo()
            for detail in status_pb2.Status.FromString(value).details:
                if detail.Unpack(info):
                    return info.reason
    return call.code().name


def _facts(error: KedgeError) -> dict[str, str]:
    public = ((name, value) for name, value in vars(error).items() if not name.startswith("_"))
    return {name: str(value)[:_MAX_FACT_CHARACTERS] for name, value in public}


def _packed(message: Message) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed


def _number(code: StatusCode) -> int:
    number: int = code.value[0]
    return number
