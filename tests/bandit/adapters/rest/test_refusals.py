"""What the transcoder refuses to read, and how it says so."""

import json
from typing import Any

import pytest

from tests.bandit.adapters.rest.answers import error_of, reason_of
from tests.bandit.adapters.rest.conftest import Rest


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("pageSiz=1", "UNKNOWN_FIELD"),
        ("filter=1", "UNKNOWN_FIELD"),
        ("filter.nothing=1", "UNKNOWN_FIELD"),
        ("pageSize.x=1", "UNKNOWN_FIELD"),
        ("=1", "UNKNOWN_FIELD"),
        ("parent=racks/b", "UNKNOWN_FIELD"),
        ("pageSize=1&page_size=2", "INVALID_VALUE"),
        ("pageSize=1&pageSize=1", "INVALID_VALUE"),
        ("pageSize=", "INVALID_VALUE"),
        ("pageSize=1.5", "INVALID_VALUE"),
        ("pageSize=2147483648", "INVALID_VALUE"),
        ("pageSize=%D9%A1", "INVALID_VALUE"),
        ("pageSize=%ff", "INVALID_VALUE"),
        ("filter.printedAfter=yesterday", "INVALID_VALUE"),
        ("filter.printedAfter=2026-13-01T00:00:00Z", "INVALID_VALUE"),
        ("filter.colours=RED", "INVALID_VALUE"),
        ("filter.colours=2", "INVALID_VALUE"),
    ],
)
def test_a_bad_query_is_refused_with_a_reason(rest: Rest, servicer: Any, query: str, reason: str) -> None:
    answer = rest("GET", f"/v1/racks/a/books?{query}")
    assert (answer.status_code, reason_of(answer)) == (400, reason)
    assert servicer.requests == []


@pytest.mark.parametrize(
    "query",
    [
        "doubleValue=NaN",
        "doubleValue=inf",
        "doubleValue=1e999",
        "doubleValue=1_0",
        "floatValue=1e39",
        "boolValue=1",
        "bytesValue=*",
        "bytesValue=a",
        "bag=1",
        "bag.fields=1",
        "anything.stringValue=x",
        "packed.typeUrl=x",
        "weights=1",
        "weights.a=1",
        "items=1",
        "items.name=x",
        "left=a&right=1",
    ],
)
def test_a_query_that_no_field_can_hold_is_refused(rest: Rest, query: str) -> None:
    assert rest("GET", f"/v1/echo?{query}").status_code == 400


def test_query_parameters_beside_a_whole_body_are_refused(rest: Rest) -> None:
    answer = rest("POST", "/v1/echo?stringValue=x", json={})
    assert (answer.status_code, reason_of(answer)) == (400, "UNKNOWN_FIELD")


def test_too_many_query_parameters_are_refused(rest: Rest) -> None:
    assert rest("GET", "/v1/echo?" + "&".join(["numbers=1"] * 1001)).status_code == 400


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"not json",
        b'{"stringValue": "\xff"}',
        b'{"names": [], "names": []}',
        b"[" * 100_000,
        b'{"int64Value": ' + b"1" * 5000 + b"}",
        b'\xef\xbb\xbf{"stringValue": "x"}',
        b"{} {}",
    ],
)
def test_what_is_no_json_is_malformed(rest: Rest, body: bytes) -> None:
    answer = rest("POST", "/v1/echo", content=body)
    assert (answer.status_code, reason_of(answer)) == (400, "MALFORMED_JSON")


@pytest.mark.parametrize(
    "body",
    ["NaN", "Infinity", "-Infinity", '"NaN"', '"Infinity"', '"-Infinity"', '"nan"', '"1e999"', "1e999", "true", '""'],
)
@pytest.mark.parametrize("field", ["doubleValue", "floatValue"])
def test_a_number_that_is_not_finite_is_refused(rest: Rest, field: str, body: str) -> None:
    answer = rest("POST", "/v1/echo", content=f'{{"{field}": {body}}}')
    assert (answer.status_code, reason_of(answer)) == (400, "INVALID_VALUE")


