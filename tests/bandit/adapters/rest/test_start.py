"""What cannot be served stops the start, not the first caller."""

from typing import Any

import pytest

from kedge_bandit.adapters.rest.bindings import http_rules
from kedge_bandit.adapters.rest.transcode import build_app
from tests.bandit.adapters.rest.conftest import CompiledProto, compile_proto, import_from

MISTAKES = {
    "StreamOfRequests": "a stream of requests",
    "UnknownBody": "names 'nothing'",
    "UnknownResponseBody": "names 'nothing'",
    "UnknownVariable": "'nothing' is no scalar",
    "RepeatedVariable": "'lines' is no scalar",
    "MessageVariable": "'inside' is no scalar",
    "NumberOverSegments": "must be a string",
    "NoPath": "no method and path",
    "StreamOfErrors": "field 'error'",
}


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("unservable")
    compile_proto("unservable", out)
    (module,) = import_from(out, "unservable_pb2")
    return dict(module.DESCRIPTOR.services_by_name)


@pytest.mark.parametrize(("service", "problem"), MISTAKES.items())
def test_a_rule_that_cannot_be_served_names_its_mistake(services: dict[str, Any], service: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        http_rules(services[service])


def test_every_mistake_is_tried(services: dict[str, Any]) -> None:
    assert set(services) == set(MISTAKES)


def test_a_servicer_without_a_method_is_refused(shelf: CompiledProto) -> None:
    with pytest.raises(AttributeError, match="GetBook"):
        build_app([(shelf.service, object())], title="Shelves", version="1")
