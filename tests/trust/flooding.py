"""Flood one tenant at many times its quota while another one goes about its work."""

import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from kedge.bandit.v1 import decision_pb2, feedback_service_pb2, outcome_pb2, policy_service_pb2, tenant_service_pb2
from kedge_bandit.adapters.grpc.status import reason_of
from tests.fixtures.core_app import ask, now
from tests.fixtures.stack import Services, Stack

THREADS = 4


class Flood:
    """What became of the flood's calls: reasons of decisions, and of refused rows."""

    def __init__(self) -> None:
        self.decided: Counter[str] = Counter()
        self.written: Counter[str] = Counter()
        self.delays: list[float] = []
        self.lock = threading.Lock()


@contextmanager
def flooding(stack: Stack, key: str, tenant: str, *, pause: float = 0.0) -> Iterator[Flood]:
    """Call Decide and RecordOutcomes of a tenant from several threads until the body ends.

    Args:
        pause: seconds between two calls of a thread.
    """
    flood, stop = Flood(), threading.Event()
    threads = [
        threading.Thread(target=_pour, args=(stack, key, tenant, number, flood, stop, pause))
        for number in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    try:
        yield flood
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _pour(stack: Stack, key: str, tenant: str, number: int, flood: Flood, stop: threading.Event, pause: float) -> None:
    policy = f"tenants/{tenant}/policies/support"
    with stack.services(key) as services:
        for count in itertools.count():
            if stop.is_set():
                return
            name = f"flood-{number}-{count}"
            decided = ask(services, name, policy=policy)
            reason = decision_pb2.DecisionReason.Name(decided.reason).removeprefix("DECISION_REASON_")
            outcome = outcome_pb2.Outcome(
                idempotency_key=name,
                episode=outcome_pb2.EpisodeRef(policy=policy, episode_id=name),
                signal=outcome_pb2.SIGNAL_JUDGE,
                value=0.5,
                observed_time=now(),
            )
            request = feedback_service_pb2.RecordOutcomesRequest(parent=f"tenants/{tenant}", outcomes=[outcome])
            wrote = "OK"
            try:
                services.feedback.RecordOutcomes(request)
            except grpc.RpcError as error:
                wrote = reason_of(error)
            with flood.lock:
                flood.decided[reason] += 1
                flood.written[wrote] += 1
            stop.wait(pause)


def set_quota(services: Services, tenant: str, *, decisions: float, rows: float) -> Any:
    """Give a tenant a quota; replicas have it after their next poll."""
    request = tenant_service_pb2.UpdateTenantRequest(
        name=f"tenants/{tenant}", decisions_per_second=decisions, rows_per_second=rows, because="a test"
    )
    return services.tenants.UpdateTenant(request)


def belief(services: Services, tenant: str) -> list[tuple[str, str, float, float, float]]:
    """Read a tenant's cells, and the number of its newest allocation."""
    name = f"tenants/{tenant}/policies/support"
    found = services.policies.GetPolicyStatus(policy_service_pb2.GetPolicyStatusRequest(name=name))
    return [(one.bucket, one.action_key, one.weight, one.reward_sum, one.as_of) for one in found.cells]
