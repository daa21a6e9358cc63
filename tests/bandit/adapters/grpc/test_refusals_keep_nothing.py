"""What a handler had in hand is freed with its refusal, without the garbage collector."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Iterator

import pytest
from grpc import aio

from kedge.bandit.v1 import (
    governance_service_pb2,
    governance_service_pb2_grpc,
    policy_service_pb2,
    policy_service_pb2_grpc,
)
from kedge_bandit.adapters.grpc.status import Context, answering
from kedge_bandit.domain.errors import PolicyNotFound, VersionMismatch

HELD: list["weakref.ref[Held]"] = []


class Held:
    """Something large that a handler has in a variable when it fails."""

    def __init__(self) -> None:
        HELD.append(weakref.ref(self))


class Policies(policy_service_pb2_grpc.PolicyServiceServicer):
    @answering
    async def GetPolicy(
        self, request: policy_service_pb2.GetPolicyRequest, context: Context
    ) -> policy_service_pb2.GetPolicyResponse:
        held = Held()
        raise VersionMismatch(expected=3, found=len(HELD)) from ValueError(held)


class Governance(governance_service_pb2_grpc.GovernanceServiceServicer):
    @answering
    async def WatchAudit(
        self, request: governance_service_pb2.WatchAuditRequest, context: Context
    ) -> AsyncIterator[governance_service_pb2.WatchAuditResponse]:
        held = Held()
        yield governance_service_pb2.WatchAuditResponse()
        raise PolicyNotFound(str(type(held)))


@pytest.fixture
async def channel() -> AsyncIterator[aio.Channel]:
    server = aio.server()
    policy_service_pb2_grpc.add_PolicyServiceServicer_to_server(Policies(), server)
    governance_service_pb2_grpc.add_GovernanceServiceServicer_to_server(Governance(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with aio.insecure_channel(f"127.0.0.1:{port}") as opened:
        yield opened
    await server.stop(None)


@pytest.fixture
def no_collector() -> Iterator[None]:
    HELD.clear()
    gc.disable()
    yield
    gc.enable()


async def all_freed() -> None:
    for _ in range(3_000):
        if all(held() is None for held in HELD):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("what the handler held is still there")


@pytest.mark.usefixtures("no_collector")
async def test_a_refused_call_frees_what_its_handler_held(channel: aio.Channel) -> None:
    policies = policy_service_pb2_grpc.PolicyServiceStub(channel)
    for _ in range(5):
        with pytest.raises(aio.AioRpcError):
            await policies.GetPolicy(policy_service_pb2.GetPolicyRequest())
    assert len(HELD) == 5
    await all_freed()


@pytest.mark.usefixtures("no_collector")
async def test_a_refused_stream_frees_what_its_handler_held(channel: aio.Channel) -> None:
    governance = governance_service_pb2_grpc.GovernanceServiceStub(channel)
    for _ in range(5):
        call = governance.WatchAudit(governance_service_pb2.WatchAuditRequest())
        with pytest.raises(aio.AioRpcError):
            [response async for response in call]
    assert len(HELD) == 5
    await all_freed()
