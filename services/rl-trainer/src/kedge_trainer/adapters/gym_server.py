"""Show recordings over HTTP as JSON: what can be played, and one step of an episode beside the list of its moves."""

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs, urlsplit

from kedge_trainer.adapters import environments
from kedge_trainer.adapters.openenv_client import session
from kedge_trainer.application.gym import SPLIT, Asked, Recording, modes_of, record
from kedge_trainer.application.ports import Json
from kedge_trainer.domain.errors import CannotServe, ServerRefused, TrainerError
from kedge_trainer.domain.splits import RANGES

KEPT: Final = 64
"""Recordings that are remembered: a person steps through the same ones."""

AT_ONCE: Final = 4
"""Episodes that are played at the same time."""

LONGEST_QUERY: Final = 4096


class Gym:
    """Plays on environments' servers, and remembers what was played: the same request gives the same episode."""

    def __init__(self, servers: Mapping[str, str]) -> None:
        self.servers = servers
        self._kept: OrderedDict[tuple[str, Asked], Recording] = OrderedDict()
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(AT_ONCE)

    def offered(self) -> list[Json]:
        """List what can be played."""
        return [offer(name) for name in self.servers]

    def recording(self, environment: str, asked: Asked) -> Recording:
        """Play an episode, or give it from memory.

        Raises:
            TrainerError: it cannot be played, for a reason that says what to do.
        """
        ground, watching = environments.load(environment), environments.watching(environment)
        if environment not in self.servers:
            raise CannotServe(f"no server of {environment} is known here; there are {', '.join(self.servers)}")
        key = (environment, asked)
        with self._lock:
            if found := self._kept.get(key):
                self._kept.move_to_end(key)
                return found
        with self._places, session(self.servers[environment]) as remote:
            made = record(ground, watching, asked, remote.start)
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return made


def offer(name: str) -> Json:
    """Describe an environment to whoever chooses."""
    ground, watching = environments.load(name), environments.watching(name)
    grouped = modes_of(task for task in ground.TASKS if task not in ground.TEST_ONLY)
    return {
        "name": name,
        "version": ground.VERSION,
        "summary": ground.SUMMARY,
        "seeds": len(RANGES[SPLIT]),
        "split": str(SPLIT),
        "tasks": {task: ground.TASKS.get(task, "") for task in grouped},
        "modes": sorted({mode for sets in grouped.values() for modes in sets for mode in modes}),
        "switches": dict(watching.SWITCHES),
        "policies": dict(ground.POLICIES),
        "privileged": sorted(ground.PRIVILEGED),
        "oracle": ground.ORACLE,
    }


def shown(recording: Recording, number: int) -> Json:
    """Show a recording at a step; 0 is the start, and what lies behind the end is the end."""
    at = min(max(number, 0), len(recording.steps))
    return {
        "task": recording.task,
        "seed": recording.seed,
        "at": at,
        "steps": [asdict(step) for step in recording.steps],
        "seen": recording.seen[at],
        "told": recording.told,
        "grade": recording.grade,
        "metrics": {name: value for name, value in recording.metrics.items() if value == value},
        "truncated": recording.truncated,
    }


Answer = Callable[[Gym, Mapping[str, Sequence[str]]], object]


def _environments(gym: Gym, _: Mapping[str, Sequence[str]]) -> object:
    return gym.offered()


def _episode(gym: Gym, query: Mapping[str, Sequence[str]]) -> object:
    def first(name: str, default: str = "") -> str:
        return query.get(name, [default])[0]

    asked = Asked(
        task=first("task"),
        index=_number(first("seed", "0")),
        policy=first("policy"),
        on=frozenset(query.get("on", [])),
    )
    return shown(gym.recording(first("environment"), asked), _number(first("step", "0")))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise CannotServe(f"{text[:20]!r} is no number from 0 up")
    return int(text)


ANSWERS: Final[Mapping[str, Answer]] = {
    "/health": lambda _gym, _query: {"status": "healthy"},
    "/environments": _environments,
    "/episode": _episode,
}


class Handler(BaseHTTPRequestHandler):
    """Answers a GET; whatever it is, the answer is JSON."""

    gym: Gym
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        """Answer."""
        parts = urlsplit(self.path)
        answer = ANSWERS.get(parts.path)
        if answer is None or len(parts.query) > LONGEST_QUERY:
            self._send(HTTPStatus.NOT_FOUND, {"reason": "NOT_FOUND", "detail": f"there are {', '.join(ANSWERS)}"})
            return
        try:
            self._send(HTTPStatus.OK, answer(self.gym, parse_qs(parts.query)))
        except ServerRefused as failure:
            self._send(HTTPStatus.BAD_GATEWAY, {"reason": failure.reason, "detail": str(failure)})
        except TrainerError as failure:
            self._send(HTTPStatus.UNPROCESSABLE_ENTITY, {"reason": failure.reason, "detail": str(failure)})

    def _send(self, status: HTTPStatus, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing: requests are a person's clicks."""


def listening(gym: Gym, host: str, port: int) -> ThreadingHTTPServer:
    """Listen; the caller serves, and closes.

    Raises:
        CannotServe: the address is taken, or none of this machine's.
    """
    handler = type("GymHandler", (Handler,), {"gym": gym})
    try:
        server = ThreadingHTTPServer((host, port), handler)
    except (OSError, OverflowError) as failure:
        raise CannotServe(f"{host}:{port} cannot be listened at: {failure}; choose another with --port") from failure
    server.daemon_threads = True
    return server
