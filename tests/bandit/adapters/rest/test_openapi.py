"""The OpenAPI document says what the transcoder does."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kedge_bandit.adapters.rest.bindings import http_rules
from kedge_bandit.adapters.rest.schemas import digits_up_to
from tests.bandit.adapters.rest.conftest import CompiledProto, Rest

PREFIX = "kedge_test.shelf.v1"


@pytest.fixture
def document(shelf: CompiledProto, make_rest: Callable[..., Rest]) -> dict[str, Any]:
    answer = make_rest(descriptors=shelf.descriptors)("GET", "/openapi.json")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def references(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for child in node.values():
            yield from references(child)
    elif isinstance(node, list):
        for child in node:
            yield from references(child)


def test_every_binding_is_an_operation_of_its_own(document: dict[str, Any], shelf: CompiledProto) -> None:
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(ids) == len(set(ids)) == len(http_rules(shelf.service))
    assert {"ShelfService_GetBook", "ShelfService_GetBook_2", "ShelfService_FreezeShelf"} <= set(ids)


def test_the_head_of_the_document(document: dict[str, Any]) -> None:
    assert document["openapi"] == "3.1.0"
    assert document["info"] == {"title": "Shelves", "version": "1.2.3"}
    assert document["tags"] == [{"name": "ShelfService", "description": "Keeps books on shelves."}]
    assert "security" not in document


def test_every_reference_leads_to_a_schema(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert {reference.removeprefix("#/components/schemas/") for reference in references(document)} <= set(schemas)


def test_every_parameter_of_a_path_is_declared(document: dict[str, Any]) -> None:
    for path, _, operation in operations(document):
        declared = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
        assert declared == set(re.findall(r"\{(\w+)\}", path))


def test_a_resource_name_is_split_into_its_identifiers(document: dict[str, Any]) -> None:
    assert set(document["paths"]["/v1/racks/{rack}/books/{book}"]) == {"get", "put", "delete"}
    assert "/v1/racks/{rack}:freeze" in document["paths"]


def test_query_parameters_are_the_fields_that_path_and_body_leave(document: dict[str, Any]) -> None:
    listing = document["paths"]["/v1/racks/{rack}/books"]["get"]["parameters"]
    assert [each["name"] for each in listing if each["in"] == "query"] == [
        "pageSize",
        "filter.printedAfter",
        "filter.colours",
    ]
    assert listing[1]["description"] == "At most this many, 1 to 100."
    put = document["paths"]["/v1/racks/{rack}/books/{book}"]["put"]["parameters"]
    assert [each["name"] for each in put if each["in"] == "query"] == ["requestId"]


def test_no_query_parameter_is_listed_that_the_transcoder_refuses(
    document: dict[str, Any], rest: Rest, servicer: Any
) -> None:
    samples = {"boolean": "true", "integer": "1", "number": "1.5", "byte": "AQ==", "date-time": "2026-01-31T12:00:00Z"}
    for parameter in document["paths"]["/v1/echo"]["get"]["parameters"]:
        schema = parameter["schema"].get("items", parameter["schema"])
        if "pattern" in schema:
            text = "1s"
        elif "$ref" in schema:
            text = "COLOUR_RED" if schema["$ref"].endswith("Colour") else "1"
        else:
            text = samples.get(schema.get("format", ""), samples.get(schema["type"], "x"))
        answer = rest("GET", "/v1/echo", params={parameter["name"]: text})
        assert answer.status_code == 200, (parameter, answer.text)


def test_the_body_leaves_out_what_the_path_carries(document: dict[str, Any]) -> None:
    body = document["paths"]["/v1/racks/{rack}:freeze"]["post"]["requestBody"]
    schema = body["content"]["application/json"]["schema"]
    assert (set(schema["properties"]), schema["required"], body["required"]) == ({"because"}, ["because"], True)
    assert schema["additionalProperties"] is False


def test_the_body_leaves_out_what_the_path_carries_inside_a_field(document: dict[str, Any]) -> None:
    body = document["paths"]["/v1/racks/{rack}/books/{book}"]["put"]["requestBody"]
    assert set(body["content"]["application/json"]["schema"]["properties"]) == {"title", "colour"}


@pytest.mark.parametrize("limit", [10, 99, 255, 1000, 2**31 - 1, 2**63 - 1, 2**64 - 1])
def test_a_pattern_of_digits_ends_at_its_limit(limit: int) -> None:
    pattern = digits_up_to(limit)
    near = {0, 1, 7, limit // 2, *range(max(0, limit - 300), limit + 300), 10 * limit}
    assert {number for number in near if re.fullmatch(pattern, str(number))} == {n for n in near if n <= limit}


def test_comments_become_descriptions(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert schemas[f"{PREFIX}.Book"]["description"] == "A book on a shelf."
    assert schemas[f"{PREFIX}.Book"]["properties"]["name"]["description"] == "Resource name."
    assert schemas[f"{PREFIX}.Colour"]["description"] == "What a cover looks like.\n\n* `COLOUR_BLUE`: Like the sky."
    get = document["paths"]["/v1/racks/{rack}/books/{book}"]["get"]
    assert get["summary"] == "Reads one book"
    assert get["description"] == "Reads one book. Answers NOT_FOUND for a book that is not there."


def test_every_kind_of_field_has_its_schema(document: dict[str, Any]) -> None:
    fields = document["components"]["schemas"][f"{PREFIX}.Everything"]["properties"]
    assert fields["doubleValue"] == {"type": "number", "format": "double"}
    assert fields["int32Value"] == {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1}
    assert fields["int64Value"] == {"$ref": "#/components/schemas/Int64"}
    assert fields["bytesValue"] == {"type": "string", "contentEncoding": "base64", "format": "byte"}
    assert fields["colour"] == {"$ref": f"#/components/schemas/{PREFIX}.Colour"}
    assert fields["inside"] == {"$ref": f"#/components/schemas/{PREFIX}.Everything"}
    assert fields["numbers"]["items"]["type"] == "integer"
    assert fields["byNumber"]["additionalProperties"] == {"$ref": f"#/components/schemas/{PREFIX}.Book"}
    assert fields["at"] == {"type": "string", "format": "date-time"}
    assert fields["wrappedBool"] == {"anyOf": [{"type": "boolean"}, {"type": "null"}]}
    assert re.fullmatch(fields["byNumber"]["propertyNames"]["pattern"], "-2147483647")
    assert fields["bag"] == {"type": "object"}
    assert fields["anything"] == {}
    assert fields["output"]["readOnly"] is True
    assert fields["old"]["deprecated"] is True


def test_a_real_oneof_allows_at_most_one_and_an_optional_field_is_none(document: dict[str, Any]) -> None:
    left, right = {"required": ["left"]}, {"required": ["right"]}
    everything = document["components"]["schemas"][f"{PREFIX}.Everything"]
    assert everything["allOf"] == [{"oneOf": [left, right, {"not": {"anyOf": [left, right]}}]}]


def test_a_stream_is_described_as_json_lines_and_every_failure_as_an_error(document: dict[str, Any]) -> None:
    watch = document["paths"]["/v1/racks/{rack}/books:watch"]["get"]
    assert list(watch["responses"]["200"]["content"]) == ["application/x-ndjson"]
    for _, _, operation in operations(document):
        failure = operation["responses"]["default"]["content"]["application/json"]["schema"]
        assert failure == {"$ref": "#/components/schemas/Error"}


def test_an_authenticated_api_asks_for_a_bearer_token(make_rest: Callable[..., Rest]) -> None:
    async def admit(method: str, rpc: Any) -> None:
        return None

    secured = make_rest(authenticate=admit)("GET", "/openapi.json").json()
    assert secured["security"] == [{"bearer": []}]


def test_without_source_info_there_are_no_descriptions(rest: Rest) -> None:
    document = rest("GET", "/openapi.json").json()
    assert "description" not in document["components"]["schemas"][f"{PREFIX}.Book"]


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
def test_no_page_that_loads_scripts_from_elsewhere_is_served(rest: Rest, path: str) -> None:
    assert rest("GET", path).status_code == 404
