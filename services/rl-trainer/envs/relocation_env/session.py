"""A session with a server by the OpenEnv protocol, without OpenEnv; `client.py` gives it this environment's types.

Every environment that has this file has it alike, because it installs alone: `tests/envs/test_shared_files.py`.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from pydantic import BaseModel
from websockets.sync.client import ClientConnection, connect

Action = TypeVar("Action", bound=BaseModel)
Observation = TypeVar("Observation", bound=BaseModel)
State = TypeVar("State", bound=BaseModel)


class Session(Generic[Action, Observation, State]):
    """One session over a socket that `opened` holds open."""

    def __init__(
        self, socket: ClientConnection, action: type[Action], observation: type[Observation], state: type[State]
    ) -> None:
        self._socket = socket
        self._models = action, observation, state

    def reset(self, task: str, seed: int) -> Observation:
        """Begin an episode."""
        return self._observation(self._ask("reset", {"task": task, "seed": seed}))

    def step(self, action: Action | Mapping[str, object]) -> Observation:
        """Play an action, or what spells one."""
        spelled = self._models[0].model_validate(action)
        return self._observation(self._ask("step", spelled.model_dump(exclude={"metadata"}, exclude_none=True)))

    def state(self) -> State:
        """Ask where the session stands."""
        return self._models[2].model_validate(self._ask("state", None))

    def _observation(self, data: dict[str, Any]) -> Observation:
        envelope = {"reward": data.get("reward"), "done": data.get("done", False)}
        return self._models[1].model_validate(data["observation"] | envelope)

    def _ask(self, kind: str, data: dict[str, Any] | None) -> dict[str, Any]:
        self._socket.send(json.dumps({"type": kind} | ({"data": data} if data is not None else {})))
        answer: dict[str, Any] = json.loads(self._socket.recv())
        if answer["type"] == "error":
            raise RuntimeError(answer["data"]["message"])
        payload: dict[str, Any] = answer["data"]
        return payload


@contextmanager
def opened(
    url: str, action: type[Action], observation: type[Observation], state: type[State]
) -> Iterator[Session[Action, Observation, State]]:
    """Hold a session with the server at an http(s) address; leaving the block ends it."""
    with connect(url.replace("http", "ws", 1).rstrip("/") + "/ws") as socket:
        yield Session(socket, action, observation, state)
