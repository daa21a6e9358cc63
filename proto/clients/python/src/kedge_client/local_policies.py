"""Keep the policies that are decided here: watch their vectors, decide from them, report what was decided."""

import asyncio
import logging
from collections.abc import Iterable
from random import Random
from typing import Final

from kedge.bandit.v1.decision_service_pb2 import (
    ReportDecisionsRequest,
    ReportDecisionsResponse,
    WatchAllocationsRequest,
)
from kedge_client.action import Baseline
from kedge_client.choice import Choice, EpisodeHandle, local_choice
from kedge_client.clock import Clock
from kedge_client.errors import CallFailed, QuestionRefused
from kedge_client.listener import Listener, contained
from kedge_client.local import LocalPolicy
from kedge_client.question import Question
from kedge_client.report_queue import ReportQueue
from kedge_client.retry import Backoff
from kedge_client.wire import Wire

_LOG: Final = logging.getLogger("kedge_client")
LOCAL_ERROR: Final = "LOCAL_ERROR"
"""Failure of a choice that could not be made here though the vectors are: counted like a server's failure."""
LEASE_S: Final = 5.0
"""A stream that is silent for so long is given up for another one; a replica speaks every second."""
_REPORTS: Final = 20_000


class LocalPolicies:
    """Decide for some policies in this process. Belongs to one event loop.

    Args:
        names: `tenants/{tenant}/policies/{policy}` of each.
        wire: carries streams and reports.
        clock: tells and passes time.
        random: ids of decisions, jitter of retries.
        listener: hears of refusals, losses and delays.
        deadline_s: seconds for one report.
    """

    def __init__(
        self, names: Iterable[str], *, wire: Wire, clock: Clock, random: Random, listener: Listener, deadline_s: float
    ) -> None:
        self._wire, self._clock, self._random, self._listener = wire, clock, random, listener
        self._deadline_s = deadline_s
        self._queues = {
            name: ReportQueue(name, self._report_once, clock=clock, random=random, listener=listener, capacity=_REPORTS)
            for name in names
        }
        self._policies = {
            name: LocalPolicy(name, clock=clock, random=random, report=queue.put)
            for name, queue in self._queues.items()
        }
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._failures = dict.fromkeys(self._policies, 0)
        self._news = asyncio.Event()

    def __contains__(self, name: str) -> bool:
        return name in self._policies

    @property
    def waiting(self) -> int:
        """Decisions that are not reported yet."""
        return sum(queue.waiting for queue in self._queues.values())

    def decide(self, name: str, asked: Question, baseline: Baseline) -> Choice | None:
        """Decide; None while nothing has come to decide by, so that the server must be asked.

        Args:
            name: `tenants/{tenant}/policies/{policy}`, one of those that are decided here.
            asked: the question.
            baseline: served where the server would refuse the question.
        """
        if name not in self._watches:
            self.start()
        policy = self._policies[name]
        if not policy.is_held:
            return None
        try:
            return policy.decide(asked)
        except QuestionRefused as refused:
            return local_choice(name, asked.episode_id, baseline, failure=refused.reason)
        except Exception:  # noqa: BLE001 - whatever broke, the user's turn goes on with the baseline
            _LOG.exception("local_decide.failed", extra={"policy": name})
            return local_choice(name, asked.episode_id, baseline, failure=LOCAL_ERROR)

    def start(self) -> None:
        """Begin to watch; needs a running event loop."""
        loop = asyncio.get_running_loop()
        for name, policy in self._policies.items():
            if name not in self._watches:
                self._watches[name] = loop.create_task(self._follow(policy))

    async def ready(self, *, deadline_s: float) -> bool:
        """Wait until every policy can be decided here, and say whether that was in time."""
        self.start()
        try:
            async with asyncio.timeout(deadline_s):
                while not all(policy.is_live for policy in self._policies.values()):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    async def flush(self, handle: EpisodeHandle, *, deadline_s: float) -> None:
        """Report what waits of an episode's policy, for at most so long, so that its decision can be spoken about."""
        if not handle.token and handle.policy in self._queues:
            await self._flush(self._queues[handle.policy], deadline_s)

    async def close(self, *, timeout_s: float) -> None:
        """Stop watching, report the rest for at most so long, and drop what could not be."""
        for watch in self._watches.values():
            watch.cancel()
        if self._watches:
            await asyncio.wait(self._watches.values())
        await asyncio.gather(*(self._flush(queue, timeout_s) for queue in self._queues.values()))
        for queue in self._queues.values():
            await queue.close()

    async def _flush(self, queue: ReportQueue, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await queue.flush()
        except TimeoutError:
            return

    async def _follow(self, policy: LocalPolicy) -> None:
        """Watch for ever: what ends is begun again, at another replica where there is one."""
        backoff = Backoff(longest_s=2.0)
        while True:
            failure: CallFailed | None = None
            try:
                await self._watch_once(policy)
            except CallFailed as failed:
                failure = failed
            except TimeoutError:
                failure = CallFailed(code="DEADLINE_EXCEEDED", detail="the stream of vectors fell silent")
            except Exception as error:  # noqa: BLE001 - a message that cannot be read must not end all watching
                _LOG.exception("watch.unreadable", extra={"policy": policy.name})
                failure = CallFailed(code="INTERNAL", reason="UNUSABLE_ANSWER", detail=type(error).__name__)
            with contained("watch_ended"):
                self._listener.watch_ended(policy.name, failure)
            retry_after_s = None if failure is None else failure.retry_after_s
            attempt = self._failures[policy.name]
            self._failures[policy.name] += 1
            await self._clock.sleep(backoff.delay_s(attempt, retry_after_s=retry_after_s, random=self._random))

    async def _watch_once(self, policy: LocalPolicy) -> None:
        """Follow one stream to its end."""
        policy.begin()
        stream = self._wire.watch_allocations(WatchAllocationsRequest(policy=policy.name))
        async with asyncio.timeout(LEASE_S) as silence:
            async for message in stream:
                silence.reschedule(asyncio.get_running_loop().time() + LEASE_S)
                self._failures[policy.name] = 0
                policy.take(message)
                self._news.set()

    async def _report_once(self, request: ReportDecisionsRequest) -> ReportDecisionsResponse:
        return await self._wire.report_decisions(request, deadline_s=self._deadline_s)
