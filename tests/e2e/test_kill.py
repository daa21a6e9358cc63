"""End server and worker as a crash does, with at least 64 RPCs in flight; nothing acknowledged is lost or doubled.

The client writes each acknowledgement to a file before it does anything else with it, and compares the file with the
database at the end.
"""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import grpc
import pytest
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
    policy_service_pb2,
)
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Stack, wait_for

TENANT = "killed"
POLICY = f"tenants/{TENANT}/policies/support"
KILLS = 20
CALLERS = 128
IN_FLIGHT = 64
LONGEST_DELAY = {"server": 0.05, "worker": 0.3}
"""Seconds of a burst after which the process is killed at the latest; the worker takes up rows a little later."""


@dataclass(slots=True)
class Caller:
    """Many callers over one channel; every RPC is sent again with the same ids until it is acknowledged."""

    channel: grpc.aio.Channel
    key: str
    acknowledged: TextIO
    in_flight: int = 0
    stopping: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    idle: int = 0

    async def call(self, method: Any, request: Any) -> Any:
        while True:
            self.in_flight += 1
            try:
                return await method(request, timeout=5, metadata=(("authorization", f"Bearer {self.key}"),))
            except grpc.aio.AioRpcError as error:
                retryable = (
                    grpc.StatusCode.UNAVAILABLE,
                    grpc.StatusCode.DEADLINE_EXCEEDED,
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                    grpc.StatusCode.CANCELLED,
                )
                if error.code() not in retryable:
                    raise
                self.counts["retries"] += 1
                await asyncio.sleep(0.2)
            finally:
                self.in_flight -= 1

    def acknowledge(self, kind: str, key: str) -> None:
        self.acknowledged.write(json.dumps([kind, key]) + "\n")
        self.acknowledged.flush()
        self.counts[kind] += 1

    async def turns(self, number: int) -> None:
        decisions = decision_service_pb2_grpc.DecisionServiceStub(self.channel)
        episodes = episode_service_pb2_grpc.EpisodeServiceStub(self.channel)
        feedback = feedback_service_pb2_grpc.FeedbackServiceStub(self.channel)
        turn = 0
        while True:
            self.idle += 1
            await self.gate.wait()
            self.idle -= 1
            if self.stopping:
                return
            name = f"{number}-{turn}"
            turn += 1
            decided = await self.call(
                decisions.Decide,
                decision_service_pb2.DecideRequest(
                    policy=POLICY,
                    request_id=name,
                    episode_id=name,
                    context=decision_pb2.Context(categories={"task": "code"}),
                ),
            )
            seen = Timestamp()
            seen.GetCurrentTime()
            outcome = outcome_pb2.Outcome(
                idempotency_key=name,
                decision_token=decided.decision_token,
                signal=outcome_pb2.SIGNAL_TASK_SUCCESS,
                value=0.5,
                observed_time=seen,
            )
            answer = await self.call(
                feedback.RecordOutcomes,
                feedback_service_pb2.RecordOutcomesRequest(parent=f"tenants/{TENANT}", outcomes=[outcome]),
            )
            assert answer.results[0].status in (
                outcome_pb2.OUTCOME_STATUS_RECORDED,
                outcome_pb2.OUTCOME_STATUS_DUPLICATE,
            ), answer
            self.acknowledge("outcome", name)
            trajectory = episode_pb2.Trajectory(terminated=True)
            trajectory.guardrail_events.add(kind=episode_pb2.GUARDRAIL_KIND_PII, tripped=False)
            await self.call(
                episodes.LogEpisode,
                episode_service_pb2.LogEpisodeRequest(
                    policy=POLICY,
                    request_id=name,
                    episode_id=name,
                    decision_token=decided.decision_token,
                    trajectory=trajectory,
                ),
            )
            self.acknowledge("episode", name)


async def kill_in_a_burst(stack: Stack, caller: Caller, process: str, delay: float) -> int:
    """Let every caller play, kill the process amid their calls, and wait until all of them are acknowledged.

    Returns:
        RPCs in flight at the moment of the kill.
    """
    before = caller.counts["episode"]
    caller.gate.set()
    await until(lambda: caller.counts["episode"] > before, "the burst to begin")
    await asyncio.sleep(delay)
    await until(lambda: caller.in_flight >= IN_FLIGHT, f"{IN_FLIGHT} RPCs in flight")
    in_flight = caller.in_flight
    victim = stack.pid(process)
    stack.kill(process)
    caller.gate.clear()
    await until(lambda: stack.pid(process) != victim, f"{process} to be started again")
    # Every call of the burst is repeated until it is acknowledged, by the process that came after.
    await until(lambda: caller.in_flight == 0 and caller.idle == CALLERS, "the burst to end")
    return in_flight