@pytest.mark.parametrize("body", ['{"bag": {"x": NaN}}', '{"list": [1e999]}', '{"weights": {"a": "NaN"}}'])
def test_a_number_that_is_not_finite_is_refused_deep_inside(rest: Rest, body: str) -> None:
    assert reason_of(rest("POST", "/v1/echo", content=body)) == "INVALID_VALUE"


@pytest.mark.parametrize(
    "body",
    [
        {"int32Value": True},
        {"int32Value": 1.5},
        {"int32Value": "one"},
        {"int32Value": 2**31},
        {"uint64Value": -1},
        {"int64Value": [1]},
        {"boolValue": "true"},
        {"boolValue": 1},
        {"stringValue": 1},
        {"stringValue": {}},
        {"stringValue": "\ud800"},
        {"bytesValue": "$"},
        {"bytesValue": 1},
        {"colour": "COLOUR_GREEN"},
        {"colour": 17},
        {"colour": True},
        {"inside": []},
        {"inside": 1},
        {"numbers": 1},
        {"numbers": [None]},
        {"items": [None]},
        {"weights": []},
        {"byNumber": {"one": {}}},
        {"byNumber": {"2147483648": {}}},
        {"left": "a", "int64_value": "9223372036854775808"},
        {"left": "a", "right": 1},
        {"at": 1},
        {"at": "now"},
        {"lasting": "1"},
        {"lasting": 1},
        {"bag": []},
        {"list": {}},
        {"packed": {}, "wrappedInt": "x"},
        {"packed": {"value": 1}},
        {"packed": {"@type": 7}},
        {"packed": {"@type": "type.googleapis.com/nobody.Knows"}},
        {"wrappedBool": "false"},
        [],
        "text",
        None,
        7,
    ],
)
def test_a_value_of_the_wrong_type_is_refused(rest: Rest, servicer: Any, body: object) -> None:
    answer = rest("POST", "/v1/echo", content=json.dumps(body).encode())
    assert (answer.status_code, reason_of(answer)) == (400, "INVALID_VALUE")
    assert servicer.requests == []


@pytest.mark.parametrize("body", [{"colour ": 1}, {"inside": {"nope": 1}}, {"items": [{"nope": None}]}, {"[ext]": 1}])
def test_an_unknown_field_is_refused(rest: Rest, body: object) -> None:
    assert reason_of(rest("POST", "/v1/echo", json=body)) == "UNKNOWN_FIELD"


def test_the_error_names_the_field_and_what_to_do(rest: Rest) -> None:
    error = error_of(rest("POST", "/v1/echo", json={"inside": {"items": [{"titel": "x"}]}}))
    assert error["message"] == "'inside.items[0].titel' is not a field of Book; did you mean 'title'?"
    assert error["details"][0]["metadata"] == {"field": "inside.items[0].titel"}
    assert error["status"] == "INVALID_ARGUMENT"


def test_an_error_does_not_grow_with_the_request(rest: Rest) -> None:
    answer = rest("POST", "/v1/echo", json={"x" * 100_000: 1, "int32Value": "y" * 100_000})
    assert len(answer.content) < 2_000


def test_a_message_nested_too_deeply_is_refused(rest: Rest) -> None:
    body = '{"inside": ' * 400 + "{}" + "}" * 400
    assert rest("POST", "/v1/echo", content=body).status_code == 400


def test_a_body_that_contradicts_the_path_is_refused(rest: Rest, servicer: Any) -> None:
    answer = rest("PUT", "/v1/racks/a/books/b", json={"name": "racks/a/books/c"})
    assert (answer.status_code, reason_of(answer)) == (400, "INVALID_VALUE")
    assert servicer.requests == []


def test_null_is_no_body_for_a_field(rest: Rest) -> None:
    assert reason_of(rest("PUT", "/v1/racks/a/books/b", content=b"null")) == "INVALID_VALUE"


def test_two_fields_of_a_oneof_are_refused_by_name(rest: Rest) -> None:
    error = error_of(rest("POST", "/v1/echo", json={"inside": {"left": "a", "right": 1}}))
    assert error["message"] == "'inside.left' and 'inside.right' exclude each other; send one of them."


def test_a_body_where_none_is_taken_is_refused(rest: Rest) -> None:
    assert rest("DELETE", "/v1/racks/a/books/b", json={"force": True}).status_code == 400
