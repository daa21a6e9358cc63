"""Tell the surrounding application what the client does, for its metrics."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kedge.bandit.v1.feedback_service_pb2 import OutcomeResult
from kedge.bandit.v1.outcome_pb2 import Outcome
from kedge_client.breaker import BreakerState
from kedge_client.choice import Choice
from kedge_client.errors import CallFailed

_LOG: Final = logging.getLogger("kedge_client")


class Listener:
    """Hear about each event; override what you count. Called in the event loop, so it must be quick.

    What a listener raises is logged and goes no further: metrics may fail, a decision may not.
    """

    def decided(self, choice: Choice, *, seconds: float, breaker: BreakerState) -> None:
        """Hear of a choice, how long it took, and where the breaker stands after it."""

    def outcome_refused(self, outcome: Outcome, result: OutcomeResult) -> None:
        """Hear of an outcome that the server will not take: REJECTED or CONFLICT, with the reason."""

    def outcome_dropped(self, outcome: Outcome) -> None:
        """Hear of an outcome that the full or closed queue did not take, or that closing left behind."""

    def outcomes_delayed(self, failure: CallFailed, *, waiting: int, retry_in_s: float) -> None:
        """Hear of a batch that failed and will be tried again."""

    def decision_refused(self, decision: str, why: str) -> None:
        """Hear of a decision made here that the server did not accept, by its name and one word."""

    def decision_dropped(self, decision: str) -> None:
        """Hear of a decision made here that was never reported: its episode will not be learned from."""

    def decisions_delayed(self, failure: CallFailed, *, waiting: int, retry_in_s: float) -> None:
        """Hear of a report that failed and will be tried again."""

    def watch_ended(self, policy: str, failure: CallFailed | None) -> None:
        """Hear that the stream of a policy's vectors ended, and begins again soon; None: the server drained."""


@contextmanager
def contained(event: str) -> Iterator[None]:
    """Keep what a listener raises away from the path that told it."""
    try:
        yield
    except Exception:  # noqa: BLE001 - whatever metrics raise, the decision goes on
        listener_failed(event)


def listener_failed(event: str) -> None:
    """Log what a listener raised; call it where that was caught."""
    _LOG.exception("listener.failed", extra={"event": event})
