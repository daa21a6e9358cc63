"""The OpenEnv protocol, as much of it as a player needs: `/ws` for sessions, the rest over HTTP. No OpenEnv here."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from kedge_trainer.application.ports import Json
from kedge_trainer.domain.errors import ServerRefused

WAIT = 30.0
"""Seconds for one answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTurn:
    """What a step gave back over the wire."""

    reward: float
    signals: Mapping[str, float]
    terminated: bool
    truncated: bool
    grade: float | None
    veto: str | None


@dataclass(slots=True)
class RemoteEpisode:
    """One episode of a session."""

    _session: "Session"
    _observation: Json
    _metrics: Mapping[str, float] = field(default_factory=dict)

    def observe(self) -> Json:
        """Show the last observation."""
        return self._observation

    def step(self, action: Json) -> RemoteTurn:
        """Play an action.

        Raises:
            ServerRefused: the server answered with an error, or not at all.
        """
        answer = self._session.ask("step", action)
        self._observation = _shown(answer)
        told = answer.get("metadata") or {}
        self._metrics = told.get("metrics", self._metrics)
        return RemoteTurn(
            reward=float(answer.get("reward") or 0.0),
            signals=told.get("signals", {}),
            terminated=bool(told.get("terminated", answer.get("done"))),
            truncated=bool(told.get("truncated")),
            grade=told.get("grade"),
            veto=told.get("veto"),
        )

    def metrics(self) -> Mapping[str, float]:
        """Give what the server measured; it does so at the end."""
        return self._metrics


class Session:
    """A WebSocket to a server: one environment, one episode after the other."""

    def __init__(self, url: str, socket: ClientConnection) -> None:
        self._url = url
        self._socket = socket

    def start(self, task: str, seed: int, **switched: object) -> RemoteEpisode:
        """Begin an episode; `switched` is what the environment's reset takes besides.

        Raises:
            ServerRefused: the server plays no such task or seed.
        """
        return RemoteEpisode(self, _shown(self.ask("reset", {"task": task, "seed": seed} | switched)))

    def state(self) -> Json:
        """Ask where the session stands."""
        return self.ask("state", None)

    def ask(self, kind: str, data: Json | None) -> dict[str, Any]:
        """Send one message and wait for its answer.

        Raises:
            ServerRefused: the server answered with an error, or not at all.
        """
        message = {"type": kind} if data is None else {"type": kind, "data": dict(data)}
        return self.send(json.dumps(message))

    def send(self, text: str) -> dict[str, Any]:
        """Send a frame as it is.

        Raises:
            ServerRefused: the server answered with an error, or not at all.
        """
        try:
            self._socket.send(text)
            answer = json.loads(self._socket.recv(WAIT))
        except (OSError, WebSocketException, ValueError) as failure:
            raise ServerRefused(self._url, str(failure) or type(failure).__name__) from failure
        if answer.get("type") == "error":
            raise ServerRefused(self._url, f"{answer['data'].get('code')}: {answer['data'].get('message')}")
        found: dict[str, Any] = answer.get("data") or {}
        return found


@contextmanager
def session(url: str) -> Iterator[Session]:
    """Open a session with a server at an http(s) address.

    Raises:
        ServerRefused: nothing answers there.
    """
    address = url.replace("http", "ws", 1).rstrip("/") + "/ws"
    try:
        socket = connect(address, open_timeout=WAIT, max_size=None)
    except (OSError, WebSocketException, ValueError) as failure:
        raise ServerRefused(url, str(failure)) from failure
    with socket:
        yield Session(url, socket)


def get(url: str, path: str) -> object:
    """Read one of a server's pages: /health, /metadata, /schema, /state, /tasks.

    Raises:
        ServerRefused: it answered with an error, or not at all.
    """
    return _over_http("GET", url, path, None)


def post(url: str, path: str, body: Json) -> object:
    """Call /reset or /step without a session.

    Raises:
        ServerRefused: it answered with an error, or not at all.
    """
    return _over_http("POST", url, path, body)


def _over_http(method: str, url: str, path: str, body: Json | None) -> object:
    try:
        answer = httpx.request(method, url.rstrip("/") + path, json=body, timeout=WAIT)
        answer.raise_for_status()
        found: object = answer.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as failure:
        raise ServerRefused(url + path, str(failure)) from failure
    return found


def _shown(answer: Mapping[str, Any]) -> Json:
    """Take the observation out of its envelope: what a player sees has no reward and no grade."""
    return {name: value for name, value in answer["observation"].items() if name != "metadata"}
