"""Path templates and the table that finds a binding."""

import pytest

from kedge_bandit.adapters.rest.bindings import RouteTable, http_rules
from kedge_bandit.adapters.rest.templates import parse_template, split_path, split_verb
from tests.bandit.adapters.rest.conftest import CompiledProto


@pytest.mark.parametrize(
    "text",
    ["v1/x", "/v1//x", "/v1/{name", "/v1/{Name}", "/v1/**/x", "/v1/{name=**/x}", "/v1/x:", "/v1/x:9", "/v1/a b", "/"],
)
def test_a_template_outside_the_grammar_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="HTTP template"):
        parse_template(text)


def test_a_variable_over_segments_keeps_a_slash_inside_a_segment_encoded() -> None:
    template = parse_template("/v1/{name=racks/*/books/*}")
    segments = split_path("/v1/racks/a/books/b%2Fc")
    assert segments is not None
    assert [value for _, value in template.values(segments)] == ["racks/a/books/b%2Fc"]


def test_a_variable_over_one_segment_decodes_a_slash() -> None:
    template = parse_template("/v1/books/{name}")
    assert [value for _, value in template.values(("v1", "books", "a/b"))] == ["a/b"]


def test_a_wildcard_matches_no_empty_segment() -> None:
    assert not parse_template("/v1/books/{name}").matches(("v1", "books", ""))


def test_a_path_that_is_no_utf8_matches_nothing() -> None:
    assert split_path("/v1/%ff") is None


def test_an_encoded_colon_starts_no_verb() -> None:
    assert split_verb("/v1/books/a%3Afreeze") == ("/v1/books/a%3Afreeze", "")


def table_of(shelf: CompiledProto) -> tuple[RouteTable, list[str]]:
    bindings = http_rules(shelf.service)
    return RouteTable(bindings), [f"{binding.rpc.name}/{binding.position}" for binding in bindings]


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/v1/racks/a/books/b", "GetBook/0"),
        ("GET", "/v1/books/b", "GetBook/1"),
        ("DELETE", "/v1/racks/a/books/b", "DeleteBook/0"),
        ("GET", "/v1/racks/a/books", "ListBooks/0"),
        ("GET", "/v1/racks/a/books:count", "CountBooks/0"),
        ("POST", "/v1/racks/a:freeze", "FreezeShelf/0"),
        ("POST", "/v1/racks/a:b:freeze", "FreezeShelf/0"),
        ("GET", "/v1/racks/a/books/b:freeze", "GetBook/0"),
        ("POST", "/v1/racks/a%3Afreeze", None),
        ("POST", "/v1/racks/:freeze", None),
        ("POST", "/v1/racks/a:melt", None),
        ("GET", "/v1/racks/a/books/b/", None),
        ("GET", "/v1/files/a/b/c", "ReadFile/0"),
        ("GET", "/v2/books/b", None),
    ],
)
def test_the_table_finds_the_binding(shelf: CompiledProto, method: str, path: str, expected: str | None) -> None:
    table, names = table_of(shelf)
    found = table.find(method, path)
    assert (None if found is None else names[found.index]) == expected


def test_the_table_lists_the_methods_of_a_path(shelf: CompiledProto) -> None:
    table, _ = table_of(shelf)
    assert table.allowed("/v1/racks/a/books/b") == ("DELETE", "GET", "PUT")


def test_two_bindings_of_one_path_are_refused(shelf: CompiledProto) -> None:
    with pytest.raises(ValueError, match="both answer"):
        RouteTable([*http_rules(shelf.service), *http_rules(shelf.service)])


def test_every_rule_and_additional_binding_is_listed(shelf: CompiledProto) -> None:
    listed = {(binding.rpc.name, binding.position) for binding in http_rules(shelf.service)}
    annotated = {rpc.name for rpc in shelf.service.methods} - {"GrpcOnly"}
    assert {name for name, _ in listed} == annotated
    assert {("Echo", 0), ("Echo", 1), ("Echo", 2), ("GetBook", 1)} <= listed
