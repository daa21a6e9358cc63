"""Define the port that the client speaks through: each call once, answered or refused."""

from collections.abc import AsyncIterable, AsyncIterator
from typing import Protocol

from kedge.bandit.v1 import decision_service_pb2 as decision
from kedge.bandit.v1 import episode_service_pb2 as episode
from kedge.bandit.v1 import feedback_service_pb2 as feedback


class Wire(Protocol):
    """Carry each call once; every method but `ready` and `close` raises CallFailed where there is no usable answer."""

    async def decide(self, request: decision.DecideRequest, *, deadline_s: float) -> decision.DecideResponse:
        """Ask for an action."""
        ...

    async def best_action(
        self, request: decision.BestActionRequest, *, deadline_s: float
    ) -> decision.BestActionResponse:
        """Ask for the action of highest mean."""
        ...

    async def activate(self, request: decision.ActivateRequest, *, deadline_s: float) -> decision.ActivateResponse:
        """Say which action was served."""
        ...

    async def cancel(self, request: decision.CancelRequest, *, deadline_s: float) -> decision.CancelResponse:
        """Say that nothing was served."""
        ...

    def watch_allocations(
        self, request: decision.WatchAllocationsRequest
    ) -> AsyncIterator[decision.WatchAllocationsResponse]:
        """Hear a policy's vectors and what becomes of them, until the server ends the stream."""
        ...

    async def report_decisions(
        self, request: decision.ReportDecisionsRequest, *, deadline_s: float
    ) -> decision.ReportDecisionsResponse:
        """Report decisions that were made here."""
        ...

    async def get_arm(self, request: decision.GetArmRequest, *, deadline_s: float) -> decision.GetArmResponse:
        """Read an arm's content."""
        ...

    async def log_episode(self, request: episode.LogEpisodeRequest, *, deadline_s: float) -> episode.LogEpisodeResponse:
        """Log one episode."""
        ...

    async def settle(
        self, request: episode.SettleEpisodeRequest, *, deadline_s: float
    ) -> episode.SettleEpisodeResponse:
        """Settle an episode now."""
        ...

    async def record_outcomes(
        self, request: feedback.RecordOutcomesRequest, *, deadline_s: float
    ) -> feedback.RecordOutcomesResponse:
        """Record a batch."""
        ...

    def stream_episodes(
        self, episodes: AsyncIterable[episode.LogEpisodeRequest]
    ) -> AsyncIterator[episode.StreamEpisodesResponse]:
        """Log many episodes over one stream; what `episodes` raises comes out of the answer."""
        ...

    async def ready(self, *, deadline_s: float) -> bool:
        """Connect, and say whether that worked in time."""
        ...

    async def close(self) -> None:
        """Let go of the connection; calls in flight fail."""
        ...
