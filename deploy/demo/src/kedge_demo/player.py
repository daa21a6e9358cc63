"""Play one tenant's turns against a running server, as its core application would.

Three flows run side by side: slots that ask for actions, senders that deliver outcomes in batches and hand the episode
on once they are acknowledged, and one stream that logs the episodes. Thumbs follow some turns later, as corrections.
Every call is repeated until it is acknowledged; every repetition carries the same keys, so that it has one effect.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Final

import numpy as np

from kedge.bandit.v1.episode_service_pb2 import LogEpisodeRequest
from kedge.bandit.v1.feedback_service_pb2 import OutcomeResult
from kedge.bandit.v1.outcome_pb2 import Outcome, OutcomeStatus, Signal
from kedge_client.choice import Choice
from kedge_client.errors import CallFailed
from kedge_client.kedge import Kedge
from kedge_client.requests import log_request
from kedge_demo.counts import TenantCounts
from kedge_demo.pace import Pace, PlayFailed
from kedge_demo.trajectory import final_state, prompt_outcomes, thumb, trajectory
from kedge_demo.world import World, episode_id

BATCH: Final = 50
LONGEST_WAIT_S: Final = 0.25
THUMB_DELAY_TURNS: Final = 200
ATTEMPTS: Final = 40
RETRY_S: Final = 0.25
SENDERS: Final = 2
UNSENT_EPISODES: Final = 1_000
PUT_OFF: Final = frozenset({"QUEUE_FULL", "QUOTA_EXHAUSTED", "STORE_UNAVAILABLE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Remember one decided turn until everything about it is acknowledged."""

    turn: int
    action: int
    choice: Choice


