"""Server streams as JSON lines."""

import asyncio
import json
from typing import Any

import pytest
from starlette.types import Message

from tests.bandit.adapters.rest.answers import error_of
from tests.bandit.adapters.rest.conftest import Rest

WATCH = "/v1/racks/a/books:watch"


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_each_message_is_a_line(rest: Rest) -> None:
    answer = rest("GET", WATCH)
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert [line["name"] for line in lines_of(answer.text)] == ["1", "2"]


def test_an_abort_before_the_first_message_has_its_status(rest: Rest) -> None:
    answer = rest("GET", WATCH, params={"how": "abort first"})
    assert (answer.status_code, error_of(answer)["status"]) == (404, "NOT_FOUND")


def test_a_bad_request_never_starts_a_stream(rest: Rest) -> None:
    assert rest("GET", WATCH, params={"hwo": "x"}).status_code == 400


def test_an_abort_after_the_first_message_is_the_last_line(rest: Rest) -> None:
    first, last = lines_of(rest("GET", WATCH, params={"how": "abort later"}).text)
    assert first["name"] == "1"
    assert (last["error"]["code"], last["error"]["status"]) == (503, "UNAVAILABLE")


def test_an_exception_in_a_stream_is_an_internal_error_without_its_text(rest: Rest) -> None:
    answer = rest("GET", WATCH, params={"how": "break later"})
    assert lines_of(answer.text)[-1]["error"]["status"] == "INTERNAL"
    assert "secret" not in answer.text


def test_a_deadline_ends_a_stream(rest: Rest) -> None:
    answer = rest("GET", WATCH, params={"how": "for ever"}, headers={"grpc-timeout": "50m"})
    assert lines_of(answer.text)[-1]["error"]["status"] == "DEADLINE_EXCEEDED"


@pytest.mark.parametrize("leaves_after", ["http.response.start", "http.response.body"])
def test_a_client_that_goes_away_ends_the_servicers_generator(rest: Rest, servicer: Any, leaves_after: str) -> None:
    async def run() -> list[Message]:
        sent: list[Message] = []
        leaves = asyncio.Event()
        incoming: list[Message] = [{"type": "http.request", "body": b""}]

        async def receive() -> Message:
            if incoming:
                return incoming.pop()
            await leaves.wait()
            return {"type": "http.disconnect"}

        async def send(event: Any) -> None:
            sent.append(event)
            if event["type"] == leaves_after:
                leaves.set()

        scope = {"type": "http", "method": "GET", "path": WATCH, "query_string": b"how=for+ever", "headers": []}
        await asyncio.wait_for(rest.app(scope, receive, send), timeout=5)
        assert servicer.ended.is_set()
        return sent

    sent = asyncio.run(run())
    assert [event["type"] for event in sent] == ["http.response.start", "http.response.body"]
