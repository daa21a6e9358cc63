"""A server in memory that streams vectors as a test says, and keeps what is reported."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

from kedge.bandit.v1 import decision_pb2, policy_pb2
from kedge.bandit.v1 import decision_service_pb2 as pb
from kedge_client import CallFailed, FixedWire
from tests.client.stand_in import BASELINE, SERVED
from tests.client.stepped_clock import SteppedClock

POLICY = "tenants/acme/policies/support"
KEYS = sorted([BASELINE.action.key, SERVED.action.key])


def first_message() -> pb.WatchAllocationsResponse:
    """A policy with two actions, drawn half and half."""
    arms = [
        policy_pb2.Arm(dimension=dimension, name=ref.name, content_hash=ref.content_hash)
        for dimension, ref in (
            (policy_pb2.DIMENSION_MODEL_ROUTE, BASELINE.action.model_route),
            (policy_pb2.DIMENSION_MODEL_ROUTE, SERVED.action.model_route),
            (policy_pb2.DIMENSION_PROMPT_VARIANT, BASELINE.action.prompt_variant),
        )
        if ref is not None
    ]
    place = KEYS.index(BASELINE.action.key)
    policy = policy_pb2.Policy(
        name=POLICY,
        features=[policy_pb2.Feature(name="task", categorical=policy_pb2.CategoricalFeature(values=["math"]))],
        arms=arms,
        policy_version=3,
        action_keys=KEYS,
        baseline_index=place,
    )
    allocation = pb.Allocation(
        bucket="",
        allocation_version=7,
        policy_version=3,
        action_keys=KEYS,
        probability_best=[0.5, 0.5],
        propensities=[0.5, 0.5],
        means=[0.5, 0.5],
        eligible=[True, True],
        exploitation_floor=0.2,
        uniform_slice=0.1,
        baseline_index=place,
    )
    return pb.WatchAllocationsResponse(allocations=[allocation], policy=policy, effective_mode=policy_pb2.MODE_APPLY)


class Streaming(FixedWire):
    """A server in memory that streams what a test puts, and keeps what is reported."""

    def __init__(self, clock: SteppedClock) -> None:
        super().__init__({POLICY: SERVED})
        self.clock = clock
        self.messages: asyncio.Queue[pb.WatchAllocationsResponse | CallFailed | None] = asyncio.Queue()
        self.watches = 0
        self.reports: list[pb.ReportDecisionsRequest] = []
        self.refuse = ""

    def send(self, message: pb.WatchAllocationsResponse, *, lease: float = 5.0, travelled: float = 0.0) -> None:
        message.server_time.FromDatetime(self.clock.now() - timedelta(seconds=travelled))
        if lease:
            message.lease.FromMicroseconds(int(lease * 1e6))
        self.messages.put_nowait(message)

    async def watch_allocations(
        self, request: pb.WatchAllocationsRequest
    ) -> AsyncIterator[pb.WatchAllocationsResponse]:
        self.watches += 1
        while (message := await self.messages.get()) is not None:
            if isinstance(message, CallFailed):
                raise message
            yield message

    async def report_decisions(
        self, request: pb.ReportDecisionsRequest, *, deadline_s: float
    ) -> pb.ReportDecisionsResponse:
        self._fail_if_down()
        self.reports.append(request)
        return pb.ReportDecisionsResponse(refusals=[self.refuse] * len(request.decisions))

    @property
    def reported(self) -> list[decision_pb2.Decision]:
        return [decision for report in self.reports for decision in report.decisions]
