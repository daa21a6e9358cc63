"""Run in the load's own processes: decide, log and report outcomes at a fixed rate over many tenants.

Each RPC has a process of its own, since a load that waits for one answer would not send the next request in time. The
bodies are made beforehand; an episode's log follows its decision after a fixed time, its outcome the log.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from google.protobuf.message import Message

from kedge.bandit.v1 import (
    decision_pb2,
    decision_service_pb2,
    episode_pb2,
    episode_service_pb2,
    feedback_service_pb2,
    outcome_pb2,
)
from tests.bench.http2_load import Headers, Measured, fixed_rate
from tests.bench.tenants_place import TASKS, policy_of

SERVICES = "/kedge.bandit.v1."
DECIDE, LOG, OUTCOME = (
    f"{SERVICES}DecisionService/Decide",
    f"{SERVICES}EpisodeService/LogEpisode",
    f"{SERVICES}FeedbackService/RecordOutcomes",
)
BEHIND = {DECIDE: 0.0, LOG: 0.5, OUTCOME: 0.8}
"""Seconds after its decision at which a request of an episode is sent."""
CONNECTIONS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One RPC's share of a load.

    Attributes:
        begin: time.time() at which the first decision is due.
        rate: episodes a second over all tenants.
    """

    path: str
    port: int
    key: str
    tenants: int
    rate: float
    episodes: int
    begin: float
    seed: int


def run_job(job: Job) -> Measured:
    """Send the job's requests from this process; answers are dropped, their number and failures kept."""
    bodies = [body.SerializeToString() for body in bodies_of(job)]
    headers = Headers(job.path, {"authorization": f"Bearer {job.key}"})
    wait = job.begin + BEHIND[job.path] - time.time()
    if wait < 0:
        raise RuntimeError("the load was not ready in time")
    time.sleep(wait)
    measured = fixed_rate(("127.0.0.1", job.port), headers, bodies, rate=job.rate, connections=CONNECTIONS)
    measured.answers.clear()
    return measured


def bodies_of(job: Job) -> Sequence[Message]:
    """Make the requests; every job of a load makes the same episodes in the same order, tenants in a random one."""
    rng = random.Random(job.seed)
    order = [number % job.tenants for number in range(job.episodes)]
    rng.shuffle(order)
    make = {DECIDE: _decide, LOG: _log, OUTCOME: _outcome}[job.path]
    return [make(tenant, f"{job.seed}-{number}", rng) for number, tenant in enumerate(order)]


def _decide(tenant: int, episode: str, rng: random.Random) -> decision_service_pb2.DecideRequest:
    return decision_service_pb2.DecideRequest(
        policy=policy_of(tenant),
        request_id=episode,
        episode_id=episode,
        context=decision_pb2.Context(
            categories={"task": rng.choice(TASKS)}, numbers={"words": float(rng.randrange(0, 30))}
        ),
    )


def _log(tenant: int, episode: str, rng: random.Random) -> episode_service_pb2.LogEpisodeRequest:
    trajectory = episode_pb2.Trajectory(terminated=True)
    trajectory.guardrail_events.add(kind=episode_pb2.GUARDRAIL_KIND_PII, tripped=False)
    trajectory.llm_calls.add(
        model_id="model", prompt_tokens=900, completion_tokens=rng.randrange(50, 400), cost_usd=0.002, latency_ms=800.0
    )
    return episode_service_pb2.LogEpisodeRequest(
        policy=policy_of(tenant), request_id=episode, episode_id=episode, trajectory=trajectory
    )


def _outcome(tenant: int, episode: str, rng: random.Random) -> feedback_service_pb2.RecordOutcomesRequest:
    outcome = outcome_pb2.Outcome(
        idempotency_key=episode,
        episode=outcome_pb2.EpisodeRef(policy=policy_of(tenant), episode_id=episode),
        signal=outcome_pb2.SIGNAL_TASK_SUCCESS,
        value=float(rng.random() < 0.6),
    )
    outcome.observed_time.GetCurrentTime()
    return feedback_service_pb2.RecordOutcomesRequest(
        parent=policy_of(tenant).partition("/policies/")[0], outcomes=[outcome]
    )
