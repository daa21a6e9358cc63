"""Run in the load's own process: decide on all replicas at once, and note when each reply came and in which mode."""

import random
import select
import time
import uuid
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kedge.bandit.v1 import decision_pb2
from kedge.bandit.v1 import decision_service_pb2 as pb
from tests.bench.decide_load import DECIDE, SUM_TOLERANCE, TASKS
from tests.bench.http2_load import Answer, Connection, Headers

CONNECTIONS = 2
"""To each replica."""
IN_FLIGHT = 2
"""On each connection of a closed loop."""
LOOK_SECONDS = 0.05
LAST_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchJob:
    """One load.

    Attributes:
        until: the load ends when this file is there.
        rate: requests per second over all replicas; None: a closed loop.
    """

    addresses: list[tuple[str, int]]
    key: str
    policy: str
    seed: int
    until: Path
    rate: float | None = None


@dataclass(slots=True)
class Replies:
    """What came back, in order of arrival; times are this machine's monotonic clock, the same in every process.

    Attributes:
        seconds: from when a request was due until its reply.
        reason: DecisionReason of each reply.
        wrong: sentences about replies that must not be.
    """

    at: "array[float]" = field(default_factory=lambda: array("d"))
    seconds: "array[float]" = field(default_factory=lambda: array("d"))
    replica: "array[int]" = field(default_factory=lambda: array("b"))
    reason: "array[int]" = field(default_factory=lambda: array("b"))
    decision_ids: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    sent: int = 0
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0

    def note(self, replica: int, answer: Answer) -> None:
        """Take in one reply."""
        if b"grpc-status\x010" not in answer.trailers:
            self.wrong.append(f"status not OK: {answer.trailers!r}")
            return
        reply = pb.DecideResponse.FromString(bytes(answer.data[5:]))
        if abs(sum(share.propensity for share in reply.distribution) - 1.0) > SUM_TOLERANCE:
            self.wrong.append(f"P does not sum to 1: {reply.distribution}")
        self.at.append(answer.sent + answer.seconds)
        self.seconds.append(answer.seconds)
        self.replica.append(replica)
        self.reason.append(reply.reason)
        self.decision_ids.append(reply.decision.rpartition("/")[2])


@dataclass(slots=True)
class _Load:
    job: SwitchJob
    replies: Replies = field(default_factory=Replies)
    looked: float = 0.0
    bodies: Iterator[bytes] = field(init=False)
    places: dict[Connection, int] = field(init=False)

    def __post_init__(self) -> None:
        headers = Headers(DECIDE, {"authorization": f"Bearer {self.job.key}"})
        self.bodies = _requests(self.job.policy, self.job.seed)
        self.places = {
            Connection(address, headers): place
            for _ in range(CONNECTIONS)
            for place, address in enumerate(self.job.addresses)
        }

    def closed(self) -> None:
        for connection in self.places:
            for _ in range(IN_FLIGHT):
                self.send(connection, time.perf_counter())
        while not self.is_over():
            for connection in self.receive(LOOK_SECONDS):
                self.send(connection, time.perf_counter())
        self.drain()

    def paced(self, rate: float) -> None:
        connections = list(self.places)
        began = time.perf_counter()
        while not self.is_over():
            due = began + self.replies.sent / rate
            wait = due - time.perf_counter()
            if wait <= 0.0:
                self.send(connections[self.replies.sent % len(connections)], due)
            else:
                self.receive(min(wait, LOOK_SECONDS))
        self.drain()

    def is_over(self) -> bool:
        """Look for the file, now and then."""
        now = time.perf_counter()
        if now - self.looked < LOOK_SECONDS:
            return False
        self.looked = now
        return self.job.until.exists()

    def send(self, connection: Connection, due: float) -> None:
        connection.put(next(self.bodies), due)
        connection.flush()
        self.replies.sent += 1

    def receive(self, seconds: float) -> list[Connection]:
        """Read what comes in so many seconds; gives the connection of each reply."""
        came: list[Connection] = []
        for connection in select.select(list(self.places), (), (), seconds)[0]:
            for answer in connection.receive():
                self.replies.note(self.places[connection], answer)
                came.append(connection)
            connection.flush()
        return came

    def drain(self) -> None:
        deadline = time.perf_counter() + LAST_SECONDS
        while len(self.replies.at) + len(self.replies.wrong) < self.replies.sent and time.perf_counter() < deadline:
            self.receive(LOOK_SECONDS)
        for connection in self.places:
            connection.close()


def run_switch_load(job: SwitchJob) -> Replies:
    """Send until the file is there."""
    load = _Load(job)
    began, cpu_began = time.perf_counter(), time.process_time()
    if job.rate is None:
        load.closed()
    else:
        load.paced(job.rate)
    load.replies.wall_seconds = time.perf_counter() - began
    load.replies.cpu_seconds = time.process_time() - cpu_began
    return load.replies


def _requests(policy: str, seed: int) -> Iterator[bytes]:
    """Make requests for ever, each of a new episode."""
    rng = random.Random(seed)
    while True:
        episode = str(uuid.UUID(int=rng.getrandbits(128)))
        context = decision_pb2.Context(
            categories={"task": rng.choice(TASKS)}, numbers={"words": float(rng.randrange(1, 900))}
        )
        yield pb.DecideRequest(
            policy=policy, request_id=episode, episode_id=episode, context=context
        ).SerializeToString()
