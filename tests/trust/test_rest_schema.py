"""Hold every route of the running web process to its own OpenAPI document, with right and with wrong requests.

Requests are made from the document by schemathesis: half of them as it allows, half as it forbids, with paths that name
what exists and, at full size, with paths from anywhere too.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.fixtures.policies import two_models
from tests.fixtures.stack import Stack
from tests.trust.size import of

ROOT = Path(__file__).parents[2]
EXAMPLES = of(2, 50)
TENANT = "schematic"
KNOWN = {"tenant": TENANT, "policy": "support", "resource": f"tenants/{TENANT}/policies/support"}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
]
NOT_BUILT = 501
LATER = {"UNIMPLEMENTED"}
"""Reasons of the one status from 500 on that a route may answer: it belongs to a service that comes later."""


@pytest.fixture(scope="module")
def answers() -> Iterator[dict[str, Counter[int]]]:
    """Collect statuses by operation, and write them down at the end."""
    counts: dict[str, Counter[int]] = defaultdict(Counter)
    yield counts
    total = sum(counts.values(), Counter[int]())
    print(f"\n{len(counts)} operations, {total.total()} requests: {dict(sorted(total.items()))}")
    folder = ROOT / "build" / "trust"
    folder.mkdir(parents=True, exist_ok=True)
    document = {name: dict(sorted(found.items())) for name, found in sorted(counts.items())}
    (folder / "rest_schema.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def address(stack: Stack) -> str:
    stack.tenant(TENANT)
    stack.put_policy(two_models(TENANT))
    return f"http://127.0.0.1:{stack.web_port}"


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("known", [KNOWN, {}][: of(1, 2)], ids=["known-names", "any-names"][: of(1, 2)])
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: str(mode.value))
def test_every_route_answers_as_its_document_says(
    stack: Stack, address: str, answers: dict[str, Counter[int]], mode: GenerationMode, known: dict[str, str]
) -> None:
    document = httpx.get(f"{address}/openapi.json", timeout=30).json()
    schema = schemathesis.openapi.from_dict(document)
    with requests.Session() as session:
        session.headers["authorization"] = f"Bearer {stack.operator_key}"
        failures = [
            failure
            for operation in _operations(schema, mode)
            if (failure := _failure(operation, mode, known, address, session, answers)) is not None
        ]
    assert not failures, "\n\n".join(failures[:10])
    log = (stack.data_dir / "serve.log").read_text(encoding="utf-8", errors="replace")
    assert '"level":"error"' not in log


def _operations(schema: Any, mode: GenerationMode) -> Iterator[Any]:
    """Give every operation to which a request of that mode can be sent; a path alone is never wrong, it is a text."""
    for found in schema.get_all_operations():
        operation = found.ok()
        if mode is GenerationMode.POSITIVE or operation.query or operation.body:
            yield operation


def _failure(
    operation: Any,
    mode: GenerationMode,
    known: dict[str, str],
    address: str,
    session: requests.Session,
    answers: dict[str, Counter[int]],
) -> str | None:
    """Send examples to one operation; answers what was wrong, None where nothing was."""
    named = {name: value for name, value in known.items() if f"{{{name}}}" in operation.path}

    @settings(
        max_examples=EXAMPLES,
        database=None,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode, path_parameters=named or None))
    def send(case: Any) -> None:
        response = case.call(base_url=address, session=session, timeout=60)
        answers[operation.label][response.status_code] += 1
        is_later = response.status_code == NOT_BUILT and response.json()["error"]["details"][0]["reason"] in LATER
        checks = [check for check in CHECKS if not (is_later and check is not_a_server_error)]
        case.validate_response(response, checks=checks)

    try:
        send()
    except Exception as error:  # noqa: BLE001 - collected, so that one operation does not hide the others
        parts = getattr(error, "exceptions", [error])
        return f"{operation.label}: " + "\n".join(str(part)[:1500] for part in parts)
    return None