async def kill_repeatedly(stack: Stack, caller: Caller, process: str) -> list[int]:
    """Kill a process 20 times at random moments of as many bursts."""
    moments = random.Random(process)
    delays = [moments.uniform(0.0, LONGEST_DELAY[process]) for _ in range(KILLS)]
    return [await kill_in_a_burst(stack, caller, process, delay) for delay in delays]


async def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited 60 s in vain for {what}")
        await asyncio.sleep(0.002)


async def play_while_killing(stack: Stack, key: str, path: Path, process: str) -> tuple[Counter[str], list[int]]:
    options = (("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200))
    with path.open("w", encoding="utf-8") as file:
        async with grpc.aio.insecure_channel(stack.address, options) as channel:
            caller = Caller(channel, key, file)
            async with asyncio.TaskGroup() as group:
                offset = CALLERS if process == "worker" else 0
                for number in range(CALLERS):
                    group.create_task(caller.turns(offset + number))
                in_flight = await kill_repeatedly(stack, caller, process)
                caller.stopping = True
                caller.gate.set()
            return caller.counts, in_flight


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_or_doubled_by_killing_server_and_worker(stack: Stack, tmp_path: Path) -> None:
    key = stack.tenant(TENANT)
    stack.put_policy(two_models(TENANT))
    for process in ("server", "worker"):
        path = tmp_path / f"{process}.acknowledged"
        counts, in_flight = asyncio.run(play_while_killing(stack, key, path, process))
        print(f"{process}: {KILLS} kills, {min(in_flight)} to {max(in_flight)} RPCs in flight, {dict(counts)}")
        assert len(in_flight) == KILLS
        assert min(in_flight) >= IN_FLIGHT
    check_acknowledged(stack, tmp_path)
    check_belief(stack)


def check_acknowledged(stack: Stack, folder: Path) -> None:
    acknowledged: dict[str, set[str]] = {"outcome": set(), "episode": set()}
    for path in folder.glob("*.acknowledged"):
        for line in path.read_text(encoding="utf-8").splitlines():
            kind, name = json.loads(line)
            acknowledged[kind].add(name)
    with stack.connect() as connection:
        for kind, table in (("outcome", "outcome"), ("episode", "episode_event")):
            stored = Counter(key for (key,) in connection.execute(f"SELECT key FROM t_{TENANT}.{table}"))
            lost = acknowledged[kind] - stored.keys()
            doubled = [key for key, count in stored.items() if count > 1]
            print(f"{kind}: acknowledged {len(acknowledged[kind])}, lost {len(lost)}, doubled {len(doubled)}")
            assert not lost
            assert not doubled
        orphans = connection.execute(
            f"SELECT count(*) FROM t_{TENANT}.episode_event e WHERE NOT EXISTS"
            f" (SELECT 1 FROM t_{TENANT}.decision d WHERE d.decision_id = e.decision_id)"
        ).fetchone()
        assert orphans == (0,)


def check_belief(stack: Stack) -> None:
    """Every episode is learned from once, and the served belief is the log's fold."""
    with stack.services() as services, stack.connect() as connection:
        logged = connection.execute(f"SELECT count(DISTINCT episode_id) FROM t_{TENANT}.episode_event").fetchone()
        assert logged is not None

        def settled() -> int:
            status = services.policies.GetPolicyStatus(policy_service_pb2.GetPolicyStatusRequest(name=POLICY))
            return status.episode_counts["SETTLED"] if status.backlog == 0 else 0

        wait_for(lambda: settled() == logged[0], f"{logged[0]} episodes to settle")
        status = services.policies.GetPolicyStatus(policy_service_pb2.GetPolicyStatusRequest(name=POLICY))
        states = ("PENDING", "SETTLED", "VETOED", "UNSCORED", "CANCELLED")
        assert sum(status.episode_counts.get(state, 0) for state in states) == logged[0]
        rebuilt = services.policies.RebuildPolicy(
            policy_service_pb2.RebuildPolicyRequest(name=POLICY, verify_only=True)
        )
        assert rebuilt.agrees
        assert rebuilt.max_error <= 1e-9
        print(f"{logged[0]} episodes, each in one state; rebuild differs by {rebuilt.max_error:.2e}")
