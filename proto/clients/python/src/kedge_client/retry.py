"""Say how long to wait before a retry, and retry what may be repeated."""

from dataclasses import dataclass
from random import Random
from typing import Final, Protocol, TypeVar

from kedge_client.clock import Clock
from kedge_client.errors import CallFailed

WRITE_ATTEMPTS: Final = 4
"""Attempts of a write that its caller waits for; the queue, which nobody waits for, does not give up."""

RequestT = TypeVar("RequestT", contravariant=True)
AnswerT = TypeVar("AnswerT", covariant=True)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Space out retries: doubling pauses with jitter, so that many callers do not return at once.

    Attributes:
        first_s: pause before the first retry, seconds.
        longest_s: where doubling ends, seconds.
    """

    first_s: float = 0.1
    longest_s: float = 30.0

    def delay_s(self, attempt: int, *, retry_after_s: float | None, random: Random) -> float:
        """Say how long to wait after the given failure.

        Args:
            attempt: failures before this one, from 0.
            retry_after_s: what the server asked for; the answer is never shorter.
            random: source of jitter.

        Returns:
            Seconds: what the server asked for plus half to all of `first_s · 2^attempt`, capped at `longest_s`.

        >>> Backoff(first_s=1.0).delay_s(3, retry_after_s=None, random=Random(7))
        5.2953...
        """
        pause_s = min(self.longest_s, self.first_s * 2.0 ** min(attempt, 32))
        return (retry_after_s or 0.0) + pause_s * (0.5 + 0.5 * random.random())


class Rpc(Protocol[RequestT, AnswerT]):
    """Be one unary call of the wire."""

    async def __call__(self, request: RequestT, *, deadline_s: float) -> AnswerT:
        """Ask once; raises CallFailed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrier:
    """Repeat a request that has one effect however often it arrives.

    Attributes:
        clock: passes the time between attempts.
        random: source of jitter.
        backoff: pauses between attempts.
        deadline_s: seconds for each attempt. A server that asks to wait longer is not waited for: its answer goes to
            the caller, who decides.
    """

    clock: Clock
    random: Random
    backoff: Backoff
    deadline_s: float

    async def persist(self, rpc: Rpc[RequestT, AnswerT], request: RequestT) -> AnswerT:
        """Try until it works, is refused, or has failed four times.

        Raises:
            CallFailed: the last failure.
        """
        failures = 0
        while True:
            try:
                return await rpc(request, deadline_s=self.deadline_s)
            except CallFailed as failure:
                failures += 1
                hopeless = not failure.is_transient or (failure.retry_after_s or 0.0) > self.deadline_s
                if hopeless or failures == WRITE_ATTEMPTS:
                    raise
                retry_after_s = failure.retry_after_s
            await self.clock.sleep(self.backoff.delay_s(failures - 1, retry_after_s=retry_after_s, random=self.random))
