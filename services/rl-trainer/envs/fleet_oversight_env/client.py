"""Talk to a fleet server through OpenEnv's WebSocket protocol, with this environment's types and without OpenEnv."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from websockets.sync.client import ClientConnection, connect

from fleet_oversight_env.models import FleetAction, FleetObservation, FleetState


@contextmanager
def connected(url: str) -> Iterator["FleetClient"]:
    """Open one session with the server at `url`, as `http://host:port`, and close it at the end of the block."""
    with connect(url.replace("http", "ws", 1).rstrip("/") + "/ws") as socket:
        yield FleetClient(socket)


class FleetClient:
    """One session over an open connection; `connected` makes one."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    def reset(self, task: str, seed: int) -> FleetObservation:
        """Begin an episode."""
        return self._observation(self._ask("reset", {"task": task, "seed": seed}))

    def step(self, action: Mapping[str, Any]) -> FleetObservation:
        """Play an action, as `actions.spell` spells them."""
        spelled = FleetAction.model_validate(action)
        return self._observation(self._ask("step", spelled.model_dump(exclude={"metadata"}, exclude_none=True)))

    def state(self) -> FleetState:
        """Ask where the session stands."""
        return FleetState.model_validate(self._ask("state", None))

    def _observation(self, data: dict[str, Any]) -> FleetObservation:
        envelope = {"reward": data.get("reward"), "done": data.get("done", False)}
        return FleetObservation.model_validate(data["observation"] | envelope)

    def _ask(self, kind: str, data: dict[str, Any] | None) -> dict[str, Any]:
        self._socket.send(json.dumps({"type": kind} | ({"data": data} if data is not None else {})))
        answer: dict[str, Any] = json.loads(self._socket.recv())
        if answer["type"] == "error":
            raise RuntimeError(answer["data"]["message"])
        payload: dict[str, Any] = answer["data"]
        return payload
