"""Two first calls of one episode on two replicas, at once and without token: one decision where a tenant is durable."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from grpc import aio

from kedge.bandit.v1 import (
    decision_pb2,
    decision_service_pb2,
    decision_service_pb2_grpc,
    episode_pb2,
    policy_service_pb2,
    tenant_service_pb2,
)
from kedge_bandit.adapters.postgres.ledger import schema_of
from kedge_bandit.domain.identifiers import TenantId
from tests.fixtures.core_app import POLICY, TENANT, episode_of, log, success
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Stack, running_stack, wait_for

PAIRS = 200
DURABLE = "durable"
REPLICAS = 2

Pair = tuple[Any, Any]


@pytest.fixture(scope="module")
def replicas(fresh_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(fresh_database, tmp_path_factory.mktemp("kedge"), KEDGE_REPLICAS=str(REPLICAS)) as stack:
        yield stack


def onboard(stack: Stack, tenant: str, *, durable: bool) -> str:
    """Make a tenant with a policy that both replicas know."""
    key = stack.tenant(tenant)
    with stack.services() as services:
        request = tenant_service_pb2.UpdateTenantRequest(name=f"tenants/{tenant}", durable=durable, because="test")
        assert services.tenants.UpdateTenant(request).tenant.durable is durable
    stack.put_policy(two_models(tenant))
    return key


def arms(stack: Stack, tenant: str) -> tuple[str, str]:
    with stack.services() as services:
        name = f"tenants/{tenant}/policies/support"
        policy = services.policies.GetPolicy(policy_service_pb2.GetPolicyRequest(name=name)).policy
    large, small = policy.action_keys
    return small, large


def request_of(tenant: str, episode: str, available: tuple[str, ...]) -> Any:
    return decision_service_pb2.DecideRequest(
        policy=f"tenants/{tenant}/policies/support",
        request_id=f"{episode}-{len(available)}",
        episode_id=episode,
        context=decision_pb2.Context(categories={"task": "math"}),
        available_action_keys=available,
    )


async def ask_both(stack: Stack, key: str, tenant: str) -> list[Pair]:
    """Ask each replica about each episode at the same moment: one may draw, the other has the baseline alone."""
    small, large = arms(stack, tenant)
    metadata = (("authorization", f"Bearer {key}"),)
    async with AsyncExitStack() as exits:
        stubs: list[Any] = []
        for number in range(REPLICAS):
            channel = await exits.enter_async_context(aio.insecure_channel(f"127.0.0.1:{stack.port + number}"))
            stubs.append(decision_service_pb2_grpc.DecisionServiceStub(channel))
        await until_drawn(stubs, tenant, metadata)

        async def pair(number: int) -> Pair:
            wide, narrow = (small, large), (small,)
            first, second = (wide, narrow) if number % 2 else (narrow, wide)
            calls = [
                stub.Decide(request_of(tenant, f"pair-{number}", available), metadata=metadata, timeout=30)
                for stub, available in zip(stubs, (first, second), strict=True)
            ]
            one, other = await asyncio.gather(*calls)
            return one, other

        return [await pair(number) for number in range(PAIRS)]


async def until_drawn(stubs: list[Any], tenant: str, metadata: Any) -> None:
    """Wait until every replica serves the policy's allocation."""
    for place, stub in enumerate(stubs):
        for attempt in range(2_000):
            try:
                request = request_of(tenant, f"warm-{place}-{attempt}", ())
                answer = await stub.Decide(request, metadata=metadata, timeout=30)
            except aio.AioRpcError:
                answer = None
            if answer is not None and answer.is_randomised:
                break
            await asyncio.sleep(0.01)
        else:
            raise AssertionError(f"replica {place} served no allocation in 20 s")


def rows(stack: Stack, tenant: str) -> list[tuple[str, str, bool]]:
    """Read decision, episode and whether another one was first."""
    with stack.connect() as connection:
        connection.execute(f"SET search_path TO {schema_of(TenantId(tenant))}")
        wanted = "SELECT decision_id::text, episode_id, superseded FROM decision WHERE episode_id LIKE 'pair-%'"
        return [(decision, episode, lost) for decision, episode, lost in connection.execute(wanted)]


async def test_a_durable_tenants_two_callers_get_one_decision_always(replicas: Stack) -> None:
    key = onboard(replicas, DURABLE, durable=True)

    pairs = await ask_both(replicas, key, DURABLE)

    for one, other in pairs:
        assert (one.decision, one.action_key, one.propensity) == (other.decision, other.action_key, other.propensity)
        assert one.reused is not other.reused
        assert one.reason == decision_pb2.DECISION_REASON_DRAWN
    assert len({one.action_key for one, _ in pairs}) == 2
    assert len({one.reused for one, _ in pairs}) == 2, "either replica was first now and then"
    stored = rows(replicas, DURABLE)
    assert sorted(decision for decision, _, _ in stored) == sorted(one.decision.split("/")[-1] for one, _ in pairs)
    assert not any(lost for _, _, lost in stored)


async def test_otherwise_the_second_is_superseded_and_what_differs_is_not_learned(replicas: Stack) -> None:
    key = onboard(replicas, TENANT, durable=False)
    pairs = await ask_both(replicas, key, TENANT)
    wait_for(lambda: len(rows(replicas, TENANT)) == 2 * PAIRS, "both decisions of every pair to be written")

    losers = [episode for _, episode, lost in rows(replicas, TENANT) if lost]
    assert sorted(losers) == sorted(f"pair-{number}" for number in range(PAIRS))
    differ = [number for number, (one, other) in enumerate(pairs) if one.action_key != other.action_key]
    assert 0.2 * PAIRS < len(differ) < 0.6 * PAIRS

    with replicas.services(key) as services:
        for number, (one, other) in enumerate(pairs):
            for place, answer in enumerate((one, other)):
                log(services, answer, f"pair-{number}", request_id=f"log-{number}-{place}")
                success(services, f"pair-{number}-{place}", decision_token=answer.decision_token)
        last = f"pair-{PAIRS - 1}"
        wait_for(lambda: episode_of(services, last).state == episode_pb2.EPISODE_STATE_SETTLED, "the last to settle")
        found = [episode_of(services, f"pair-{number}") for number in range(PAIRS)]
        status = services.policies.GetPolicyStatus(policy_service_pb2.GetPolicyStatusRequest(name=POLICY))
    assert [number for number in range(PAIRS) if found[number].weight == 0.0] == differ
    assert {found[number].weight_reason for number in differ} == {"SUPERSEDED"}
    learned = sum(one.weight for one in status.cells)
    assert learned == pytest.approx(PAIRS - len(differ), rel=1e-3)
