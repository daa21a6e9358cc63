"""The switch as a stock OpenFeature SDK and a plain HTTP call read it over OFREP."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from openfeature import api
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode

from kedge.bandit.v1 import governance_service_pb2, policy_pb2
from tests.fixtures.core_app import POLICY, TENANT
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Stack, running_stack, wait_for

APPLY, STOPPED = policy_pb2.MODE_APPLY, policy_pb2.MODE_FROZEN
PROCESSES = 3
FLAG = "kedge.policy.support.enabled"
SOMEBODY = EvaluationContext(targeting_key="user-7")


@pytest.fixture(autouse=True)
def no_provider_left() -> Iterator[None]:
    yield
    api.shutdown()


def plain_call(stack: Stack, key: str) -> Any:
    url = f"http://127.0.0.1:{stack.web_port}/ofrep/v1/evaluate/flags/{FLAG}"
    return httpx.post(url, json={"context": {"targetingKey": "user-7"}}, headers={"x-api-key": key}).json()


def test_a_stock_openfeature_client_sees_a_freeze_at_once_and_false_when_the_server_is_gone(
    fresh_database: str, tmp_path: Path
) -> None:
    with running_stack(fresh_database, tmp_path) as stack:
        key = stack.tenant(TENANT)
        stack.put_policy(two_models(TENANT))
        address = f"http://127.0.0.1:{stack.web_port}"
        headers = {"Authorization": f"Bearer {key}"}
        api.set_provider_and_wait(OFREPProvider(address, headers_factory=lambda: headers, timeout=2.0))
        client = api.get_client()
        wait_for(lambda: client.get_boolean_value(FLAG, False, SOMEBODY), "the flag to be true")
        assert plain_call(stack, key)["value"] is True
        found = client.get_boolean_details("kedge.policy.other.enabled", False, SOMEBODY)
        assert (found.value, found.error_code) == (False, ErrorCode.FLAG_NOT_FOUND)

        with stack.services() as services:
            services.governance.Freeze(governance_service_pb2.FreezeRequest(name=POLICY, because="to see it stop"))
        committed = time.perf_counter()
        wait_for(lambda: not client.get_boolean_value(FLAG, True, SOMEBODY), "the flag to be false", seconds=20)
        print(f"\nfirst false {1000 * (time.perf_counter() - committed):.1f} ms after Freeze answered")
        answer = plain_call(stack, key)
        assert (answer["value"], answer["variant"]) == (False, "FROZEN")

        with stack.services() as services:
            services.governance.Unfreeze(governance_service_pb2.UnfreezeRequest(name=POLICY, because="it was a test"))
        wait_for(lambda: client.get_boolean_value(FLAG, False, SOMEBODY), "the flag to be true again")

    gone = client.get_boolean_details(FLAG, False, SOMEBODY)
    assert (gone.value, gone.error_code) == (False, ErrorCode.GENERAL)
