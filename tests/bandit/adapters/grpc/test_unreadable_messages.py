"""Bytes that are no message are refused like any bad value, and neither logged nor waited for."""

import logging
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Any

import pytest
from grpc import aio

from kedge.bandit.v1 import episode_service_pb2, policy_service_pb2
from kedge_bandit.adapters.grpc.status import Context, answering, reason_of
from kedge_bandit.entrypoints.server import handler_of

NO_UTF8 = b"\x0a\x02\xff\xfe"
NESTED = b"\x0b" * 300
CUT = b"\x0a\x7fa"


class Policies:
    """One RPC that answers."""

    @answering
    async def GetPolicy(
        self, _request: policy_service_pb2.GetPolicyRequest, _context: Context
    ) -> policy_service_pb2.GetPolicyResponse:
        return policy_service_pb2.GetPolicyResponse()

    def __getattr__(self, _name: str) -> None:
        return None


class Episodes:
    """One RPC of each kind that takes a stream; the fields of what comes are counted."""

    @answering
    async def StreamEpisodes(
        self, request_iterator: AsyncIterator[episode_service_pb2.StreamEpisodesRequest], _context: Context
    ) -> AsyncIterator[episode_service_pb2.StreamEpisodesResponse]:
        async for _ in request_iterator:
            yield episode_service_pb2.StreamEpisodesResponse()

    @answering
    async def ImportEpisodes(
        self, request_iterator: AsyncIterator[episode_service_pb2.ImportEpisodesRequest], _context: Context
    ) -> episode_service_pb2.ImportEpisodesResponse:
        return episode_service_pb2.ImportEpisodesResponse(imported=len([1 async for _ in request_iterator]))

    def __getattr__(self, _name: str) -> None:
        return None


@pytest.fixture
async def channel() -> AsyncIterator[aio.Channel]:
    server = aio.server()
    policies = policy_service_pb2.DESCRIPTOR.services_by_name["PolicyService"]
    episodes = episode_service_pb2.DESCRIPTOR.services_by_name["EpisodeService"]
    server.add_generic_rpc_handlers((handler_of(policies, Policies()), handler_of(episodes, Episodes())))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with aio.insecure_channel(f"127.0.0.1:{port}") as opened:
        yield opened
    await server.stop(None)


async def requests(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


@pytest.mark.parametrize("sent", [NO_UTF8, NESTED, CUT])
async def test_a_request_that_is_no_message_is_an_invalid_value(
    channel: aio.Channel, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    call: Any = channel.unary_unary("/kedge.bandit.v1.PolicyService/GetPolicy")
    with caplog.at_level(logging.WARNING), pytest.raises(aio.AioRpcError) as caught:
        await call(sent)
    assert (caught.value.code().name, reason_of(caught.value)) == ("INVALID_ARGUMENT", "INVALID_VALUE")
    assert "GetPolicyRequest" in str(caught.value.details())
    assert not caplog.records


async def all_of(stream: AsyncIterable[object]) -> list[object]:
    return [answer async for answer in stream]


@pytest.mark.parametrize("rpc", ["StreamEpisodes", "ImportEpisodes"])
@pytest.mark.parametrize("sent", [NO_UTF8, NESTED, CUT])
async def test_a_stream_ends_at_the_first_request_that_is_no_message(
    channel: aio.Channel, rpc: str, sent: bytes
) -> None:
    kind = "stream_stream" if rpc == "StreamEpisodes" else "stream_unary"
    call: Any = getattr(channel, kind)(f"/kedge.bandit.v1.EpisodeService/{rpc}")(requests([b"", sent]))
    with pytest.raises(aio.AioRpcError) as caught:
        await (all_of(call) if rpc == "StreamEpisodes" else call)
    assert (caught.value.code().name, reason_of(caught.value)) == ("INVALID_ARGUMENT", "INVALID_VALUE")
