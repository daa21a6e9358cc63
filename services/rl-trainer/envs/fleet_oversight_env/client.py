"""Talk to a fleet server through OpenEnv's WebSocket protocol, with this environment's types and without OpenEnv."""

import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from websockets.sync.client import ClientConnection, connect

from fleet_oversight_env.models import FleetAction, FleetObservation, FleetState


class FleetClient:
    """One session; use it as a context manager.

    Args:
        url: The server's address, as `http://host:port`.
    """

    def __init__(self, url: str) -> None:
        self._url = url.replace("http", "ws", 1).rstrip("/") + "/ws"
        self._socket: ClientConnection | None = None

    def __enter__(self) -> Self:
        self._socket = connect(self._url)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._socket is not None:
            self._socket.close()

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
        if self._socket is None:
            raise RuntimeError("use the client as a context manager")
        self._socket.send(json.dumps({"type": kind} | ({"data": data} if data is not None else {})))
        answer: dict[str, Any] = json.loads(self._socket.recv())
        if answer["type"] == "error":
            raise RuntimeError(answer["data"]["message"])
        payload: dict[str, Any] = answer["data"]
        return payload
