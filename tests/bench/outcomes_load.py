"""Run in the load's own process: get decision tokens, send outcomes that carry them, check every answer."""

import os
import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from google.protobuf.timestamp_pb2 import Timestamp

from kedge.bandit.v1 import decision_pb2, outcome_pb2
from kedge.bandit.v1 import decision_service_pb2 as decide_pb
from kedge.bandit.v1 import feedback_service_pb2 as pb
from tests.bench.decide_load import DECIDE, ECHO
from tests.bench.http2_load import Headers, closed_loop, percentile
from tests.bench.outcomes_server import SERVICE
from tests.bench.tenants_place import TASKS, policy_of, tenant_of

GROUP, INSERT = "/kedge.bandit.v1.FeedbackService/RecordOutcomes", f"/{SERVICE}/RecordOutcomes"
CONNECTIONS = 8
OUTCOMES_OF_AN_EPISODE = 3
_SIGNALS = (outcome_pb2.SIGNAL_TASK_SUCCESS, outcome_pb2.SIGNAL_JUDGE, outcome_pb2.SIGNAL_COST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One load.

    Attributes:
        path: the RPC.
        callers: RPCs in flight.
        rpcs, batch: how many RPCs, and outcomes in each.
        tokens: by tenant number; RPCs go to these tenants at random. Each token is sent with three outcomes in a row.
    """

    address: tuple[str, int]
    path: str
    key: str
    callers: int
    rpcs: int
    batch: int
    tokens: dict[int, Sequence[bytes]]
    seed: int
    core: int


@dataclass(slots=True)
class Load:
    """A load's figures.

    Attributes:
        acknowledged: idempotency keys by tenant number, of outcomes answered RECORDED.
        wrong: sentences about answers that must not be; empty for a sound run.
    """

    seconds: float
    client_cpu_seconds: float
    p50_ms: float
    p99_ms: float
    acknowledged: dict[int, list[str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


def tokens_of(address: tuple[str, int], key: str, tenants: range, count: int, core: int) -> dict[int, list[bytes]]:
    """Decide `count` new episodes of every tenant, and keep their tokens."""
    os.sched_setaffinity(0, {core})
    headers = Headers(DECIDE, {"authorization": f"Bearer {key}"})
    bodies = [
        decide_pb.DecideRequest(
            policy=policy_of(number),
            request_id=str(episode),
            episode_id=str(episode),
            context=decision_pb2.Context(categories={"task": TASKS[episode % len(TASKS)]}, numbers={"words": 5.0}),
        ).SerializeToString()
        for number in tenants
        for episode in range(count)
    ]
    measured = closed_loop(address, headers, bodies, shape=(CONNECTIONS, 8))
    if measured.failures:
        raise RuntimeError(f"not decided: {measured.failures[0]!r}")
    found: dict[int, list[bytes]] = {number: [] for number in tenants}
    numbers = {tenant_of(number): number for number in tenants}
    for raw in measured.answers:
        answer = decide_pb.DecideResponse.FromString(raw)
        found[numbers[answer.decision.split("/")[1]]].append(answer.decision_token)
    return found


def run_job(job: Job) -> Load:
    """Send the job's outcomes from this process, pinned to its core."""
    os.sched_setaffinity(0, {job.core})
    headers = Headers(job.path, {"authorization": f"Bearer {job.key}"})
    sent = list(_requests(job))
    shape = (CONNECTIONS, job.callers // CONNECTIONS)
    measured = closed_loop(job.address, headers, [body for _, body, _ in sent], shape=shape)
    if not measured.latencies:
        raise RuntimeError(f"nothing was recorded: {measured.failures[0]!r}")
    load = Load(
        measured.seconds,
        measured.cpu_seconds,
        percentile(measured.latencies, 0.5) * 1e3,
        percentile(measured.latencies, 0.99) * 1e3,
    )
    load.wrong = [f"status not OK: {trailers!r}" for trailers in measured.failures[:3]]
    if job.path == ECHO:
        return load
    for number, _, keys in sent:
        load.acknowledged.setdefault(number, []).extend(keys)
    for raw in measured.answers:
        statuses = [result.status for result in pb.RecordOutcomesResponse.FromString(raw).results]
        if statuses != [outcome_pb2.OUTCOME_STATUS_RECORDED] * job.batch:
            load.wrong.append(f"not all recorded: {sorted(set(statuses))}")
    return load


def _requests(job: Job) -> Iterator[tuple[int, bytes, list[str]]]:
    """Make each RPC: whose it is, its bytes, its idempotency keys."""
    rng = random.Random(job.seed)
    now = Timestamp()
    now.GetCurrentTime()
    numbers = list(job.tokens)
    cursors = {number: rng.randrange(len(job.tokens[number])) * OUTCOMES_OF_AN_EPISODE for number in numbers}
    for _ in range(job.rpcs):
        number = rng.choice(numbers)
        tokens, begin = job.tokens[number], cursors[number]
        cursors[number] += job.batch
        keys = [str(uuid.UUID(int=rng.getrandbits(128))) for _ in range(job.batch)]
        outcomes = [
            outcome_pb2.Outcome(
                idempotency_key=key,
                decision_token=tokens[place // OUTCOMES_OF_AN_EPISODE % len(tokens)],
                signal=_SIGNALS[place % len(_SIGNALS)],
                value=rng.random(),
                observed_time=now,
            )
            for place, key in enumerate(keys, begin)
        ]
        request = pb.RecordOutcomesRequest(parent=f"tenants/{tenant_of(number)}", outcomes=outcomes)
        yield number, request.SerializeToString(), keys
