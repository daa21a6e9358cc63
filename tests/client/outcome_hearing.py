"""What the tests of the outcome queue share: outcomes with counted keys, and a listener that remembers."""

import asyncio

from kedge.bandit.v1.feedback_service_pb2 import OutcomeResult
from kedge.bandit.v1.outcome_pb2 import Outcome
from kedge_client import CallFailed, EpisodeHandle, Kedge, Listener

HANDLE = EpisodeHandle(policy="tenants/acme/policies/support", episode_id="turn-1", token=b"token")


class Refusals(Listener):
    """Remember what was refused, dropped and delayed."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.dropped: list[str] = []
        self.delays: list[tuple[str, float]] = []
        self.paused = asyncio.Event()

    def outcome_refused(self, outcome: Outcome, result: OutcomeResult) -> None:
        self.refused.append(outcome.idempotency_key)

    def outcome_dropped(self, outcome: Outcome) -> None:
        self.dropped.append(outcome.idempotency_key)

    def outcomes_delayed(self, failure: CallFailed, *, waiting: int, retry_in_s: float) -> None:
        self.delays.append((failure.summary, retry_in_s))
        self.paused.set()


def put(kedge: Kedge, count: int, *, first: int = 0) -> list[str]:
    keys = [f"key-{number}" for number in range(first, first + count)]
    for key in keys:
        kedge.outcomes.put(kedge.about(HANDLE).thumb(+1, key=key))
    return keys
