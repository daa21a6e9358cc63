"""Errors become gRPC status in one place, with reason, facts and a sentence."""

import logging
from collections.abc import AsyncIterator

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc import aio

from kedge.bandit.v1 import (
    error_reason_pb2,
    governance_service_pb2,
    governance_service_pb2_grpc,
    policy_service_pb2,
    policy_service_pb2_grpc,
)
from kedge_bandit.adapters.grpc.status import (
    CODES,
    INTERNAL_MESSAGE,
    STATUS_DETAILS_KEY,
    Context,
    answering,
    reason_of,
    status_of,
)
from kedge_bandit.domain.errors import PolicyNotFound, QueueFull, VersionMismatch


class Policies(policy_service_pb2_grpc.PolicyServiceServicer):
    @answering
    async def GetPolicy(
        self, request: policy_service_pb2.GetPolicyRequest, context: Context
    ) -> policy_service_pb2.GetPolicyResponse:
        if request.name == "bug":
            raise ZeroDivisionError("a secret of the inside")
        raise VersionMismatch(expected=3, found=4)


class Governance(governance_service_pb2_grpc.GovernanceServiceServicer):
    @answering
    async def WatchAudit(
        self, request: governance_service_pb2.WatchAuditRequest, context: Context
    ) -> AsyncIterator[governance_service_pb2.WatchAuditResponse]:
        yield governance_service_pb2.WatchAuditResponse()
        raise PolicyNotFound("support")


@pytest.fixture
async def channel() -> AsyncIterator[aio.Channel]:
    server = aio.server()
    policy_service_pb2_grpc.add_PolicyServiceServicer_to_server(Policies(), server)
    governance_service_pb2_grpc.add_GovernanceServiceServicer_to_server(Governance(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel
    await server.stop(None)


def rich(error: aio.AioRpcError) -> status_pb2.Status:
    [value] = [value for key, value in error.trailing_metadata() if key == STATUS_DETAILS_KEY]
    assert isinstance(value, bytes)
    return status_pb2.Status.FromString(value)


def test_every_reason_of_the_wire_has_a_code() -> None:
    names = {name.removeprefix("ERROR_REASON_") for name in error_reason_pb2.ErrorReason.DESCRIPTOR.values_by_name}
    assert names - {"UNSPECIFIED"} == set(CODES)


async def test_a_refusal_carries_code_sentence_reason_and_facts(channel: aio.Channel) -> None:
    stub = policy_service_pb2_grpc.PolicyServiceStub(channel)
    with pytest.raises(aio.AioRpcError) as refused:
        await stub.GetPolicy(policy_service_pb2.GetPolicyRequest())
    assert refused.value.code() is grpc.StatusCode.ABORTED
    assert "read it again" in (refused.value.details() or "")
    info = error_details_pb2.ErrorInfo()
    assert rich(refused.value).details[0].Unpack(info)
    assert (info.reason, info.domain) == ("VERSION_MISMATCH", "kedge.dev")
    assert dict(info.metadata) == {"expected": "3", "found": "4"}
    assert reason_of(refused.value) == "VERSION_MISMATCH"


async def test_a_bug_answers_internal_and_says_nothing_of_itself(
    channel: aio.Channel, caplog: pytest.LogCaptureFixture
) -> None:
    stub = policy_service_pb2_grpc.PolicyServiceStub(channel)
    with caplog.at_level(logging.ERROR), pytest.raises(aio.AioRpcError) as refused:
        await stub.GetPolicy(policy_service_pb2.GetPolicyRequest(name="bug"))
    assert refused.value.code() is grpc.StatusCode.INTERNAL
    assert refused.value.details() == INTERNAL_MESSAGE
    assert "ZeroDivisionError" in caplog.text


async def test_a_stream_keeps_what_it_sent_before_it_failed(channel: aio.Channel) -> None:
    stub = governance_service_pb2_grpc.GovernanceServiceStub(channel)
    received = []
    with pytest.raises(aio.AioRpcError) as refused:  # noqa: PT012 - the stream is what raises
        async for event in stub.WatchAudit(governance_service_pb2.WatchAuditRequest()):
            received.append(event)  # noqa: PERF401 - kept although the stream ends with an error
    assert len(received) == 1
    assert reason_of(refused.value) == "POLICY_NOT_FOUND"


def test_a_full_queue_says_when_to_come_back() -> None:
    code, status = status_of(QueueFull(retry_seconds=0.25))
    retry = error_details_pb2.RetryInfo()
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert status.details[1].Unpack(retry)
    assert retry.retry_delay.ToMilliseconds() == 250
