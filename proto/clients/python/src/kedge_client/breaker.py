"""Stop asking a server that does not answer, and find out soon and cheaply when it does again."""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

FAILURES_TO_OPEN: Final = 5
"""Failures in a row after which nothing is asked for a while."""
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0


class BreakerState(StrEnum):
    """Say whether calls pass."""

    CLOSED = "CLOSED"
    OPEN = "OPEN"
    PROBING = "PROBING"


class CircuitBreaker:
    """Decide whether the next call may go out.

    Five failures in a row open it for one second; then a single call goes out as a probe while the others still do not.
    A probe that fails doubles the pause, up to 30 s; one that succeeds closes the breaker.

    Every change of state starts a new era. A call remembers the era it began in, and what it reports counts only while
    that era lasts: a slow failure from before cannot reopen a breaker that a probe has closed.

    >>> breaker = CircuitBreaker(monotonic=lambda: 0.0)
    >>> for _ in range(5):
    ...     breaker.failed(breaker.enter())
    >>> breaker.state, breaker.enter()
    (<BreakerState.OPEN: 'OPEN'>, None)
    """

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        """Start closed.

        Args:
            monotonic: seconds that never run backwards.
        """
        self._monotonic = monotonic
        self._state = BreakerState.CLOSED
        self._era = 0
        self._failures = 0
        self._pause_s = FIRST_PAUSE_S
        self._open_until = 0.0

    @property
    def state(self) -> BreakerState:
        """Say where the breaker stands."""
        return self._state

    def enter(self) -> int | None:
        """Ask for leave to call.

        Returns:
            The era to report back with, exactly once, by `succeeded`, `failed` or `abandoned`; None if the call must
            not go out.
        """
        if self._state is BreakerState.CLOSED:
            return self._era
        if self._state is BreakerState.OPEN and self._monotonic() >= self._open_until:
            self._change(BreakerState.PROBING)
            return self._era
        return None

    def succeeded(self, era: int | None) -> None:
        """Report that the server answered, be it with a refusal of the request."""
        if era != self._era:
            return
        self._failures = 0
        if self._state is BreakerState.PROBING:
            self._pause_s = FIRST_PAUSE_S
            self._change(BreakerState.CLOSED)

    def failed(self, era: int | None) -> None:
        """Report that the server did not answer or failed."""
        if era != self._era:
            return
        if self._state is BreakerState.PROBING:
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
            self._open()
            return
        self._failures += 1
        if self._failures >= FAILURES_TO_OPEN:
            self._open()

    def abandoned(self, era: int | None) -> None:
        """Report that the caller gave up before there was an answer; the next call becomes the probe."""
        if era == self._era and self._state is BreakerState.PROBING:
            self._open_until = self._monotonic()
            self._change(BreakerState.OPEN)

    def _open(self) -> None:
        self._open_until = self._monotonic() + self._pause_s
        self._change(BreakerState.OPEN)

    def _change(self, state: BreakerState) -> None:
        self._state = state
        self._era += 1
        self._failures = 0
