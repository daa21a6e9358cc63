"""Be what a core application holds: one object that asks, logs and reports, and never lets a decision raise."""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from random import Random, SystemRandom
from typing import Final, Self

import grpc

from kedge.bandit.v1.decision_service_pb2 import CancelRequest
from kedge.bandit.v1.episode_pb2 import Trajectory
from kedge.bandit.v1.episode_service_pb2 import LogEpisodeRequest, SettleEpisodeRequest, StreamEpisodesResponse
from kedge.bandit.v1.feedback_service_pb2 import OutcomeResult, RecordOutcomesRequest
from kedge.bandit.v1.outcome_pb2 import Outcome
from kedge_client import requests
from kedge_client.action import Arm, Baseline
from kedge_client.arm_cache import ArmCache
from kedge_client.breaker import CircuitBreaker
from kedge_client.choice import Choice, EpisodeHandle, answered_choice, local_choice
from kedge_client.clock import Clock, SystemClock
from kedge_client.grpc_wire import GrpcWire
from kedge_client.guard import Guard
from kedge_client.listener import Listener
from kedge_client.local_policies import LocalPolicies
from kedge_client.outcome_queue import MAX_BATCH, OutcomeQueue
from kedge_client.outcomes import OutcomeMaker
from kedge_client.requests import NO_CATEGORIES, NO_NUMBERS, random_id
from kedge_client.retry import Backoff, Retrier
from kedge_client.wire import Wire


