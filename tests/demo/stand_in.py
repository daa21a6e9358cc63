"""Answer the demo's client as a server would that never learns, and export what it was told.

Every decision is drawn from one published vector by the seeded draw. What it exports can be spoiled on purpose, so that
tests know what the measure must find.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import grpc.aio
import numpy as np

from kedge.bandit.v1 import (
    decision_pb2,
    decision_service_pb2,
    episode_pb2,
    feedback_service_pb2,
    governance_service_pb2,
    outcome_pb2,
    policy_pb2,
    policy_service_pb2,
)
from kedge.bandit.v1 import episode_service_pb2 as wire
from kedge.bandit.v1.audit_event_pb2 import AuditEvent
from kedge.bandit.v1.decision_service_pb2 import DecideRequest, DecideResponse
from kedge.bandit.v1.decision_service_pb2_grpc import DecisionServiceServicer, add_DecisionServiceServicer_to_server
from kedge.bandit.v1.episode_service_pb2_grpc import EpisodeServiceServicer, add_EpisodeServiceServicer_to_server
from kedge.bandit.v1.feedback_service_pb2_grpc import FeedbackServiceServicer, add_FeedbackServiceServicer_to_server
from kedge.bandit.v1.governance_service_pb2_grpc import (
    GovernanceServiceServicer,
    add_GovernanceServiceServicer_to_server,
)
from kedge.bandit.v1.policy_service_pb2_grpc import PolicyServiceServicer, add_PolicyServiceServicer_to_server
from kedge_demo.checks import draw, pick
from kedge_demo.datasets import Floats
from kedge_demo.rewards import reward_tables
from kedge_demo.trajectory import final_state
from kedge_demo.truth import Flags
from kedge_demo.world import World, turn_of

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

VERSION = 7
JUDGE_EVERY = 3


@dataclass(kw_only=True)
class TenantRecord:
    """What the stand-in knows of one tenant."""

    world: World
    actions: dict[str, int] = field(default_factory=dict)
    logged: dict[str, episode_pb2.Trajectory] = field(default_factory=dict)
    outcomes: dict[str, outcome_pb2.Outcome] = field(default_factory=dict)

    @property
    def p(self) -> Floats:
        """One vector for all buckets: floor .8, slice .1, q uniform."""
        size = len(self.world.action_keys)
        p = np.full(size, 0.2 / size)
        p[self.world.baseline] += 0.8
        return p

    @property
    def judged(self) -> Flags:
        """Every third turn has a judge."""
        return np.asarray(np.arange(self.world.turns) % JUDGE_EVERY == 0)

    def export(self) -> Iterator[wire.ExportDecisionsResponse]:
        """Spell the whole log as ExportDecisions streams it."""
        world = self.world
        size = len(world.action_keys)
        yield wire.ExportDecisionsResponse(policy=world.policy)
        allocation = decision_service_pb2.Allocation(
            allocation_version=VERSION,
            policy_version=1,
            action_keys=world.action_keys,
            probability_best=[1.0 / size] * size,
            propensities=self.p.tolist(),
            means=[0.5] * size,
            eligible=[True] * size,
        )
        yield wire.ExportDecisionsResponse(allocation=allocation)
        tables = reward_tables(world, self.judged)
        sums: dict[tuple[int, int], list[float]] = {}
        for name, action in self.actions.items():
            turn = turn_of(name)
            episode = self._episode(name, action)
            if name in self.logged and tables.weight[turn, action] > 0:
                reward = float(tables.reward[turn, action])
                cell = sums.setdefault((int(world.bucket_of[turn]), action), [0.0, 0.0, 0.0])
                cell[:] = [cell[0] + 1.0, cell[1] + reward, cell[2] + reward**2]
            yield wire.ExportDecisionsResponse(decision=self._record(name, action, episode))
        for (bucket, action), (weight, total, squares) in sums.items():
            cell_message = policy_pb2.Cell(
                bucket=world.bucket_names[bucket],
                action_key=world.action_keys[action],
                weight=weight,
                reward_sum=total,
                reward_square_sum=squares,
                as_of=1000.0,
            )
            yield wire.ExportDecisionsResponse(cell=cell_message)
        yield wire.ExportDecisionsResponse(self_check=policy_pb2.SelfCheck(p_value=0.5))

    def _episode(self, name: str, action: int) -> episode_pb2.Episode:
        turn = turn_of(name)
        if name not in self.logged:
            return episode_pb2.Episode()
        judged = bool(self.judged[turn])
        state = final_state(self.world, turn, action, judged=judged)
        tables = reward_tables(self.world, self.judged)
        episode = episode_pb2.Episode(
            state=episode_pb2.EpisodeState.Value(f"EPISODE_STATE_{state}"),
            weight=float(tables.weight[turn, action]),
        )
        if state != "UNSCORED":
            episode.reward = float(tables.reward[turn, action])
        if state == "VETOED":
            episode.veto_reasons.append(outcome_pb2.VETO_REASON_GUARDRAIL_PII)
        return episode

    def _record(self, name: str, action: int, episode: episode_pb2.Episode) -> wire.DecisionRecord:
        world, turn = self.world, turn_of(name)
        decision = decision_pb2.Decision(
            policy=world.policy.name,
            episode_id=name,
            bucket=world.bucket_names[world.bucket_of[turn]],
            action_key=world.action_keys[action],
            propensity=float(self.p[action]),
            policy_version=1,
            allocation_version=VERSION,
            reason=decision_pb2.DECISION_REASON_DRAWN,
            is_randomised=True,
            judge_requested=bool(self.judged[turn]),
        )
        return wire.DecisionRecord(decision=decision, episode=episode, policy_time=1000.0)

    def decide(self, episode: str) -> int:
        """Draw the action of an episode, the same one whenever it is asked."""
        u = draw(self.world.tenant, self.world.policy_id, episode, 0, VERSION)
        return self.actions.setdefault(episode, pick(self.p, u))


class StandIn(
    DecisionServiceServicer,
    EpisodeServiceServicer,
    FeedbackServiceServicer,
    PolicyServiceServicer,
    GovernanceServiceServicer,
):
    """Serve what the demo's client calls."""

    def __init__(self, worlds: tuple[World, ...]) -> None:
        self.records = {world.policy.name: TenantRecord(world=world) for world in worlds}
        self.refuse_first = 0

    async def Decide(self, request: DecideRequest, context: Context) -> DecideResponse:
        record = self.records[request.policy]
        action = record.decide(request.episode_id)
        turn = turn_of(request.episode_id)
        return decision_service_pb2.DecideResponse(
            decision=f"{request.policy.rpartition('/policies/')[0]}/decisions/{request.episode_id}",
            action_key=record.world.action_keys[action],
            propensity=float(record.p[action]),
            reason=decision_pb2.DECISION_REASON_DRAWN,
            is_randomised=True,
            judge_requested=bool(record.judged[turn]),
            decision_token=f"{request.policy} {request.episode_id}".encode(),
        )

    async def StreamEpisodes(
        self, request_iterator: AsyncIterator[wire.StreamEpisodesRequest], context: Context
    ) -> AsyncIterator[wire.StreamEpisodesResponse]:
        async for request in request_iterator:
            episode = request.episode
            if self.refuse_first:
                self.refuse_first -= 1
                yield wire.StreamEpisodesResponse(request_id=episode.request_id, error_reason="QUEUE_FULL")
                continue
            self.records[episode.policy].logged[episode.episode_id] = episode.trajectory
            yield wire.StreamEpisodesResponse(request_id=episode.request_id)

    async def RecordOutcomes(
        self, request: feedback_service_pb2.RecordOutcomesRequest, context: Context
    ) -> feedback_service_pb2.RecordOutcomesResponse:
        results = []
        for outcome in request.outcomes:
            policy, _, _ = outcome.decision_token.decode().partition(" ")
            self.records[policy].outcomes[outcome.idempotency_key] = outcome
            results.append(feedback_service_pb2.OutcomeResult(status=outcome_pb2.OUTCOME_STATUS_RECORDED))
        return feedback_service_pb2.RecordOutcomesResponse(results=results)

    async def ExportDecisions(
        self, request: wire.ExportDecisionsRequest, context: Context
    ) -> AsyncIterator[wire.ExportDecisionsResponse]:
        for message in self.records[request.policy].export():
            yield message

    async def GetPolicyStatus(
        self, request: policy_service_pb2.GetPolicyStatusRequest, context: Context
    ) -> policy_service_pb2.GetPolicyStatusResponse:
        logged = len(self.records[request.name].logged)
        return policy_service_pb2.GetPolicyStatusResponse(episode_counts={"SETTLED": logged})

    async def ListAuditEvents(
        self, request: governance_service_pb2.ListAuditEventsRequest, context: Context
    ) -> governance_service_pb2.ListAuditEventsResponse:
        event = AuditEvent(sequence=1, actor="operator", verb="policy.put", subject=request.parent, because="demo")
        return governance_service_pb2.ListAuditEventsResponse(events=[event])


async def serve(stand_in: StandIn) -> tuple[grpc.aio.Server, str]:
    """Start on a free port; answers the server and its address."""
    server = grpc.aio.server()
    add_DecisionServiceServicer_to_server(stand_in, server)
    add_EpisodeServiceServicer_to_server(stand_in, server)
    add_FeedbackServiceServicer_to_server(stand_in, server)
    add_PolicyServiceServicer_to_server(stand_in, server)
    add_GovernanceServiceServicer_to_server(stand_in, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, f"127.0.0.1:{port}"
