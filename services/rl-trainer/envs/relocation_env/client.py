"""Talk to a relocation server by the OpenEnv protocol, with the types of this environment and without OpenEnv."""

import json
from types import TracebackType
from typing import Any, Self

from websockets.sync.client import ClientConnection, connect

from relocation_env.models import RelocationAction, RelocationObservation, RelocationState


class RelocationClient:
    """One session; use it as a context manager."""

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

    def reset(self, task: str, seed: int) -> RelocationObservation:
        """Begin an episode."""
        return self._observation(self._ask("reset", {"task": task, "seed": seed}))

    def step(self, action: RelocationAction) -> RelocationObservation:
        """Play an action."""
        return self._observation(self._ask("step", action.model_dump(exclude={"metadata"})))

    def state(self) -> RelocationState:
        """Ask where the session stands."""
        return RelocationState.model_validate(self._ask("state", None))

    def _observation(self, data: dict[str, Any]) -> RelocationObservation:
        return RelocationObservation.model_validate(
            data["observation"] | {"reward": data.get("reward"), "done": data.get("done", False)}
        )

    def _ask(self, kind: str, data: dict[str, Any] | None) -> dict[str, Any]:
        if self._socket is None:
            raise RuntimeError("use the client as a context manager")
        self._socket.send(json.dumps({"type": kind} | ({"data": data} if data is not None else {})))
        answer: dict[str, Any] = json.loads(self._socket.recv())
        if answer["type"] == "error":
            raise RuntimeError(answer["data"]["message"])
        payload: dict[str, Any] = answer["data"]
        return payload
