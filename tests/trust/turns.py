"""Play episodes over every replica at once, and write each acknowledgement to a file before anything else is done."""

import asyncio
import json
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, TextIO

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from kedge.bandit.v1 import (
    decision_pb2,
    decision_service_pb2,
    decision_service_pb2_grpc,
    episode_pb2,
    episode_service_pb2,
    episode_service_pb2_grpc,
    feedback_service_pb2,
    feedback_service_pb2_grpc,
    outcome_pb2,
)

RETRYABLE = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.CANCELLED,
)
RECORDED = (outcome_pb2.OUTCOME_STATUS_RECORDED, outcome_pb2.OUTCOME_STATUS_DUPLICATE)
BASELINE_IN_DOUBT = (decision_pb2.DECISION_REASON_ERROR, decision_pb2.DECISION_REASON_STALE)
RETRY_SECONDS = 0.1
DEADLINE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant whose episodes are played.

    Attributes:
        is_durable: its decisions are committed before they are answered, so an answer acknowledges the row.
    """

    name: str
    key: str
    is_durable: bool


@dataclass(slots=True, kw_only=True)
class Players:
    """Many callers over one channel; every RPC is sent again with the same ids until it is acknowledged.

    Attributes:
        acknowledged: gets a line for each acknowledgement.
        in_flight: calls under way, by RPC.
        playing: cleared, every caller ends the turn it is in and waits.
    """

    channel: grpc.aio.Channel
    tenants: list[Tenant]
    acknowledged: TextIO
    playing: asyncio.Event = field(default_factory=asyncio.Event)
    stopping: bool = False
    in_flight: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    _methods: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        """Make the stubs once."""
        self._methods = {rpc: getattr(stub(self.channel), rpc) for rpc, stub in STUBS.items()}

    @property
    def flying(self) -> int:
        """Calls under way."""
        return self.in_flight.total()

    async def play(self, number: int) -> None:
        """Be one caller, until told to stop; the turn under way is finished."""
        tenant = self.tenants[number % len(self.tenants)]
        turn = 0
        while not self.stopping:
            await self.playing.wait()
            await self._turn(tenant, f"{number}-{turn}", random.Random(f"{number}-{turn}"))
            turn += 1

    async def _turn(self, tenant: Tenant, name: str, dice: random.Random) -> None:
        parent = f"tenants/{tenant.name}"
        policy = f"{parent}/policies/support"
        decided = await self._call(tenant, "Decide", decide_request(policy, name, dice.choice(("math", "code"))))
        if tenant.is_durable and decided.reason not in BASELINE_IN_DOUBT:
            self._acknowledge("decision", tenant, decided.decision.rpartition("/")[2])
        answer = await self._call(tenant, "RecordOutcomes", outcome_request(parent, name, decided, dice.random()))
        assert answer.results[0].status in RECORDED, answer
        self._acknowledge("outcome", tenant, name)
        await self._call(tenant, "LogEpisode", log_request(policy, name, decided))
        self._acknowledge("episode", tenant, name)

    async def _call(self, tenant: Tenant, rpc: str, request: Any) -> Any:
        metadata = (("authorization", f"Bearer {tenant.key}"),)
        while True:
            self.in_flight[rpc] += 1
            try:
                return await self._methods[rpc](request, timeout=DEADLINE_SECONDS, metadata=metadata)
            except grpc.aio.AioRpcError as error:
                if error.code() not in RETRYABLE:
                    raise
                self.counts["sent again"] += 1
            finally:
                self.in_flight[rpc] -= 1
            await asyncio.sleep(RETRY_SECONDS)

    def _acknowledge(self, kind: str, tenant: Tenant, key: str) -> None:
        self.acknowledged.write(json.dumps([kind, tenant.name, key]) + "\n")
        self.acknowledged.flush()
        self.counts[kind] += 1


STUBS: dict[str, Any] = {
    "Decide": decision_service_pb2_grpc.DecisionServiceStub,
    "RecordOutcomes": feedback_service_pb2_grpc.FeedbackServiceStub,
    "LogEpisode": episode_service_pb2_grpc.EpisodeServiceStub,
}


def over_all(addresses: list[str]) -> grpc.aio.Channel:
    """Open a channel that takes the replicas in turn and finds one that comes back soon."""
    options = (
        ("grpc.initial_reconnect_backoff_ms", 50),
        ("grpc.max_reconnect_backoff_ms", 200),
        ("grpc.service_config", json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})),
    )
    return grpc.aio.insecure_channel(f"ipv4:{','.join(addresses)}", options)


def decide_request(policy: str, name: str, task: str) -> decision_service_pb2.DecideRequest:
    context = decision_pb2.Context(categories={"task": task})
    return decision_service_pb2.DecideRequest(policy=policy, request_id=name, episode_id=name, context=context)


def outcome_request(parent: str, name: str, decided: Any, value: float) -> feedback_service_pb2.RecordOutcomesRequest:
    seen = Timestamp()
    seen.GetCurrentTime()
    outcome = outcome_pb2.Outcome(
        idempotency_key=name,
        decision_token=decided.decision_token,
        signal=outcome_pb2.SIGNAL_TASK_SUCCESS,
        value=value,
        observed_time=seen,
    )
    return feedback_service_pb2.RecordOutcomesRequest(parent=parent, outcomes=[outcome])


def log_request(policy: str, name: str, decided: Any) -> episode_service_pb2.LogEpisodeRequest:
    trajectory = episode_pb2.Trajectory(terminated=True)
    trajectory.guardrail_events.add(kind=episode_pb2.GUARDRAIL_KIND_PII, tripped=False)
    return episode_service_pb2.LogEpisodeRequest(
        policy=policy, request_id=name, episode_id=name, decision_token=decided.decision_token, trajectory=trajectory
    )
