"""Hold decisions back while learning lags behind them.

A core application need not do this: it is bound by its users. A demo that plays a week in two minutes on a small
machine is bound by nothing, and would otherwise show how a bandit explores on evidence that has not arrived yet.
"""

import asyncio
from typing import TYPE_CHECKING, Final

import grpc.aio

from kedge.bandit.v1 import policy_service_pb2 as wire
from kedge.bandit.v1.policy_service_pb2_grpc import PolicyServiceStub
from kedge_demo.world import World

if TYPE_CHECKING:
    from kedge.bandit.v1.policy_service_pb2_grpc import PolicyServiceAsyncStub

LAG_SHARE: Final = 0.06
LEAST_LEAD: Final = 600
LOOK_EVERY_S: Final = 0.5
TIMEOUT_S: Final = 10.0
LONGEST_STANDSTILL_S: Final = 60.0
ENDED: Final = ("SETTLED", "VETOED", "UNSCORED")


class PlayFailed(Exception):
    """Say that the server refused, or did not answer, something that a demo cannot go on without."""


class Pace:
    """Let decisions run ahead of the settled episodes by 6 % of the stream at most, or by 600 in a short trial."""

    def __init__(
        self, world: World, channel: grpc.aio.Channel, key: str, *, patience_s: float = LONGEST_STANDSTILL_S
    ) -> None:
        """Prepare; nothing is asked yet.

        Args:
            world: whose policy is followed.
            channel: to the server.
            key: of the tenant, with the right to read.
            patience_s: how long decisions may wait while nothing is settled.
        """
        self._request = wire.GetPolicyStatusRequest(name=world.policy.name, without_cells=True)
        self._stub: PolicyServiceAsyncStub = PolicyServiceStub(channel)
        self._metadata = (("authorization", f"Bearer {key}"),)
        self._lead = max(LEAST_LEAD, round(world.turns * LAG_SHARE))
        self._allowed = self._lead
        self._news = asyncio.Event()
        self._patience_s = patience_s
        self._latest = 0
        self._waiting = 0
        self._moved = 0.0

    async def follow(self) -> None:
        """Look how many episodes are settled whenever half of the lead is used up, until cancelled.

        A look costs the server as much as many decisions, so it is spared while there is room. One that fails is left
        out.

        Raises:
            PlayFailed: decisions have waited longer than `patience_s`, and nothing was settled.
        """
        clock = asyncio.get_running_loop().time
        self._moved = clock()
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            if self._allowed - self._latest > self._lead // 2:
                self._moved = clock()
                continue
            try:
                answer = await self._stub.GetPolicyStatus(self._request, metadata=self._metadata, timeout=TIMEOUT_S)
            except grpc.aio.AioRpcError as error:
                if error.code() not in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}:
                    raise
            else:
                ended = sum(answer.episode_counts.get(state, 0) for state in ENDED)
                if ended + self._lead > self._allowed or not self._waiting:
                    self._moved = clock()
                self._allowed = max(self._allowed, ended + self._lead)
                self._news.set()
                if clock() - self._moved > self._patience_s:
                    held = answer.learning_held or "no reason is given: see the worker's log"
                    raise PlayFailed(f"{self._request.name}: {ended} episodes settled, and no more: {held}")

    async def hold(self, turn: int) -> None:
        """Wait until the turn is near enough to what is settled."""
        self._latest = max(self._latest, turn)
        while turn >= self._allowed:
            self._news.clear()
            self._waiting += 1
            await self._news.wait()
            self._waiting -= 1
