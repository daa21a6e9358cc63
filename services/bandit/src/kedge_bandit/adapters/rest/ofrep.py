"""Serve the kill switch by the OpenFeature Remote Evaluation Protocol, so that stock OpenFeature SDKs read it.

Version 0.3 of the protocol's OpenAPI document; its parts for event streams are optional and not served. The key is that
of REST, as bearer token or in X-API-Key, and names the tenant.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import orjson
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode, OpenFeatureError
from openfeature.provider import FeatureProvider
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from kedge_bandit.adapters.grpc.credentials import Keyring
from kedge_bandit.domain.errors import KedgeError, Unauthenticated
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.principal import Permission, Principal

PATH: Final = "/ofrep/v1/evaluate/flags"
MAX_BODY_BYTES: Final = 1 << 16
TENANT: Final = "tenant"
"""Attribute of the evaluation context that names the tenant."""


class _Refused(Exception):
    def __init__(self, status: int, code: ErrorCode, details: str) -> None:
        super().__init__(details)
        self.status, self.code, self.details = status, code, details


@dataclass(frozen=True, slots=True)
class Ofrep:
    """Answer flag evaluations.

    Attributes:
        provider: answers a flag, with the tenant as targeting key.
        flags: names the flags of a tenant.
    """

    keyring: Keyring
    provider: FeatureProvider
    flags: Callable[[TenantId], Iterable[str]]

    def routes(self) -> Sequence[BaseRoute]:
        """Give the routes to add to an application."""
        return (
            Route(PATH, self.evaluate_all, methods=["POST"]),
            Route(PATH + "/{key}", self.evaluate, methods=["POST"]),
        )

    async def evaluate(self, request: Request) -> Response:
        """Answer one flag."""
        key: str = request.path_params["key"]
        try:
            return _json(200, self._flag(key, await self._tenant(request)))
        except _Refused as refused:
            return _failure(refused, key)

    async def evaluate_all(self, request: Request) -> Response:
        """Answer every flag of the tenant; 304 where the caller's ETag still holds."""
        try:
            tenant = await self._tenant(request)
            flags = [self._flag(key, tenant) for key in sorted(self.flags(tenant))]
        except _Refused as refused:
            return _failure(refused)
        answer = _json(200, {"flags": flags})
        tag = f'"{hashlib.sha256(answer.body).hexdigest()[:32]}"'
        if tag in {known.strip().removeprefix("W/") for known in request.headers.get("if-none-match", "").split(",")}:
            answer = Response(status_code=304)
        answer.headers["etag"] = tag
        return answer

    def _flag(self, key: str, tenant: TenantId) -> dict[str, object]:
        try:
            found = self.provider.resolve_boolean_details(key, False, EvaluationContext(tenant))
        except OpenFeatureError as error:
            status = 404 if error.error_code is ErrorCode.FLAG_NOT_FOUND else 400
            raise _Refused(status, error.error_code, error.error_message or "") from error
        return {
            "key": key,
            "value": found.value,
            "reason": found.reason,
            "variant": found.variant,
            "metadata": found.flag_metadata,
        }

    async def _tenant(self, request: Request) -> TenantId:
        """Admit the caller, and find whose flags are meant: the key says it; an operator's context must.

        The targeting key is the application's own and is not read.
        """
        caller = await self._caller(request)
        named = _context(await _body(request)).get(TENANT)
        if named is not None and not isinstance(named, str):
            raise _Refused(400, ErrorCode.INVALID_CONTEXT, "attribute `tenant` is not text")
        tenant = caller.tenant if named is None else TenantId(named)
        if tenant is None:
            raise _Refused(400, ErrorCode.INVALID_CONTEXT, "this key is bound to no tenant: name one, as `tenant`")
        try:
            caller.check(Permission.READ_FLAGS, tenant)
        except KedgeError as error:
            raise _Refused(403, ErrorCode.GENERAL, str(error)) from error
        return tenant

    async def _caller(self, request: Request) -> Principal:
        bearer, key = request.headers.get("authorization"), request.headers.get("x-api-key")
        authorization = bearer if bearer is not None or key is None else f"Bearer {key}"
        try:
            return await self.keyring.newest_holder(authorization)
        except Unauthenticated as error:
            raise _Refused(401, ErrorCode.GENERAL, str(error)) from error


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise _Refused(413, ErrorCode.INVALID_CONTEXT, f"the body is over {MAX_BODY_BYTES} bytes")
    return bytes(body)


def _context(body: bytes) -> dict[str, object]:
    """Read the evaluation context; an empty body has none."""
    try:
        read = orjson.loads(body) if body.strip() else {}
    except orjson.JSONDecodeError as error:
        raise _Refused(400, ErrorCode.PARSE_ERROR, f"the body is not JSON: {error}") from error
    if not isinstance(read, dict):
        raise _Refused(400, ErrorCode.PARSE_ERROR, "the body is not a JSON object")
    context = {} if read.get("context") is None else read["context"]
    if not isinstance(context, dict):
        raise _Refused(400, ErrorCode.INVALID_CONTEXT, "the context is not a JSON object")
    return context


def _failure(refused: _Refused, key: str | None = None) -> Response:
    about = {} if key is None else {"key": key}
    return _json(refused.status, {**about, "errorCode": refused.code, "errorDetails": refused.details})


def _json(status: int, content: object) -> Response:
    return Response(orjson.dumps(content), status_code=status, media_type="application/json")
