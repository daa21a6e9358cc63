"""Deliver outcomes in the background: bounded, in batches, retried with the same keys until they are acknowledged.

An outcome stays at the head of the queue until the server has answered for it, so neither a lost acknowledgement nor a
crash of the sender loses one, and the idempotency keys keep a repetition from counting twice.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Final

from kedge.bandit.v1 import error_reason_pb2
from kedge.bandit.v1.feedback_service_pb2 import OutcomeResult
from kedge.bandit.v1.outcome_pb2 import (
    OUTCOME_STATUS_CONFLICT,
    OUTCOME_STATUS_DUPLICATE,
    OUTCOME_STATUS_LATE,
    OUTCOME_STATUS_RECORDED,
    OUTCOME_STATUS_REJECTED,
    Outcome,
)
from kedge_client.clock import Clock
from kedge_client.errors import CallFailed
from kedge_client.listener import Listener, contained
from kedge_client.requests import checked_id
from kedge_client.retry import Backoff

MAX_BATCH: Final = 500
"""Most outcomes that one RecordOutcomes takes."""
MAX_OUTCOME_BYTES: Final = 8192
"""Far above what a well-formed outcome needs, and low enough that a full batch fits into one message."""

_COME_BACK: Final = frozenset(
    {
        error_reason_pb2.ERROR_REASON_QUEUE_FULL,
        error_reason_pb2.ERROR_REASON_QUOTA_EXHAUSTED,
        error_reason_pb2.ERROR_REASON_STORE_UNAVAILABLE,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeCounts:
    """Account for every outcome that was put: the fields but `retries` add up to their number."""

    recorded: int = 0
    duplicates: int = 0
    late: int = 0
    conflicts: int = 0
    rejected: int = 0
    dropped: int = 0
    waiting: int = 0
    retries: int = 0


class OutcomeQueue:
    """Take outcomes without waiting and deliver them. Belongs to one event loop; not for use from other threads.

    What fails is tried again after a growing pause, never sooner than the server asked, until it is acknowledged. Only
    INVALID_ARGUMENT is final: the batch is halved until the outcome that is at fault stands alone, and that one is
    rejected.
    """

    def __init__(
        self,
        send: Callable[[Sequence[Outcome]], Awaitable[Sequence[OutcomeResult]]],
        *,
        clock: Clock,
        random: Random,
        listener: Listener,
        capacity: int = 10_000,
        backoff: Backoff | None = None,
    ) -> None:
        """Start empty; the first `put` starts the delivery.

        Args:
            send: one attempt to record a batch; raises CallFailed.
            clock: passes the time between retries.
            random: jitter of the retries.
            listener: hears of what is refused, dropped or delayed.
            capacity: most outcomes that wait; what comes on top is dropped and counted.
            backoff: pauses between retries.
        """
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}")
        self._send = send
        self._clock = clock
        self._random = random
        self._listener = listener
        self._capacity = capacity
        self._backoff = Backoff() if backoff is None else backoff
        self._waiting: deque[Outcome] = deque()
        self._batch_size = MAX_BATCH
        self._tally: dict[str, int] = dict.fromkeys(OutcomeCounts.__dataclass_fields__, 0)
        self._worker: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    @property
    def counts(self) -> OutcomeCounts:
        """Count what became of everything so far."""
        return OutcomeCounts(**{**self._tally, "waiting": len(self._waiting)})

    def put(self, outcome: Outcome) -> bool:
        """Hand over an outcome; needs a running event loop and never waits.

        The outcome is copied: what the caller does with the message afterwards changes nothing.

        Returns:
            False if the queue is full or closed; then the outcome is dropped and counted.

        Raises:
            ValueError: it has no idempotency key, no target, no observation, or is too large to be one.
        """
        _check(outcome)
        kept = Outcome()
        kept.CopyFrom(outcome)
        if self._closing.is_set() or len(self._waiting) >= self._capacity:
            self._drop([kept])
            return False
        self._waiting.append(kept)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.get_running_loop().create_task(self._deliver())
        return True

    async def flush(self) -> None:
        """Wait until the server has answered for everything that was put, however long that takes."""
        while self._waiting and self._worker is not None:
            await asyncio.shield(self._worker)

    async def close(self, *, timeout_s: float = 5.0) -> tuple[Outcome, ...]:
        """Take nothing more, try to deliver the rest, and stop.

        A pause between retries ends at once for one last try.

        Args:
            timeout_s: seconds to try.

        Returns:
            What could not be delivered in time, counted as dropped. Sending it later, with the same keys, is safe.
        """
        self._closing.set()
        try:
            async with asyncio.timeout(timeout_s):
                await self.flush()
        except TimeoutError:
            pass
        finally:
            if self._worker is not None:
                self._worker.cancel()
                await asyncio.wait([self._worker])
        left = tuple(self._waiting)
        self._waiting.clear()
        self._drop(left)
        return left

    async def _deliver(self) -> None:
        failures = 0
        while self._waiting:
            batch = tuple(islice(self._waiting, self._batch_size))
            try:
                results = await self._send(batch)
                if len(results) != len(batch):
                    raise CallFailed(code="INTERNAL", reason="UNUSABLE_ANSWER", detail="not one result per outcome")
            except CallFailed as failure:
                if failure.code == "INVALID_ARGUMENT":
                    self._narrow(batch, failure)
                    continue
                await self._wait_for_retry(failures, failure)
                failures += 1
                continue
            self._batch_size = min(2 * self._batch_size, MAX_BATCH)
            put_off = self._account(batch, results)
            if put_off is None:
                failures = 0
            else:
                await self._wait_for_retry(failures, put_off)
                failures += 1

    def _narrow(self, batch: Sequence[Outcome], failure: CallFailed) -> None:
        """Halve what the server refused as a whole; a single outcome is taken out and given up."""
        if len(batch) > 1:
            self._batch_size = len(batch) // 2
            return
        refusal = OutcomeResult(status=OUTCOME_STATUS_REJECTED, detail=str(failure))
        self._account(batch, [refusal])

    def _account(self, batch: Sequence[Outcome], results: Sequence[OutcomeResult]) -> CallFailed | None:
        """Take the answered batch off the queue; keep at its head what was put off.

        Returns:
            Why some were put off, or None if the server is done with all of them.
        """
        put_off: list[Outcome] = []
        reasons: set[str] = set()
        for outcome, result in zip(batch, results, strict=True):
            self._waiting.popleft()
            if result.status == OUTCOME_STATUS_REJECTED and result.error_reason in _COME_BACK:
                put_off.append(outcome)
                reasons.add(error_reason_pb2.ErrorReason.Name(result.error_reason).removeprefix("ERROR_REASON_"))
            else:
                self._settle(outcome, result)
        self._waiting.extendleft(reversed(put_off))
        if not put_off:
            return None
        reason = ",".join(sorted(reasons))
        return CallFailed(code="RESOURCE_EXHAUSTED", reason=reason, detail=f"{len(put_off)} outcomes were put off")

    def _settle(self, outcome: Outcome, result: OutcomeResult) -> None:
        field = {
            OUTCOME_STATUS_RECORDED: "recorded",
            OUTCOME_STATUS_DUPLICATE: "duplicates",
            OUTCOME_STATUS_LATE: "late",
            OUTCOME_STATUS_CONFLICT: "conflicts",
        }.get(result.status, "rejected")
        self._tally[field] += 1
        if field in {"conflicts", "rejected"}:
            with contained("outcome_refused"):
                self._listener.outcome_refused(outcome, result)

    async def _wait_for_retry(self, failures: int, failure: CallFailed) -> None:
        pause_s = self._backoff.delay_s(failures, retry_after_s=failure.retry_after_s, random=self._random)
        self._tally["retries"] += 1
        with contained("outcomes_delayed"):
            self._listener.outcomes_delayed(failure, waiting=len(self._waiting), retry_in_s=pause_s)
        if self._closing.is_set():
            await self._clock.sleep(pause_s)
            return
        # Closing must not sit out a long pause.
        pause = asyncio.ensure_future(self._clock.sleep(pause_s))
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait([pause, closing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
            closing.cancel()

    def _drop(self, outcomes: Sequence[Outcome]) -> None:
        self._tally["dropped"] += len(outcomes)
        for outcome in outcomes:
            with contained("outcome_dropped"):
                self._listener.outcome_dropped(outcome)


def _check(outcome: Outcome) -> None:
    checked_id("idempotency_key", outcome.idempotency_key)
    if outcome.WhichOneof("target") is None or outcome.WhichOneof("observation") is None:
        raise ValueError("an outcome needs a target and a value or ABSENT; make it with Kedge.about")
    if outcome.ByteSize() > MAX_OUTCOME_BYTES:
        raise ValueError(f"an outcome is at most {MAX_OUTCOME_BYTES} bytes, this one has {outcome.ByteSize()}")
