"""What an endpoint answers is bounded in time and in size, and whatever it says ends as AnswerFailed."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from kedge_bandit.adapters.holdout.connect import LOOPBACK, Connections
from kedge_bandit.adapters.http_answer import AnswerTooLarge, ask
from kedge_bandit.adapters.webhook_post import HttpPost, new_client
from kedge_bandit.application import answer_cases
from kedge_bandit.application.answer_cases import Run
from kedge_bandit.application.answer_ports import AnswerFailed
from kedge_bandit.application.holdout_ports import Answer, AnswererKind, AnswererSettings
from kedge_bandit.domain.dimension import Arm, Dimension
from kedge_bandit.domain.holdout import HoldoutCase, Message, RegexCheck
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from tests.fixtures.chat_server import chat_server

ACME, SUPPORT = TenantId("acme"), PolicyName("support")
ARMS = (Arm(dimension=Dimension.MODEL_ROUTE, name="small", content="small-model"),)
CASE = HoldoutCase(messages=(Message("user", "2 + 2?"),), check=RegexCheck("4"))
Say = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def saying(say: Say) -> AsyncIterator[str]:
    """Run a server that answers every request with what `say` writes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(ConnectionError, asyncio.IncompleteReadError):  # whoever asked hung up
            await reader.readuntil(b"\r\n\r\n")
            await say(writer)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()


async def asked(address: str, folder: Path, seconds: float = 30.0) -> Answer:
    settings = AnswererSettings(kind=AnswererKind.OPENAI, address=address, timeout_seconds=seconds)
    connect = Connections(secrets=folder, scripts=folder, hosts=LOOPBACK, pauses=())
    async with connect.answerer(ACME, settings, bytes(32)) as fetch:
        return await fetch(ACME, SUPPORT, CASE, ARMS)


async def drip(writer: asyncio.StreamWriter) -> None:
    """Write a byte now and then, for ever: no single read ever waits long."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
    while not writer.is_closing():
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.01)


async def drip_headers(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nx-slow: ")
    while not writer.is_closing():
        writer.write(b"a")
        await writer.drain()
        await asyncio.sleep(0.01)


async def zipped(writer: asyncio.StreamWriter) -> None:
    body = gzip.compress(bytes(8 * 1024 * 1024))
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    await writer.drain()


async def endless(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"10000\r\n" + bytes(65536) + b"\r\n")
        await writer.drain()


@pytest.mark.parametrize("say", [drip, drip_headers])
async def test_an_answer_that_only_drips_is_given_up_in_time(say: Say, tmp_path: Path) -> None:
    async with saying(say) as address:
        with pytest.raises(AnswerFailed, match=r"no answer within 0\.3 s"):
            await asked(address, tmp_path, seconds=0.3)


@pytest.mark.parametrize(("say", "told"), [(zipped, "encoded body"), (endless, "over 1048576 bytes")])
async def test_a_body_is_never_unpacked_nor_read_beyond_its_limit(say: Say, told: str, tmp_path: Path) -> None:
    async with saying(say) as address:
        with pytest.raises(AnswerFailed, match=told):
            await asked(address, tmp_path)


async def test_a_webhooks_receiver_that_only_drips_is_given_up_in_time() -> None:
    async with saying(drip_headers) as address, new_client() as client:
        answered = await HttpPost(client, seconds=0.3)(address, b"{}", {})
    assert not answered.is_taken
    assert "no answer within 0.3 s" in str(answered)


async def test_the_limit_is_of_bytes_on_the_wire() -> None:
    async def forty(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 40\r\n\r\n" + b"x" * 40)
        await writer.drain()

    async with saying(forty) as address, httpx2.AsyncClient(trust_env=False) as client:
        assert (await ask(client, "GET", address, seconds=30, most_bytes=40)).content == b"x" * 40
        with pytest.raises(AnswerTooLarge):
            await ask(client, "GET", address, seconds=30, most_bytes=39)


@pytest.mark.parametrize(
    "document",
    [
        {"choices": [{"message": {"content": "4"}}], "usage": "many"},
        {"choices": [{"message": {"content": "4"}}], "usage": {"prompt_tokens": "many"}},
        {"choices": [{"message": {"content": "4"}}], "usage": {"prompt_tokens": float("inf")}},
        {"choices": [{"message": {"content": "4"}}], "usage": {"completion_tokens": -1}},
        {"choices": [{"message": {"tool_calls": [7]}}]},
        {"choices": [{"message": "4"}]},
        [],
    ],
)
async def test_what_is_no_completion_is_one_kind_of_error(document: Any, tmp_path: Path) -> None:
    body = json.dumps(document).encode()

    async def say(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()

    async with saying(say) as address:
        with pytest.raises(AnswerFailed, match="did not answer as OpenAI"):
            await asked(address, tmp_path)


@pytest.mark.parametrize("text", ["4\0", "4\ud800"])
async def test_what_no_database_keeps_ends_the_run_with_its_reason(text: str, tmp_path: Path) -> None:
    with chat_server(lambda _: text) as server:
        settings = AnswererSettings(kind=AnswererKind.OPENAI, address=server.address)
        connect = Connections(secrets=tmp_path, scripts=tmp_path, hosts=LOOPBACK, pauses=())
        async with connect.answerer(ACME, settings, bytes(32)) as fetch:
            run = run_with(fetch)
            assert (await run([CASE]))[0].failed
    assert run.failed.startswith("an answer has")
    assert run.kept == []


async def test_whatever_an_answer_breaks_the_run_ends_with_its_reason() -> None:
    async def broken(*_: object) -> Answer:
        raise RecursionError

    run = run_with(broken)
    assert [pair.failed for pair in await run([CASE, CASE])] == [True, True]
    assert run.failed == "an answer could not be used (RecursionError)"


async def test_a_run_holds_no_more_than_its_limit() -> None:
    async def long(*_: object) -> Answer:
        return Answer(output="4" * (answer_cases.MAX_RUN_BYTES // 2))

    run = run_with(long, parallel=1)
    pairs = await run([CASE, CASE])
    assert [pair.failed for pair in pairs] == [False, True]
    assert "over" in run.failed


def run_with(fetch: Any, parallel: int = 2) -> Run:
    """A run that both sides answer the same way."""
    return Run(
        tenant=ACME,
        policy=SUPPORT,
        incumbent=ARMS,
        candidate=lambda _case: ARMS,
        fetch=fetch,
        judge=None,
        score=lambda _case, output: float("4" in output),
        parallel=parallel,
    )
