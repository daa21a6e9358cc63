"""Answer whatever is sent, and keep a session alive: OpenEnv 0.10 leaves some of it to chance.

It answers text that is no JSON, but ends a session on JSON that is no object, and on nesting too deep to read; neither
reaches it from here. Over plain HTTP a value that the environment refuses would be an error of the server.

Every environment that has this file has it alike, because it installs alone: `tests/envs/test_shared_files.py`.
"""

import json
from collections.abc import Mapping

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

REFUSED = json.dumps({"type": "not a JSON object"})


class ObjectsOnly:
    """Replace what is no JSON object on its way in; answers are not touched."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand everything on, with what comes in over a socket checked."""
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return

        async def checked() -> Message:
            message = await receive()
            if message["type"] == "websocket.receive" and not is_object(message):
                return {"type": "websocket.receive", "text": REFUSED}
            return message

        await self._app(scope, checked, send)


def is_object(message: Message) -> bool:
    """Say whether a frame holds a JSON object as text."""
    try:
        return isinstance(json.loads(message.get("text") or ""), dict)
    except (ValueError, RecursionError):
        return False


def answer_refusals(app: FastAPI) -> None:
    """Answer a request whose values cannot be played with 422 and why."""
    for kind in (ValueError, TypeError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _refusal)


async def _refusal(_: Request, failure: Exception) -> Response:
    """Write a refusal in ASCII and without the value, which may be none that JSON can hold: half a character, NaN."""
    status, detail, headers = 422, str(failure), None
    if isinstance(failure, HTTPException):
        status, detail, headers = failure.status_code, failure.detail, failure.headers
    found = failure.errors() if isinstance(failure, RequestValidationError) else detail
    if isinstance(found, list):
        found = [{"type": one["type"], "loc": one["loc"], "msg": one["msg"]} for one in found]
    return Response(json.dumps({"detail": found}), status, headers, media_type="application/json")


def finite(metrics: Mapping[str, float]) -> dict[str, float]:
    """Leave out what was not measured: JSON has no NaN."""
    return {name: value for name, value in metrics.items() if value == value}
