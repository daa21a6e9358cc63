"""Carry the calls over gRPC. Its exceptions end here; what comes out is an answer or `CallFailed`."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import grpc.aio

from kedge.bandit.v1 import decision_service_pb2 as decision
from kedge.bandit.v1 import episode_service_pb2 as episode
from kedge.bandit.v1 import feedback_service_pb2 as feedback
from kedge.bandit.v1.decision_service_pb2_grpc import DecisionServiceStub
from kedge.bandit.v1.episode_service_pb2_grpc import EpisodeServiceStub
from kedge.bandit.v1.feedback_service_pb2_grpc import FeedbackServiceStub
from kedge_client.channel import open_channel, target
from kedge_client.errors import CLIENT_CLOSED, CallFailed, call_failed

if TYPE_CHECKING:
    # These exist for type checkers only; at run time a stub takes either kind of channel.
    from kedge.bandit.v1.decision_service_pb2_grpc import DecisionServiceAsyncStub
    from kedge.bandit.v1.episode_service_pb2_grpc import EpisodeServiceAsyncStub
    from kedge.bandit.v1.feedback_service_pb2_grpc import FeedbackServiceAsyncStub

AnswerT = TypeVar("AnswerT")
RequestT = TypeVar("RequestT")


@dataclass(frozen=True, slots=True)
class _Stubs:
    channel: grpc.aio.Channel
    decisions: "DecisionServiceAsyncStub"
    episodes: "EpisodeServiceAsyncStub"
    feedback: "FeedbackServiceAsyncStub"


class GrpcWire:
    """Speak to one or more replicas over one channel, which opens with the first call and in its event loop."""

    def __init__(self, address: str | Sequence[str], *, key: str, tls: grpc.ChannelCredentials | None) -> None:
        """Prepare; nothing is opened yet.

        Args:
            address: see `channel.target`.
            key: bearer key or token; empty where the certificate in `tls` says who calls.
            tls: from `grpc.ssl_channel_credentials`, or None.

        Raises:
            ValueError: the address cannot be one.
        """
        target(address)
        self._address = address
        self._tls = tls
        self._metadata = (("authorization", f"Bearer {key}"),) if key else ()
        self._opened: _Stubs | None = None
        self._is_closed = False

    async def decide(self, request: decision.DecideRequest, *, deadline_s: float) -> decision.DecideResponse:
        """Ask for an action."""
        return await self._call(self._stubs().decisions.Decide, request, deadline_s)

    async def best_action(
        self, request: decision.BestActionRequest, *, deadline_s: float
    ) -> decision.BestActionResponse:
        """Ask for the action of highest mean."""
        return await self._call(self._stubs().decisions.BestAction, request, deadline_s)

    async def activate(self, request: decision.ActivateRequest, *, deadline_s: float) -> decision.ActivateResponse:
        """Say which action was served."""
        return await self._call(self._stubs().decisions.Activate, request, deadline_s)

    async def cancel(self, request: decision.CancelRequest, *, deadline_s: float) -> decision.CancelResponse:
        """Say that nothing was served."""
        return await self._call(self._stubs().decisions.Cancel, request, deadline_s)

    async def watch_allocations(
        self, request: decision.WatchAllocationsRequest
    ) -> AsyncIterator[decision.WatchAllocationsResponse]:
        """Hear a policy's vectors."""
        call = self._stubs().decisions.WatchAllocations(request, metadata=self._metadata)
        try:
            async for message in call:
                yield message
        except grpc.aio.AioRpcError as error:
            raise call_failed(error) from error
        except asyncio.CancelledError:
            if _caller_is_cancelled():
                raise
            raise _closed() from None
        finally:
            call.cancel()

    async def report_decisions(
        self, request: decision.ReportDecisionsRequest, *, deadline_s: float
    ) -> decision.ReportDecisionsResponse:
        """Report decisions that were made here."""
        return await self._call(self._stubs().decisions.ReportDecisions, request, deadline_s)

    async def get_arm(self, request: decision.GetArmRequest, *, deadline_s: float) -> decision.GetArmResponse:
        """Read an arm's content."""
        return await self._call(self._stubs().decisions.GetArm, request, deadline_s)

    async def log_episode(self, request: episode.LogEpisodeRequest, *, deadline_s: float) -> episode.LogEpisodeResponse:
        """Log one episode."""
        return await self._call(self._stubs().episodes.LogEpisode, request, deadline_s)

    async def settle(
        self, request: episode.SettleEpisodeRequest, *, deadline_s: float
    ) -> episode.SettleEpisodeResponse:
        """Settle an episode now."""
        return await self._call(self._stubs().episodes.SettleEpisode, request, deadline_s)

    async def record_outcomes(
        self, request: feedback.RecordOutcomesRequest, *, deadline_s: float
    ) -> feedback.RecordOutcomesResponse:
        """Record a batch."""
        return await self._call(self._stubs().feedback.RecordOutcomes, request, deadline_s)

    async def stream_episodes(
        self, episodes: AsyncIterable[episode.LogEpisodeRequest]
    ) -> AsyncIterator[episode.StreamEpisodesResponse]:
        """Log many episodes over one stream; what `episodes` raises comes out of the answer."""
        raised: list[Exception] = []

        async def watched() -> AsyncIterator[episode.StreamEpisodesRequest]:
            # gRPC swallows what a request iterator raises and cancels the call; the caller wants its own error back.
            try:
                async for each in episodes:
                    yield episode.StreamEpisodesRequest(episode=each)
            except Exception as error:
                raised.append(error)
                raise

        call = self._stubs().episodes.StreamEpisodes(watched(), metadata=self._metadata)
        try:
            async for response in call:
                yield response
        except grpc.aio.AioRpcError as error:
            raise call_failed(error) from error
        except asyncio.CancelledError:
            if raised:
                raise raised[0] from None
            if _caller_is_cancelled():
                raise
            raise _closed() from None
        finally:
            call.cancel()

    async def ready(self, *, deadline_s: float) -> bool:
        """Connect, and say whether that worked in time."""
        try:
            async with asyncio.timeout(deadline_s):
                await self._stubs().channel.channel_ready()
        except (TimeoutError, CallFailed, grpc.aio.BaseError):
            return False
        return True

    async def close(self) -> None:
        """Let go of the connection; calls in flight fail with CLIENT_CLOSED."""
        self._is_closed = True
        if self._opened is not None:
            await self._opened.channel.close()

    def _stubs(self) -> _Stubs:
        if self._is_closed:
            raise _closed()
        if self._opened is None:
            channel = open_channel(self._address, self._tls)
            self._opened = _Stubs(
                channel=channel,
                decisions=DecisionServiceStub(channel),
                episodes=EpisodeServiceStub(channel),
                feedback=FeedbackServiceStub(channel),
            )
        return self._opened

    async def _call(
        self, rpc: "grpc.aio.UnaryUnaryMultiCallable[RequestT, AnswerT]", request: RequestT, deadline_s: float
    ) -> AnswerT:
        call: Awaitable[AnswerT | None] = rpc(request, timeout=deadline_s, metadata=self._metadata)
        try:
            answer = await call
        except grpc.aio.AioRpcError as error:
            raise call_failed(error) from error
        except grpc.aio.BaseError as error:
            raise CallFailed(code="INTERNAL", detail=str(error)) from error
        except asyncio.CancelledError:
            if _caller_is_cancelled():
                raise
            # Closing the channel cancels its calls, which reads as if the caller had been cancelled.
            raise _closed() from None
        if answer is None:
            # What gRPC answers for bytes that it cannot parse.
            raise CallFailed(code="INTERNAL", reason="UNUSABLE_ANSWER", detail="the answer cannot be parsed")
        return answer


def _closed() -> CallFailed:
    return CallFailed(code="CANCELLED", reason=CLIENT_CLOSED, detail="the client is closed")


def _caller_is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
