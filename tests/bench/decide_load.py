"""Run in the load's own process: make requests of new episodes, send them, check every answer."""

import os
import random
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from kedge.bandit.v1 import decision_pb2
from kedge.bandit.v1 import decision_service_pb2 as pb
from tests.bench.decide_server import SERVICE
from tests.bench.http2_load import Headers, Measured, closed_loop, fixed_rate

DECIDE, ECHO = "/kedge.bandit.v1.DecisionService/Decide", f"/{SERVICE}/Echo"
TASKS = ("math", "code", "chat", "extraction")
SUM_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One load.

    Attributes:
        shape: (connections, in flight on each) of a closed loop.
        rate: requests per second instead, over the same number of connections.
    """

    address: tuple[str, int]
    path: str
    key: str
    policy: str
    requests: int
    seed: int
    core: int
    shape: tuple[int, int] = (8, 8)
    rate: float | None = None


@dataclass(slots=True)
class Load:
    """A load's figures, and of Decide what its answers said.

    Attributes:
        decision_ids: of acknowledged decisions.
        wrong: sentences about answers that must not be; empty for a sound run.
    """

    requests: int
    seconds: float
    client_cpu_seconds: float
    latencies: list[float]
    decision_ids: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def run_job(job: Job) -> Load:
    """Send the job's requests from this process, pinned to its core."""
    os.sched_setaffinity(0, {job.core})
    bodies = requests_of_new_episodes(job.policy, job.requests, job.seed)
    headers = Headers(job.path, {"authorization": f"Bearer {job.key}"})
    if job.rate is None:
        measured = closed_loop(job.address, headers, bodies, shape=job.shape)
    else:
        measured = fixed_rate(job.address, headers, bodies, rate=job.rate, connections=job.shape[0])
    load = Load(len(bodies), measured.seconds, measured.cpu_seconds, measured.latencies)
    load.wrong = [f"status not OK: {trailers!r}" for trailers in measured.failures[:3]]
    if job.path == DECIDE:
        _check(measured, load)
    return load


def requests_of_new_episodes(policy: str, count: int, seed: int) -> Sequence[bytes]:
    """Make Decide requests, each with an episode of its own and features drawn at random."""
    rng = random.Random(seed)
    return [
        pb.DecideRequest(
            policy=policy,
            request_id=str(uuid.UUID(int=rng.getrandbits(128))),
            episode_id=str(uuid.UUID(int=rng.getrandbits(128))),
            context=decision_pb2.Context(
                categories={"task": rng.choice(TASKS)}, numbers={"words": float(rng.randrange(1, 900))}
            ),
        ).SerializeToString()
        for _ in range(count)
    ]


def _check(measured: Measured, load: Load) -> None:
    for raw in measured.answers:
        answer = pb.DecideResponse.FromString(raw)
        load.decision_ids.append(answer.decision.rpartition("/")[2])
        vector = {share.action_key: share.propensity for share in answer.distribution}
        if abs(sum(vector.values()) - 1.0) > SUM_TOLERANCE:
            load.wrong.append(f"P sums to {sum(vector.values())!r}")
        if vector.get(answer.action_key) != answer.propensity:
            load.wrong.append("the propensity is not the chosen action's share")
        if answer.reason != decision_pb2.DECISION_REASON_DRAWN or answer.reused:
            load.wrong.append(f"not a new draw: reason {answer.reason}, reused {answer.reused}")
