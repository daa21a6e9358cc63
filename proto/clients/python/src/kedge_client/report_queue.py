"""Report decisions that were made here: bounded, in batches, again and again until they are acknowledged."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from random import Random
from typing import Final

from kedge.bandit.v1.decision_pb2 import Decision, DecisionReason
from kedge.bandit.v1.decision_service_pb2 import ReportDecisionsRequest, ReportDecisionsResponse
from kedge.bandit.v1.policy_pb2 import Mode
from kedge_client.clock import Clock
from kedge_client.errors import CallFailed
from kedge_client.listener import Listener, contained
from kedge_client.local import Made
from kedge_client.retry import Backoff

MAX_BATCH: Final = 500
"""Most decisions that one ReportDecisions takes."""
MAX_BATCH_BYTES: Final = 2 * 1024 * 1024
"""Where a batch ends though it is not full; a message may have twice as much."""
LINGER_S: Final = 0.1
"""Seconds that decisions gather before they are reported."""


class ReportQueue:
    """Take the decisions of one policy without waiting and report them. Belongs to one event loop.

    A decision stays at the head of the queue until the server has answered for it; the same one twice counts once.
    """

    def __init__(
        self,
        policy: str,
        send: Callable[[ReportDecisionsRequest], Awaitable[ReportDecisionsResponse]],
        *,
        clock: Clock,
        random: Random,
        listener: Listener,
        capacity: int,
    ) -> None:
        """Start empty; the first `put` starts the delivery.

        Args:
            policy: `tenants/{tenant}/policies/{policy}`.
            send: one attempt to report a batch; raises CallFailed.
            clock: passes time.
            random: jitter of retries.
            listener: hears of what is refused, dropped or delayed.
            capacity: most decisions that wait; what comes on top is dropped and counted.
        """
        self._policy = policy
        self._send, self._clock, self._random, self._listener = send, clock, random, listener
        self._capacity = capacity
        self._backoff = Backoff(longest_s=5.0)
        self._waiting: deque[Made] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._urgent = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Decisions that are not answered for yet."""
        return len(self._waiting)

    def put(self, made: Made) -> None:
        """Hand a decision over; needs a running event loop and never waits."""
        if len(self._waiting) >= self._capacity:
            self._dropped(made)
            return
        self._waiting.append(made)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.get_running_loop().create_task(self._deliver())
        if len(self._waiting) >= MAX_BATCH:
            self._urgent.set()

    async def flush(self) -> None:
        """Wait until all that waits is answered for."""
        self._urgent.set()
        if self._worker is not None and self._waiting:
            await asyncio.wait([self._worker])

    async def close(self) -> None:
        """Stop, and drop what could not be reported; `flush` first."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait([self._worker])
        while self._waiting:
            self._dropped(self._waiting.popleft())

    async def _deliver(self) -> None:
        failures = 0
        while self._waiting:
            await self._gather()
            batch = self._batch()
            if not batch:
                continue
            try:
                answer = await self._send(ReportDecisionsRequest(policy=self._policy, decisions=batch))
                if len(answer.refusals) != len(batch):
                    raise CallFailed(code="INTERNAL", reason="UNUSABLE_ANSWER", detail="not one answer per decision")
            except CallFailed as failure:
                if not failure.is_transient:
                    self._account(batch, [failure.summary] * len(batch))
                    continue
                pause_s = self._backoff.delay_s(failures, retry_after_s=failure.retry_after_s, random=self._random)
                failures += 1
                with contained("decisions_delayed"):
                    self._listener.decisions_delayed(failure, waiting=len(self._waiting), retry_in_s=pause_s)
                await self._clock.sleep(pause_s)
                continue
            failures = 0
            self._account(batch, answer.refusals)

    async def _gather(self) -> None:
        """Let more decisions come, unless a batch is full or somebody waits."""
        if len(self._waiting) >= MAX_BATCH:
            return
        try:
            async with asyncio.timeout(LINGER_S):
                await self._urgent.wait()
        except TimeoutError:
            return
        self._urgent.clear()

    def _batch(self) -> list[Decision]:
        """Spell the first decisions that wait; one that the wire cannot carry (half a character, say) is dropped."""
        batch: list[Decision] = []
        size = 0
        while len(batch) < min(MAX_BATCH, len(self._waiting)):
            made = self._waiting[len(batch)]
            try:
                message = decision_message(self._policy, made)
            except ValueError:
                del self._waiting[len(batch)]
                self._dropped(made)
                continue
            size += message.ByteSize()
            if batch and size > MAX_BATCH_BYTES:
                break
            batch.append(message)
        return batch

    def _account(self, batch: list[Decision], refusals: Iterable[str]) -> None:
        for message, refusal in zip(batch, refusals, strict=True):
            self._waiting.popleft()
            if refusal:
                with contained("decision_refused"):
                    self._listener.decision_refused(message.name, refusal)

    def _dropped(self, made: Made) -> None:
        with contained("decision_dropped"):
            self._listener.decision_dropped(_name(self._policy, made))


def decision_message(policy: str, made: Made) -> Decision:
    """Build what is reported of a decision; the server recomputes all of it.

    Args:
        policy: `tenants/{tenant}/policies/{policy}`.
        made: the decision.
    """
    message = Decision(
        name=_name(policy, made),
        policy=policy,
        episode_id=made.episode_id,
        request_id=made.request_id or made.decision_id,
        bucket=made.bucket,
        action_key=made.action_key,
        propensity=made.propensity,
        policy_version=made.policy_version,
        allocation_version=made.allocation_version,
        seed_epoch=made.seed_epoch,
        mode=Mode.ValueType(made.mode),
        reason=DecisionReason.ValueType(made.reason),
        is_randomised=made.is_randomised,
        judge_requested=made.judge_requested,
        judge_rate=made.judge_rate,
        shadow_action_key=made.shadow_key,
        available_action_keys=made.available,
    )
    for name, value in made.features.items():
        if isinstance(value, str):
            message.context.categories[name] = value
        else:
            message.context.numbers[name] = value
    message.decision_time.FromMilliseconds(made.milliseconds)
    return message


def _name(policy: str, made: Made) -> str:
    return f"{policy.partition('/policies/')[0]}/decisions/{made.decision_id}"
