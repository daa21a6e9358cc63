"""Many tenants at once: onboarded in one command, all of them served, over few connections."""

import json
from functools import partial
from pathlib import Path

from kedge.bandit.v1 import decision_pb2, decision_service_pb2
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Services, Stack, wait_for
from tests.trust import size

TENANTS = size.of(12, 200)
CONNECTIONS = 30
"""Of all processes together: pools of 4 and 4 more for server and web, the worker's lanes, writers, listeners."""
CONNECTED = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"


def test_many_tenants_are_onboarded_at_once_and_all_are_served(stack: Stack, tmp_path: Path) -> None:
    names = [f"many-{number:03d}" for number in range(TENANTS)]
    listed = tmp_path / "names.txt"
    listed.write_text("\n".join(names), encoding="utf-8")

    for _ in range(2):  # a run that was cut is repeated as it was
        done = stack.kedge("tenant", "onboard", names[0], "--file", str(listed), "--json", timeout=600)
        assert done.returncode == 0, done.stderr
        assert [tenant["name"] for tenant in json.loads(done.stdout)] == [f"tenants/{name}" for name in names]

    for name in names:
        stack.put_policy(two_models(name))
    with stack.services() as services:
        for name in names:
            wait_for(partial(_draws, services, name), f"a draw for {name}")
    with stack.connect() as connection:
        assert connection.execute(CONNECTED).fetchall()[0][0] <= CONNECTIONS


def _draws(services: Services, tenant: str) -> bool:
    request = decision_service_pb2.DecideRequest(
        policy=f"tenants/{tenant}/policies/support", request_id="r1", episode_id="e1"
    )
    request.context.categories["task"] = "math"
    reason: int = services.decisions.Decide(request).reason
    return reason == decision_pb2.DECISION_REASON_DRAWN
