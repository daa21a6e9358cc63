"""What the transcoder reads from path, query and body, and what it writes."""

from typing import Any

import pytest

from tests.bandit.adapters.rest.conftest import Rest

EVERYTHING = {
    "doubleValue": 0.1,
    "floatValue": 0.5,
    "int32Value": -7,
    "int64Value": "9007199254740993",
    "uint32Value": 4294967295,
    "uint64Value": "18446744073709551615",
    "sint64Value": "-9223372036854775808",
    "fixed32Value": 1,
    "boolValue": True,
    "stringValue": "grüße ☂",
    "bytesValue": "/+8=",
    "colour": "COLOUR_RED",
    "inside": {"stringValue": "in"},
    "numbers": [1, 2],
    "names": ["a", ""],
    "items": [{"name": "n", "title": "t", "colour": "COLOUR_BLUE"}],
    "weights": {"w": 1.5},
    "byNumber": {"-3": {"name": "n", "title": "", "colour": "COLOUR_UNSPECIFIED"}},
    "right": "0",
    "maybe": 0,
    "at": "2026-01-31T12:00:00.250Z",
    "lasting": "1.500s",
    "mask": "title,inside.stringValue",
    "bag": {"k": [1.0, None, {"x": True}]},
    "anything": None,
    "list": [1.0, "a"],
    "packed": {"@type": "type.googleapis.com/google.protobuf.Duration", "value": "3s"},
    "wrappedInt": "0",
    "wrappedBool": False,
    "wrappedBytes": "AQ==",
}


def test_every_kind_of_field_survives_a_round_trip(rest: Rest) -> None:
    answer = rest("POST", "/v1/echo", json=EVERYTHING)
    assert answer.status_code == 200
    said = answer.json()
    assert {key: said[key] for key in EVERYTHING if key != "inside"} == {
        key: value for key, value in EVERYTHING.items() if key != "inside"
    }
    assert said["inside"]["stringValue"] == "in"


def test_fields_without_presence_are_always_printed_and_others_only_when_set(rest: Rest) -> None:
    said = rest("POST", "/v1/echo", json={}).json()
    assert (said["doubleValue"], said["boolValue"], said["colour"]) == (0.0, False, "COLOUR_UNSPECIFIED")
    assert not {"maybe", "left", "right", "at", "wrappedInt", "inside"} & set(said)


def test_the_proto_spelling_of_a_field_is_read_too(rest: Rest) -> None:
    assert rest("POST", "/v1/echo", json={"string_value": "x"}).json()["stringValue"] == "x"


@pytest.mark.parametrize("body", [b"", b"  ", b"{}"])
def test_an_empty_body_is_an_empty_request(rest: Rest, body: bytes) -> None:
    assert rest("POST", "/v1/echo", content=body).status_code == 200


def test_a_name_over_several_segments_is_bound(rest: Rest) -> None:
    assert rest("GET", "/v1/racks/a/books/b%20c").json()["name"] == "racks/a/books/b c"


def test_an_additional_binding_answers(rest: Rest) -> None:
    assert rest("GET", "/v1/books/racks%2Fa").json()["name"] == "racks/a"


def test_a_custom_verb_is_called_with_body_and_path(rest: Rest) -> None:
    answer = rest("POST", "/v1/racks/a:freeze", json={"because": "dust"})
    assert answer.json() == {"name": "racks/a", "because": "dust"}


def test_a_variable_with_two_stars_takes_the_rest_of_the_path(rest: Rest) -> None:
    assert rest("GET", "/v1/files/a/b/c.txt").json() == {"path": "a/b/c.txt"}


def test_a_single_field_is_the_body_and_the_query_carries_the_rest(rest: Rest, servicer: Any) -> None:
    answer = rest("PUT", "/v1/racks/a/books/b?requestId=r1", json={"title": "T"})
    assert answer.json() == {"name": "racks/a/books/b", "title": "T", "colour": "COLOUR_UNSPECIFIED"}
    assert servicer.requests[0].request_id == "r1"


def test_a_repeated_field_can_be_the_body_and_a_number_can_be_in_the_path(rest: Rest) -> None:
    said = rest("POST", "/v1/echo/-12/items", json=[{"name": "1"}, {"name": "2"}]).json()
    assert (said["int32Value"], [item["name"] for item in said["items"]]) == (-12, ["1", "2"])


def test_a_response_body_is_one_field(rest: Rest) -> None:
    assert rest("GET", "/v1/racks/a/books:count").json() == {"red": str(2**40)}


def test_nested_query_parameters_are_named_by_dots(rest: Rest, servicer: Any) -> None:
    query = (
        "pageSize=5&filter.printedAfter=2026-01-31T12:00:00Z&filter.colours=COLOUR_RED&filter.colours=COLOUR_BLUE"
        "&filter.inside.inside.colours=COLOUR_BLUE"
    )
    assert rest("GET", f"/v1/racks/a/books?{query}").status_code == 200
    request = servicer.requests[0]
    assert (request.parent, request.page_size) == ("racks/a", 5)
    assert request.filter.printed_after.seconds == 1769860800
    assert list(request.filter.colours) == [2, 1]
    assert list(request.filter.inside.inside.colours) == [1]


def test_every_kind_of_text_parameter_is_read(rest: Rest) -> None:
    query = {
        "doubleValue": "-1.5e3",
        "floatValue": "0.25",
        "int64Value": "9007199254740993",
        "uint64Value": "18446744073709551615",
        "boolValue": "true",
        "bytesValue": "_-8",
        "colour": "COLOUR_RED",
        "stringValue": "a&b=c",
        "maybe": "0",
        "lasting": "2s",
        "mask": "title",
        "wrappedInt": "4",
        "wrapped_bool": "false",
        "right": "8",
        "inside.boolValue": "true",
    }
    said = rest("GET", "/v1/echo", params=query).json()
    assert said["bytesValue"] == "/+8="
    assert (said["doubleValue"], said["int64Value"], said["boolValue"]) == (-1500.0, "9007199254740993", True)
    assert (said["wrappedInt"], said["wrappedBool"], said["lasting"], said["maybe"]) == ("4", False, "2s", 0)
    assert (said["stringValue"], said["right"], said["inside"]["boolValue"]) == ("a&b=c", "8", True)


def test_null_is_the_same_as_leaving_a_field_out(rest: Rest) -> None:
    assert rest("POST", "/v1/echo", json={"left": None, "right": 1, "maybe": None}).json()["right"] == "1"


def test_a_body_that_repeats_the_path_is_taken(rest: Rest) -> None:
    assert rest("POST", "/v1/racks/a:freeze", json={"name": "racks/a", "because": "x"}).status_code == 200


def test_an_empty_response_is_an_empty_object(rest: Rest, servicer: Any) -> None:
    assert rest("DELETE", "/v1/racks/a/books/b?force=false").json() == {}
    assert servicer.requests[0].HasField("force")