class Player:
    """Play the turns of one world once."""

    def __init__(self, world: World, kedge: Kedge, pace: Pace) -> None:
        """Prepare; nothing is sent yet.

        Args:
            world: whose turns.
            kedge: client of the tenant; its decide deadline should be long, since a demo measures learning.
            pace: holds decisions back while learning lags.
        """
        self.counts = TenantCounts()
        self._world = world
        self._kedge = kedge
        self._pace = pace
        self._next_turn = 0
        self._release_due = asyncio.Event()
        self._decided: asyncio.Queue[Served | None] = asyncio.Queue(maxsize=UNSENT_EPISODES)
        self._to_log: asyncio.Queue[LogEpisodeRequest | None] = asyncio.Queue()
        self._unacknowledged: dict[str, LogEpisodeRequest] = {}
        self._states: dict[str, str] = {}
        self._thumbs: deque[tuple[int, Outcome]] = deque()
        self._waits_ms: list[float] = []

    async def play(self, slots: int, release: Callable[[int], Awaitable[None]]) -> None:
        """Play every turn with `slots` decisions in flight, and return when all of it is acknowledged.

        Args:
            slots: how many decisions wait for an answer at a time.
            release: called once, with the turn, when the world's release turn is reached.
        """
        async with asyncio.TaskGroup() as group:
            following = group.create_task(self._pace.follow())
            group.create_task(self._log_episodes())
            group.create_task(self._release_in_time(release))
            await group.create_task(self._decide_and_report(slots))
            following.cancel()
        percentiles = np.percentile(self._waits_ms, [50, 99])
        self.counts.decide_ms = {"p50": float(percentiles[0]), "p99": float(percentiles[1])}

    async def _decide_and_report(self, slots: int) -> None:
        async with asyncio.TaskGroup() as reporting:
            for _ in range(SENDERS):
                reporting.create_task(self._send_outcomes())
            async with asyncio.TaskGroup() as deciding:
                for _ in range(slots):
                    deciding.create_task(self._decide_turns())
            for _ in range(SENDERS):
                await self._decided.put(None)
        await self._send_thumbs(self._world.turns + THUMB_DELAY_TURNS)

    async def _release_in_time(self, release: Callable[[int], Awaitable[None]]) -> None:
        await self._release_due.wait()
        await release(self._next_turn)

    async def _decide_turns(self) -> None:
        while (turn := self._next_turn) < self._world.turns:
            self._next_turn += 1
            if turn >= self._world.release_turn:
                self._release_due.set()
            await self._pace.hold(turn)
            choice = await self._decide(turn)
            self.counts.count_reason(choice.reason)
            action = self._world.index_of[choice.action_key]
            await self._decided.put(Served(turn=turn, action=action, choice=choice))

    async def _decide(self, turn: int) -> Choice:
        context, name = self._world.context(turn), episode_id(turn)
        failure = ""
        for _ in range(ATTEMPTS):
            started = perf_counter()
            choice = await self._kedge.decide(
                self._world.policy_id,
                episode_id=name,
                request_id=name,
                categories=context.categories,
                numbers=context.numbers,
            )
            if not choice.fallback:
                self._waits_ms.append(1e3 * (perf_counter() - started))
                return choice
            failure = choice.failure
            self.counts.retries += 1
            await asyncio.sleep(RETRY_S)
        raise PlayFailed(f"{self._world.tenant}: no decision for {name} after {ATTEMPTS} attempts: {failure}")

    async def _send_outcomes(self) -> None:
        more = True
        while more:
            batch, more = await self._next_batch()
            outcomes = [outcome for served in batch for outcome in self._outcomes(served)]
            if outcomes:
                await self._record(outcomes)
            for served in batch:
                self._hand_on(served)
            await self._send_thumbs(self._next_turn)

    async def _next_batch(self) -> tuple[list[Served], bool]:
        """Collect turns until their outcomes fill a batch, a moment has passed, or no more come (then False)."""
        batch: list[Served] = []
        size, deadline = 0, None
        while size < BATCH - 1:
            try:
                async with asyncio.timeout_at(deadline):
                    served = await self._decided.get()
            except TimeoutError:
                break
            if served is None:
                return batch, False
            deadline = deadline or asyncio.get_running_loop().time() + LONGEST_WAIT_S
            batch.append(served)
            size += 1 + served.choice.judge_requested
        return batch, True

    def _outcomes(self, served: Served) -> list[Outcome]:
        make = self._kedge.about(served.choice.handle)
        name, judged = episode_id(served.turn), served.choice.judge_requested
        return prompt_outcomes(self._world, served.turn, served.action, make, name=name, judged=judged)

    def _hand_on(self, served: Served) -> None:
        """Log the episode now that its outcomes are in, and remember its thumb for later."""
        world, handle, name = self._world, served.choice.handle, episode_id(served.turn)
        request = log_request(handle, trajectory(world, served.turn, served.action), request_id=name)
        judged = served.choice.judge_requested
        self._states[name] = final_state(world, served.turn, served.action, judged=judged)
        self._unacknowledged[name] = request
        self._to_log.put_nowait(request)
        opinion = thumb(world, served.turn, served.action, self._kedge.about(handle), name=name)
        if opinion is not None:
            self._thumbs.append((served.turn + THUMB_DELAY_TURNS, opinion))

    async def _send_thumbs(self, turn: int) -> None:
        """Deliver the thumbs that are due, in batches that are full unless these are the last."""
        last = turn >= self._world.turns + THUMB_DELAY_TURNS
        while self._thumbs and self._thumbs[0][0] <= turn:
            due = [self._thumbs.popleft()[1]]
            while self._thumbs and self._thumbs[0][0] <= turn and len(due) < BATCH:
                due.append(self._thumbs.popleft()[1])
            if len(due) < BATCH // 2 and not last:
                self._thumbs.extendleft((turn, one) for one in reversed(due))
                return
            await self._record(due)

    async def _record(self, outcomes: list[Outcome]) -> None:
        """Deliver a batch, and count what became of each; a demo has no outcome that may be refused."""
        for outcome, result in zip(outcomes, await self._persist(outcomes), strict=True):
            status = OutcomeStatus.Name(result.status).removeprefix("OUTCOME_STATUS_")
            self.counts.count_outcome(Signal.Name(outcome.signal).removeprefix("SIGNAL_"), status)
            if status not in {"RECORDED", "DUPLICATE"}:
                raise PlayFailed(f"{self._world.tenant}: outcome {outcome.idempotency_key} {status}: {result.detail}")

    async def _persist(self, outcomes: list[Outcome]) -> tuple[OutcomeResult, ...]:
        attempts = 0
        while True:
            try:
                return await self._kedge.record_outcomes(outcomes)
            except CallFailed as failure:
                attempts += 1
                if attempts == ATTEMPTS or not failure.is_transient:
                    raise
                await asyncio.sleep(failure.retry_after_s or RETRY_S)

    async def _log_episodes(self) -> None:
        """Stream the episodes until each is acknowledged; a broken stream is opened again with what is missing."""
        attempts = 0
        while self.counts.episodes < self._world.turns:
            try:
                await self._stream_once()
            except CallFailed as failure:
                attempts += 1
                if attempts == ATTEMPTS or not failure.is_transient:
                    raise
                await asyncio.sleep(failure.retry_after_s or RETRY_S)

    async def _stream_once(self) -> None:
        async for answer in self._kedge.stream_episodes(self._requests()):
            name, request = answer.request_id, self._unacknowledged.get(answer.request_id)
            if request is None:
                continue
            if answer.error_reason.removeprefix("ERROR_REASON_") in PUT_OFF:
                self._to_log.put_nowait(request)
                continue
            if answer.error_reason:
                raise PlayFailed(f"{self._world.tenant}: {name} {answer.error_reason}: {answer.detail}")
            del self._unacknowledged[name]
            self.counts.episodes += 1
            state = self._states.pop(name)
            self.counts.states[state] = self.counts.states.get(state, 0) + 1
            if self.counts.episodes == self._world.turns:
                self._to_log.put_nowait(None)

    async def _requests(self) -> AsyncIterator[LogEpisodeRequest]:
        """Give the stream what is not acknowledged, then what comes, until None."""
        missing = tuple(self._unacknowledged.values())
        while not self._to_log.empty():
            self._to_log.get_nowait()
        for request in missing:
            yield request
        while (coming := await self._to_log.get()) is not None:
            yield coming
