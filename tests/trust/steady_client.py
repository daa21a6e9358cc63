"""A core application that goes on working while others misbehave, and remembers what was acknowledged to it."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

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
from tests.fixtures.stack import Stack

PAUSE_SECONDS = 0.02


@dataclass(slots=True)
class SteadyClient:
    """Decides, logs and reports one episode after the other; every refusal is a failure of the test."""

    channel: grpc.aio.Channel
    key: str
    tenant: str
    acknowledged: Counter[str] = field(default_factory=Counter)
    episodes: set[str] = field(default_factory=set)
    outcomes: set[str] = field(default_factory=set)
    _stopping: bool = False

    def stop(self) -> None:
        """End after the running episode."""
        self._stopping = True

    async def run(self) -> None:
        """Go on until stopped."""
        number = 0
        while not self._stopping:
            await self._episode(f"steady-{number}")
            number += 1
            await asyncio.sleep(PAUSE_SECONDS)

    async def _episode(self, name: str) -> None:
        policy = f"tenants/{self.tenant}/policies/support"
        decisions = decision_service_pb2_grpc.DecisionServiceStub(self.channel)
        asked = decision_service_pb2.DecideRequest(
            policy=policy, request_id=name, episode_id=name, context=decision_pb2.Context(categories={"task": "math"})
        )
        decided = await self._call(decisions.Decide, asked)
        trajectory = episode_pb2.Trajectory(terminated=True)
        trajectory.guardrail_events.add(kind=episode_pb2.GUARDRAIL_KIND_PII)
        logged = episode_service_pb2.LogEpisodeRequest(
            policy=policy,
            request_id=name,
            episode_id=name,
            decision_token=decided.decision_token,
            trajectory=trajectory,
        )
        await self._call(episode_service_pb2_grpc.EpisodeServiceStub(self.channel).LogEpisode, logged)
        self.episodes.add(name)
        self.acknowledged["episodes"] += 1
        seen = Timestamp()
        seen.GetCurrentTime()
        outcome = outcome_pb2.Outcome(
            idempotency_key=name,
            decision_token=decided.decision_token,
            signal=outcome_pb2.SIGNAL_TASK_SUCCESS,
            value=0.5,
            observed_time=seen,
        )
        recorded = feedback_service_pb2.RecordOutcomesRequest(parent=f"tenants/{self.tenant}", outcomes=[outcome])
        answer = await self._call(feedback_service_pb2_grpc.FeedbackServiceStub(self.channel).RecordOutcomes, recorded)
        assert answer.results[0].status == outcome_pb2.OUTCOME_STATUS_RECORDED, answer
        self.outcomes.add(name)
        self.acknowledged["outcomes"] += 1

    async def _call(self, method: Any, request: Any) -> Any:
        return await method(request, timeout=30, metadata=(("authorization", f"Bearer {self.key}"),))

    def is_stored(self, stack: Stack) -> bool:
        """Say whether the worker has learned from every episode that was acknowledged with its outcome."""
        with stack.connect() as connection:
            found = connection.execute(
                f"SELECT count(DISTINCT episode_id) FROM t_{self.tenant}.evidence WHERE weight = 1"
            ).fetchone()
        return found is not None and found[0] >= len(self.outcomes)

    def lost(self, stack: Stack) -> set[str]:
        """Find what was acknowledged and is not stored, or is stored twice."""
        lost = set()
        with stack.connect() as connection:
            for table, sent in (("episode_event", self.episodes), ("outcome", self.outcomes)):
                rows = connection.execute(f"SELECT key FROM t_{self.tenant}.{table}").fetchall()
                counts = Counter(row[0] for row in rows)
                lost |= {f"{table} {name}" for name in sent if counts[name] != 1}
        return lost
