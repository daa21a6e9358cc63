"""How the end of a call becomes HTTP."""

import asyncio
import logging
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import grpc
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import Message

from kedge_bandit.adapters.rest.calls import MAX_BODY_BYTES
from kedge_bandit.adapters.rest.status import HTTP_STATUS
from tests.bandit.adapters.rest.answers import error_of, reason_of
from tests.bandit.adapters.rest.conftest import Rest

ABORTS = [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK]
CALLER: ContextVar[str] = ContextVar("CALLER", default="nobody")


def test_every_grpc_code_has_an_http_status() -> None:
    assert set(HTTP_STATUS) == set(grpc.StatusCode)


@pytest.mark.parametrize("code", ABORTS)
def test_an_abort_becomes_its_http_status(rest: Rest, code: grpc.StatusCode) -> None:
    answer = rest("POST", "/v1/fail", json={"how": code.name})
    error = error_of(answer)
    assert answer.status_code == HTTP_STATUS[code]
    assert (error["status"], error["message"]) == (code.name, f"{code.name} happened; act on it.")
    assert error["details"][0]["reason"] == code.name


@pytest.mark.parametrize("how", ["rich", "trailing"])
def test_rich_details_reach_the_client(rest: Rest, how: str) -> None:
    answer = rest("POST", "/v1/fail", json={"how": how})
    error = error_of(answer)
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "2"
    info, retry, unknown = error["details"]
    assert (info["reason"], info["metadata"]) == ("QUEUE_FULL", {"queue": "outcomes"})
    assert retry["retryDelay"] == "1.200s"
    assert unknown == {"@type": "type.googleapis.com/nobody.Knows", "value": "AQI="}


def test_a_refused_caller_is_told_how_to_authenticate(rest: Rest) -> None:
    answer = rest("POST", "/v1/fail", json={"how": "UNAUTHENTICATED"})
    assert answer.headers["www-authenticate"] == "Bearer"


