"""Keep a session alive whatever is sent: what is no JSON object becomes a message that OpenEnv answers with an error.

OpenEnv 0.10 answers text that is no JSON, but ends the session on JSON that is no object, and on nesting too deep to
read. Neither reaches it from here.
"""

import json

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