class Kedge:
    """Ask Kedge which action to serve, and tell it what came of it.

    `decide` and `best_action` never raise for what the server or the network does: they answer the baseline of the
    caller's own configuration, marked LOCAL_FALLBACK and not randomised. Every other call raises CallFailed after a few
    attempts; all of them may be repeated, because the same request has one effect.

    Belongs to one event loop and opens its channel with the first call. Use it with `async with`, or call `close`.

    Args:
        address: `host:port`, or several `ip:port` that are used in turn.
        key: the core application's key, sent as a bearer token; empty where `tls` holds a certificate of its own.
        tenant: the tenant that the key is bound to.
        baselines: the known-good action of each policy that will be asked for, by policy id.
        decide_deadline_s: seconds after which the baseline is served.
        call_deadline_s: seconds for one attempt of any other call.
        queue_capacity: most outcomes that wait for delivery.
        local: ids of the policies that are decided in this process, from vectors that the server streams.
        tls: from `grpc.ssl_channel_credentials`; None speaks in the clear.
        listener: hears what happens, for metrics.
        clock: tells and passes time.
        random: jitter of retries.
        new_id: makes episode ids, request ids and idempotency keys.
        wire: carries the calls instead of a channel to `address`.

    Attributes:
        outcomes: the queue that delivers outcomes in the background.

    Raises:
        ValueError: a name, the address or a deadline cannot be one.
    """

    def __init__(
        self,
        address: str | Sequence[str],
        *,
        key: str = "",
        tenant: str,
        baselines: Mapping[str, Baseline],
        decide_deadline_s: float = 0.25,
        call_deadline_s: float = 5.0,
        queue_capacity: int = 10_000,
        local: Iterable[str] = (),
        tls: grpc.ChannelCredentials | None = None,
        listener: Listener | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        new_id: Callable[[], str] = random_id,
        wire: Wire | None = None,
    ) -> None:
        if min(decide_deadline_s, call_deadline_s) <= 0.0:
            raise ValueError("deadlines must be above 0 s")
        clock, random, listener = clock or SystemClock(), random or SystemRandom(), listener or Listener()
        self._tenant, self._parent = requests.checked_id("tenant", tenant), f"tenants/{tenant}"
        self._baselines = {p: (requests.policy_name(tenant, p), baseline) for p, baseline in baselines.items()}
        self._decide_deadline_s, self._deadline_s = decide_deadline_s, call_deadline_s
        self._now, self._monotonic, self._new_id = clock.now, clock.monotonic, new_id
        self._wire = GrpcWire(address, key=key, tls=tls) if wire is None else wire
        names = [requests.policy_name(tenant, policy) for policy in local]
        self._local = LocalPolicies(
            names, wire=self._wire, clock=clock, random=random, listener=listener, deadline_s=call_deadline_s
        )
        self._guard = Guard(breaker=CircuitBreaker(monotonic=clock.monotonic), clock=clock, listener=listener)
        self._retrier = Retrier(clock=clock, random=random, backoff=Backoff(longest_s=1.0), deadline_s=call_deadline_s)
        self._arms = ArmCache(
            parent=self._parent,
            known=(arm for baseline in baselines.values() for arm in baseline.arms),
            read=lambda request: self._retrier.persist(self._wire.get_arm, request),
        )
        self.outcomes: Final = OutcomeQueue(
            self._record_once, clock=clock, random=random, listener=listener, capacity=queue_capacity
        )

    async def decide(
        self,
        policy: str,
        *,
        episode_id: str,
        request_id: str | None = None,
        categories: Mapping[str, str] = NO_CATEGORIES,
        numbers: Mapping[str, float] = NO_NUMBERS,
        available: Iterable[str] = (),
        pinned: str = "",
        continues_episode: bool = False,
        in_tool_loop: bool = False,
        no_exploration: bool = False,
        token: bytes = b"",
    ) -> Choice:
        """Choose what to serve for an episode.

        Args:
            policy: id of the policy.
            episode_id: 1 to 128 characters, best made by `new_episode_id` before the context is known.
            request_id: repeat it when the same question is asked again; made if None.
            categories: categorical features that the policy declares.
            numbers: numeric features that the policy declares.
            available: action keys that can be served now; empty means all.
            pinned: action key to serve whatever the policy says; not learned from.
            continues_episode: the episode was decided before, and the token is not at hand.
            in_tool_loop: nothing may be drawn anew.
            no_exploration: serve the baseline.
            token: of the episode's first choice.

        Returns:
            The choice; on any failure the local baseline, even for an episode that has served another action.

        Raises:
            ValueError: an id is empty, something has the wrong type, or the policy has no baseline here.
        """
        started = self._monotonic()
        name, baseline = self._known(policy)
        asked = requests.question(
            episode_id=episode_id,
            request_id=request_id,
            categories=categories,
            numbers=numbers,
            available=available,
            pinned=pinned,
            in_tool_loop=in_tool_loop,
            no_exploration=no_exploration,
        )
        if name in self._local and not (token or continues_episode):
            choice = self._local.decide(name, asked, baseline)
            if choice is not None:
                return self._guard.told(choice, started)
        request = requests.decide_request(
            name, asked, self._new_id, continues_episode=continues_episode, token=token, baseline_hash=baseline.hash
        )

        async def ask() -> Choice:
            response = await self._wire.decide(request, deadline_s=self._decide_deadline_s)
            return answered_choice(name, episode_id, response)

        return await self._guard.choose(ask, lambda why: local_choice(name, episode_id, baseline, failure=why))

    async def best_action(
        self,
        policy: str,
        *,
        episode_id: str,
        request_id: str | None = None,
        categories: Mapping[str, str] = NO_CATEGORIES,
        numbers: Mapping[str, float] = NO_NUMBERS,
        available: Iterable[str] = (),
    ) -> Choice:
        """Take the eligible action of highest mean, not randomised; arguments and failures are those of `decide`."""
        name, baseline = self._known(policy)
        request = requests.best_action_request(
            policy=name,
            request_id=self._new_id() if request_id is None else request_id,
            episode_id=episode_id,
            categories=categories,
            numbers=numbers,
            available=available,
        )

        async def ask() -> Choice:
            response = await self._wire.best_action(request, deadline_s=self._decide_deadline_s)
            return answered_choice(name, episode_id, response.decision, mean=response.mean)

        return await self._guard.choose(ask, lambda why: local_choice(name, episode_id, baseline, failure=why))

    async def log_episode(
        self, handle: EpisodeHandle, trajectory: Trajectory, *, served_action_key: str = "", request_id: str = ""
    ) -> bool:
        """Log what happened in an episode; returns once it is committed.

        Args:
            handle: of the episode's choice.
            trajectory: its calls, guardrail events, approvals, and how it ended.
            served_action_key: the action really served, where it was not the decided one.
            request_id: empty: made from the content, so that the same log entry is recorded once.

        Returns:
            True if the same entry had been recorded before.
        """
        request = requests.log_request(handle, trajectory, served_action_key=served_action_key, request_id=request_id)
        response = await self._retrier.persist(self._wire.log_episode, request)
        return response.duplicate

    def stream_episodes(self, episodes: AsyncIterable[LogEpisodeRequest]) -> AsyncIterator[StreamEpisodesResponse]:
        """Log many episodes over one stream; each answer acknowledges one commit by its request id.

        Args:
            episodes: made by `log_request`. What is not acknowledged when this raises must be sent again.
        """
        return self._wire.stream_episodes(episodes)

    async def record_outcomes(self, outcomes: Sequence[Outcome]) -> tuple[OutcomeResult, ...]:
        """Record 1 to 500 outcomes now; returns one result each, in order, once they are committed."""
        if not 1 <= len(outcomes) <= MAX_BATCH:
            raise ValueError(f"a batch has 1 to {MAX_BATCH} outcomes, got {len(outcomes)}")
        request = RecordOutcomesRequest(parent=self._parent, outcomes=outcomes)
        return tuple((await self._retrier.persist(self._wire.record_outcomes, request)).results)

    async def settle(self, handle: EpisodeHandle) -> None:
        """Compute the episode's reward now, without waiting for the windows."""
        request = SettleEpisodeRequest(policy=handle.policy, episode_id=handle.episode_id, request_id=self._new_id())
        await self._retrier.persist(self._wire.settle, request)

    async def activate(self, handle: EpisodeHandle, *, served_action_key: str = "") -> None:
        """Say which action was served; does nothing after a fallback, which left no decision that can be named."""
        if not handle.decision:
            return
        await self._local.flush(handle, deadline_s=self._deadline_s)
        request = requests.activate_request(handle, served_action_key, request_id=self._new_id())
        await self._retrier.persist(self._wire.activate, request)

    async def cancel(self, handle: EpisodeHandle) -> None:
        """Say that nothing was served, so that the episode is not scored; does nothing after a fallback."""
        if not handle.decision:
            return
        await self._local.flush(handle, deadline_s=self._deadline_s)
        request = CancelRequest(decision=handle.decision, decision_token=handle.token, request_id=self._new_id())
        await self._retrier.persist(self._wire.cancel, request)

    async def get_arm(self, content_hash: str) -> Arm:
        """Read an arm's content by its full hash, once; afterwards, and for the baselines' arms, from memory.

        Raises:
            CallFailed: there is no such arm, or no answer.
            ArmContentMismatch: the content that came has another hash.
        """
        return await self._arms.get(content_hash)

    def about(self, handle: EpisodeHandle) -> OutcomeMaker:
        """Make outcomes about an episode, e.g. `kedge.outcomes.put(kedge.about(choice.handle).thumb(+1))`."""
        return OutcomeMaker(handle=handle, now=self._now, new_id=self._new_id)

    def episode(self, policy: str, episode_id: str, *, token: bytes = b"") -> EpisodeHandle:
        """Speak about an episode whose choice is no longer at hand."""
        name = requests.policy_name(self._tenant, policy)
        return EpisodeHandle(policy=name, episode_id=requests.checked_id("episode_id", episode_id), token=token)

    def new_episode_id(self) -> str:
        """Make an episode's id."""
        return self._new_id()

    async def ready(self, *, timeout_s: float = 5.0) -> bool:
        """Connect ahead of the first decision, whose short deadline would otherwise include it."""
        is_connected = await self._wire.ready(deadline_s=timeout_s)
        return is_connected and await self._local.ready(deadline_s=timeout_s)

    async def close(self, *, timeout_s: float = 5.0) -> tuple[Outcome, ...]:
        """Deliver waiting outcomes for at most so long, then disconnect; returns those that could not be delivered."""
        try:
            await self._local.close(timeout_s=timeout_s)
            return await self.outcomes.close(timeout_s=timeout_s)
        finally:
            await self._wire.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.close()

    async def _record_once(self, outcomes: Sequence[Outcome]) -> tuple[OutcomeResult, ...]:
        request = RecordOutcomesRequest(parent=self._parent, outcomes=outcomes)
        response = await self._wire.record_outcomes(request, deadline_s=self._deadline_s)
        return tuple(response.results)

    def _known(self, policy: str) -> tuple[str, Baseline]:
        known = self._baselines.get(policy)
        if known is None:
            name = requests.policy_name(self._tenant, policy)
            raise ValueError(f"{name} has no baseline in this client's configuration; add it to `baselines`")
        return known
