"""The oldest month goes under load: what was learned stays to 1e-9, and a rebuild starts from a signed sum."""

import threading
from collections.abc import Iterator

import pytest

from kedge.bandit.v1 import decision_pb2, policy_service_pb2, tenant_service_pb2
from tests.fixtures.core_app import ask, refusal
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Services, Stack, wait_for
from tests.trust import size
from tests.trust.months import age, cells_of, partitions_of
from tests.trust.searching import traces
from tests.trust.test_erase import lived, settled

TENANT = "retained"
POLICY = f"tenants/{TENANT}/policies/support"


@pytest.fixture(scope="module")
def services(stack: Stack) -> Iterator[Services]:
    key = stack.tenant(TENANT)
    stack.put_policy(two_models(TENANT))
    with stack.services() as operator:
        request = tenant_service_pb2.UpdateTenantRequest(name=f"tenants/{TENANT}", retention_days=90, because="a test")
        operator.tenants.UpdateTenant(request)
    with stack.services(key) as connected:
        yield connected


def rebuilt(services: Services) -> policy_service_pb2.RebuildPolicyResponse:
    request = policy_service_pb2.RebuildPolicyRequest(name=POLICY, verify_only=True)
    found: policy_service_pb2.RebuildPolicyResponse = services.policies.RebuildPolicy(request)
    return found


def batch(services: Services, name: str, count: int) -> list[str]:
    episodes = [f"{name}-{number}" for number in range(count)]
    lived(services, TENANT, episodes)
    settled(services, TENANT, episodes)
    return episodes


def test_the_oldest_month_goes_and_what_it_taught_stays(stack: Stack, services: Services) -> None:
    old = batch(services, "old", size.of(12, 2000))
    age(stack, TENANT, days=130)
    young = batch(services, "young", size.of(6, 1000))
    before, was = cells_of(stack, TENANT), rebuilt(services)
    assert was.agrees
    result = stack.kedge("retain", TENANT)
    assert result.returncode == 0, result.stderr
    assert "is gone" in result.stdout
    assert cells_of(stack, TENANT) == before
    now = rebuilt(services)
    assert now.agrees, now
    assert (now.max_error <= 1e-9, now.cells) == (True, was.cells)
    assert now.evidence_rows < was.evidence_rows
    assert traces(stack.database_url, [f",{old[0]},", f",{old[-1]},"]) == []
    assert traces(stack.database_url, [f",{young[0]},"]) != []
    assert stack.kedge("replay", TENANT, "--sample", "100").returncode == 0


def test_a_month_goes_under_load_and_every_answer_is_drawn(stack: Stack, services: Services) -> None:
    batch(services, "older", size.of(12, 2000))
    age(stack, TENANT, days=125)
    stop, reasons, errors = threading.Event(), set[int](), list[str]()

    def load(number: int) -> None:
        count = 0
        while not stop.is_set():
            try:
                reasons.add(ask(services, f"load-{number}-{count}", policy=POLICY).reason)
                lived(services, TENANT, [f"lived-{number}-{count}"])
            except Exception as error:  # noqa: BLE001 - shown below
                errors.append(repr(error)[:300])
                return
            count += 1

    threads = [threading.Thread(target=load, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        wait_for(lambda: bool(reasons), "the load")
        had = partitions_of(stack, TENANT)
        result = stack.kedge("retain", TENANT)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert result.returncode == 0, result.stderr
    assert errors == []
    assert reasons == {decision_pb2.DECISION_REASON_DRAWN}
    assert len(partitions_of(stack, TENANT)) < len(had)
    wait_for(lambda: rebuilt(services).agrees, "the worker to catch up")
    assert rebuilt(services).max_error <= 1e-9


def test_an_altered_snapshot_is_refused_and_nothing_is_dropped_on_it(stack: Stack, services: Services) -> None:
    with stack.connect() as owner:
        owner.execute(f"UPDATE t_{TENANT}.evidence_snapshot SET weight = weight * 2")
        assert refusal(lambda: rebuilt(services)) == "NUMERICAL_FAILURE"
        owner.execute(f"UPDATE t_{TENANT}.evidence_snapshot SET weight = weight / 2")


@pytest.mark.usefixtures("services")
def test_a_month_that_is_not_old_enough_stays(stack: Stack) -> None:
    had = partitions_of(stack, TENANT)
    assert "no month is due" in stack.kedge("retain", TENANT).stdout
    assert partitions_of(stack, TENANT) == had
    refused = stack.kedge("tenant", "update", TENANT, "--retention-days", "30")
    assert "INVALID_VALUE" in refused.stderr
