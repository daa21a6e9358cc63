"""Answer the baseline whenever the server does not answer: the one place that turns failures into choices."""

from collections.abc import Awaitable, Callable

from kedge_client.breaker import CircuitBreaker
from kedge_client.choice import Choice
from kedge_client.clock import Clock
from kedge_client.errors import CallFailed
from kedge_client.listener import Listener, listener_failed

BREAKER_OPEN = "BREAKER_OPEN"
"""Failure of a choice for which nothing was asked, because the last calls failed."""


class Guard:
    """Ask behind a circuit breaker and never raise for what the server or the network did."""

    def __init__(self, *, breaker: CircuitBreaker, clock: Clock, listener: Listener) -> None:
        """Start with whatever state the breaker has."""
        self._breaker = breaker
        self._clock = clock
        self._listener = listener

    async def choose(self, ask: Callable[[], Awaitable[Choice]], baseline: Callable[[str], Choice]) -> Choice:
        """Ask if the breaker lets a call through, else answer the baseline at once.

        Args:
            ask: makes the call; raises CallFailed where there is no usable answer.
            baseline: makes the local answer from the name of the failure.
        """
        started = self._clock.monotonic()
        era = self._breaker.enter()
        choice = baseline(BREAKER_OPEN) if era is None else await self._attempt(era, ask, baseline)
        return self.told(choice, started)

    def told(self, choice: Choice, started: float) -> Choice:
        """Tell the listener of a choice, and give it back.

        Args:
            choice: what is served.
            started: when it was asked for, monotonic seconds.
        """
        try:
            seconds = self._clock.monotonic() - started
            self._listener.decided(choice, seconds=seconds, breaker=self._breaker.state)
        except Exception:  # noqa: BLE001 - as `contained`, which costs as much as a draw
            listener_failed("decided")
        return choice

    async def _attempt(
        self, era: int, ask: Callable[[], Awaitable[Choice]], baseline: Callable[[str], Choice]
    ) -> Choice:
        try:
            choice = await ask()
        except CallFailed as failure:
            if failure.is_transient:
                self._breaker.failed(era)
            else:
                # A server that refuses a request is well; one caller's bad request must not cost the others theirs.
                self._breaker.succeeded(era)
            return baseline(failure.summary)
        except BaseException:
            self._breaker.abandoned(era)
            raise
        self._breaker.succeeded(era)
        return choice