def test_an_exception_is_an_internal_error_without_its_text(rest: Rest, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        answer = rest("POST", "/v1/fail", json={"how": "raise"})
    assert (answer.status_code, reason_of(answer)) == (500, "INTERNAL")
    assert "hunter2" not in answer.text
    assert "RuntimeError" not in answer.text
    assert [record.message for record in caplog.records] == ["rest.failed"]


def test_a_timeout_inside_the_servicer_is_no_deadline(rest: Rest) -> None:
    answer = rest("POST", "/v1/fail", json={"how": "own timeout"})
    assert answer.status_code == 500
    assert "10.0.0.1" not in answer.text


def test_an_abort_holds_when_the_servicer_swallows_it(rest: Rest) -> None:
    assert rest("POST", "/v1/fail", json={"how": "swallow"}).status_code == 409


def test_a_code_that_was_only_set_is_a_failure(rest: Rest) -> None:
    answer = rest("POST", "/v1/fail", json={"how": "set code"})
    assert answer.status_code == 400
    assert error_of(answer)["message"] == "The shelf is frozen; unfreeze it."


def test_an_abort_with_ok_is_unknown(rest: Rest) -> None:
    assert error_of(rest("POST", "/v1/fail", json={"how": "abort ok"}))["status"] == "UNKNOWN"


@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/unbuilt"), ("GET", "/v1/unbuilt:watch")])
def test_what_nobody_built_is_not_implemented(rest: Rest, method: str, path: str) -> None:
    answer = rest(method, path)
    assert (answer.status_code, reason_of(answer)) == (501, "UNIMPLEMENTED")


def test_an_unknown_path_is_not_found(rest: Rest) -> None:
    answer = rest("GET", "/v1/nothing/here")
    assert (answer.status_code, reason_of(answer)) == (404, "ROUTE_NOT_FOUND")


def test_a_wrong_method_names_the_right_ones(rest: Rest) -> None:
    answer = rest("POST", "/v1/racks/a/books/b")
    assert (answer.status_code, reason_of(answer)) == (405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == "DELETE, GET, PUT"


def test_a_mounted_application_answers_below_its_mount_point(rest: Rest) -> None:
    mounted = Rest(Starlette(routes=[Mount("/api", app=rest.app)]))
    assert mounted("GET", "/api/v1/racks/a/books/b%2Fc").json()["name"] == "racks/a/books/b%2Fc"
    assert mounted("GET", "/api/v1/nothing").status_code == 404


def test_a_body_over_the_limit_is_too_large(rest: Rest, servicer: Any) -> None:
    body = b'{"stringValue": "' + b"x" * MAX_BODY_BYTES + b'"}'
    answer = rest("POST", "/v1/echo", content=body)
    assert (answer.status_code, reason_of(answer)) == (413, "BODY_TOO_LARGE")
    assert servicer.requests == []


def test_a_body_of_the_limit_is_taken(rest: Rest) -> None:
    frame = b'{"stringValue": ""}'
    body = frame.replace(b'""', b'"' + b"x" * (MAX_BODY_BYTES - len(frame)) + b'"')
    assert rest("POST", "/v1/echo", content=body).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json; charset=utf-16"},
        {"content-type": "application/json", "content-encoding": "gzip"},
    ],
)
def test_a_body_that_is_not_plain_json_is_unsupported(rest: Rest, headers: dict[str, str]) -> None:
    answer = rest("POST", "/v1/echo", content=b"{}", headers=headers)
    assert (answer.status_code, reason_of(answer)) == (415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize("media_type", ["application/json; charset=UTF-8", "application/merge-patch+json"])
def test_other_names_of_json_are_taken(rest: Rest, media_type: str) -> None:
    assert rest("POST", "/v1/echo", content=b"{}", headers={"content-type": media_type}).status_code == 200


def events_of(app: Any, scope: dict[str, Any], received: list[Message]) -> list[Message]:
    """Run one raw ASGI request whose client sends what is listed and then nothing."""
    sent: list[Message] = []

    async def receive() -> Message:
        return received.pop(0)

    async def send(event: Any) -> None:
        sent.append(event)

    asyncio.run(app(scope, receive, send))
    return sent


def post_scope(path: str) -> dict[str, Any]:
    return {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": [], "client": None}


def test_a_chunked_body_over_the_limit_is_cut_off(rest: Rest) -> None:
    chunk = {"type": "http.request", "body": b" " * (MAX_BODY_BYTES // 2), "more_body": True}
    sent = events_of(rest.app, post_scope("/v1/echo"), [dict(chunk) for _ in range(3)])
    assert sent[0]["status"] == 413


def test_half_a_body_is_never_taken_for_a_whole_one(rest: Rest, servicer: Any) -> None:
    half = {"type": "http.request", "body": b"{}", "more_body": True}
    sent = events_of(rest.app, post_scope("/v1/echo"), [half, {"type": "http.disconnect"}])
    assert sent[0]["status"] == 499
    assert servicer.requests == []


def test_a_deadline_ends_the_call(rest: Rest) -> None:
    answer = rest("POST", "/v1/fail", json={"how": "sleep"}, headers={"grpc-timeout": "20m"})
    assert (answer.status_code, reason_of(answer)) == (504, "DEADLINE_EXCEEDED")


@pytest.mark.parametrize("headers", [{"grpc-timeout": "soon"}, {"trace-bin": "*"}])
def test_metadata_that_is_none_is_refused(rest: Rest, headers: dict[str, str]) -> None:
    answer = rest("GET", "/v1/books/b", headers=headers)
    assert (answer.status_code, reason_of(answer)) == (400, "INVALID_VALUE")


def test_the_servicer_sees_what_grpc_would_show_it(rest: Rest, servicer: Any) -> None:
    headers = {"authorization": "Bearer t", "trace-bin": "AQI=", "grpc-timeout": "5S", "grpc-internal": "x"}
    rest("GET", "/v1/books/b", headers=headers)
    rpc = servicer.rpcs[0]
    metadata = dict(rpc.invocation_metadata())
    assert (metadata["authorization"], metadata["trace-bin"]) == ("Bearer t", b"\x01\x02")
    assert not {"grpc-timeout", "grpc-internal", "host", "content-length"} & set(metadata)
    assert rpc.peer() == "ipv4:203.0.113.7:4711"
    assert isinstance(rpc, grpc.aio.ServicerContext)
    assert rpc.done()
    assert not rpc.cancelled()


def test_without_a_deadline_there_is_no_time_remaining(rest: Rest, servicer: Any) -> None:
    rest("GET", "/v1/books/b")
    assert servicer.rpcs[0].time_remaining() is None


def test_authentication_refuses_before_the_body_is_read(make_rest: Callable[..., Rest], servicer: Any) -> None:
    methods: list[str] = []

    async def refuse(method: str, rpc: Any) -> None:
        methods.append(method)
        await rpc.abort(grpc.StatusCode.UNAUTHENTICATED, "Send a token.")

    rest = make_rest(authenticate=refuse)
    answers = [rest("POST", "/v1/echo", content=b"no json"), rest("GET", "/v1/racks/a/books:watch")]
    assert [answer.status_code for answer in answers] == [401, 401]
    assert methods == ["/kedge_test.shelf.v1.ShelfService/Echo", "/kedge_test.shelf.v1.ShelfService/WatchBooks"]
    assert servicer.requests == []


def test_authentication_refuses_by_a_code_alone(make_rest: Callable[..., Rest], servicer: Any) -> None:
    async def refuse(method: str, rpc: Any) -> None:
        rpc.set_code(grpc.StatusCode.PERMISSION_DENIED)

    assert make_rest(authenticate=refuse)("GET", "/v1/books/b").status_code == 403
    assert servicer.requests == []


def test_what_authentication_learns_reaches_the_servicer(make_rest: Callable[..., Rest], servicer: Any) -> None:
    async def admit(method: str, rpc: Any) -> None:
        CALLER.set(dict(rpc.invocation_metadata())["authorization"])
        rpc.add_done_callback(lambda _: callers.append(CALLER.get()))

    callers: list[str] = []
    make_rest(authenticate=admit)("GET", "/v1/books/b", headers={"authorization": "Bearer ann"})
    assert callers == ["Bearer ann"]


def test_a_failing_authentication_lets_nobody_in(make_rest: Callable[..., Rest], servicer: Any) -> None:
    async def broken(method: str, rpc: Any) -> None:
        raise KeyError("authorization")

    assert make_rest(authenticate=broken)("GET", "/v1/books/b").status_code == 500
    assert servicer.requests == []
