"""Talk to a briefing server by the OpenEnv protocol, with the types of this environment and without OpenEnv."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from websockets.sync.client import ClientConnection, connect

from brief_routing_env.models import BriefAction, BriefObservation, BriefState


@contextmanager
def connected(url: str) -> Iterator["BriefClient"]:
    """Hold a session with the server at an http(s) address; leaving the block ends it."""
    with connect(url.replace("http", "ws", 1).rstrip("/") + "/ws") as socket:
        yield BriefClient(socket)


class BriefClient:
    """One session over a socket that `connected` holds open."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    def reset(self, task: str, seed: int) -> BriefObservation:
        """Begin an episode."""
        return self._observation(self._ask("reset", {"task": task, "seed": seed}))

    def step(self, action: BriefAction) -> BriefObservation:
        """Play an action."""
        return self._observation(self._ask("step", action.model_dump(exclude={"metadata"})))

    def state(self) -> BriefState:
        """Ask where the session stands."""
        return BriefState.model_validate(self._ask("state", None))

    def _observation(self, data: dict[str, Any]) -> BriefObservation:
        return BriefObservation.model_validate(
            data["observation"] | {"reward": data.get("reward"), "done": data.get("done", False)}
        )

    def _ask(self, kind: str, data: dict[str, Any] | None) -> dict[str, Any]:
        self._socket.send(json.dumps({"type": kind} | ({"data": data} if data is not None else {})))
        answer: dict[str, Any] = json.loads(self._socket.recv())
        if answer["type"] == "error":
            raise RuntimeError(answer["data"]["message"])
        payload: dict[str, Any] = answer["data"]
        return payload
