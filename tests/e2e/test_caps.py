"""A cap on what is not the baseline as an operator and a core application meet it, and a wish not to explore."""

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from kedge.bandit.v1 import decision_pb2, policy_pb2, policy_service_pb2
from tests.fixtures.core_app import POLICY, TENANT, ask, episode_of, keys, log, success
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Services, Stack, wait_for

CAP = 25


@pytest.fixture(scope="module")
def core_app_key(stack: Stack) -> str:
    key = stack.tenant(TENANT)
    stack.put_policy(capped_policy())
    return key


@pytest.fixture(scope="module")
def services(stack: Stack, core_app_key: str) -> Iterator[Services]:
    with stack.services(core_app_key) as connected:
        yield connected


def capped_policy() -> policy_pb2.Policy:
    policy = two_models(TENANT, floor=0.05)
    policy.exploration.max_non_baseline_decisions_per_hour = CAP
    return policy


def status(services: Services) -> Any:
    return services.policies.GetPolicyStatus(policy_service_pb2.GetPolicyStatusRequest(name=POLICY))


def test_no_exploration_serves_the_baseline_over_every_way_in_and_is_not_learned(
    stack: Stack, services: Services, core_app_key: str
) -> None:
    small, _ = keys(services)
    by_grpc = ask(services, "quiet-grpc", no_exploration=True)
    answered = httpx.post(
        f"http://127.0.0.1:{stack.web_port}/v1/{POLICY}:decide",
        json={
            "requestId": "r",
            "episodeId": "quiet-rest",
            "context": {"categories": {"task": "math"}},
            "noExploration": True,
        },
        headers={"authorization": f"Bearer {core_app_key}"},
    ).json()
    assert (by_grpc.action_key, by_grpc.propensity, by_grpc.is_randomised) == (small, 1.0, False)
    assert by_grpc.reason == decision_pb2.DECISION_REASON_NO_EXPLORATION
    assert (answered["actionKey"], answered["reason"]) == (small, "DECISION_REASON_NO_EXPLORATION")
    assert not answered.get("isRandomised", False)

    success(services, "quiet-grpc", decision_token=by_grpc.decision_token)
    log(services, by_grpc, "quiet-grpc")
    wait_for(lambda: episode_of(services, "quiet-grpc").weight_reason, "the episode to be settled")
    found = episode_of(services, "quiet-grpc")
    assert (found.weight, found.weight_reason) == (0, "NO_EXPLORATION")
    assert status(services).self_check.decisions == 0


def test_a_reached_cap_serves_the_baseline_and_says_so_everywhere(stack: Stack, services: Services) -> None:
    small, large = keys(services)
    served: list[Any] = []
    reached = 0.0

    def is_closed() -> bool:
        nonlocal reached
        served.append(ask(services, f"capped-{len(served)}"))
        if not reached and sum(one.action_key == large for one in served) == CAP:
            reached = time.monotonic()
        return bool(served[-1].reason == decision_pb2.DECISION_REASON_CAP)

    wait_for(is_closed, "the cap to close")
    over = sum(one.action_key == large for one in served) - CAP
    print(f"closed {time.monotonic() - reached:.3f} s after the cap was reached, {over} decisions over it")

    after = [ask(services, f"after-{i}") for i in range(50)]
    assert {(one.action_key, one.reason, one.propensity) for one in after} == {
        (small, decision_pb2.DECISION_REASON_CAP, 1.0)
    }
    assert over >= 0
    wait_for(lambda: status(services).non_baseline_decisions == CAP + over, "the last ones to be counted")
    found = status(services)
    assert found.closed_reason == decision_pb2.DECISION_REASON_CAP
    assert 3_600 - 120 < found.capped_until.seconds - time.time() < 3_600 + 120
    said = stack.kedge("status", TENANT, "support").stdout
    assert f"{CAP + over} of {CAP} decisions in the hour" in " ".join(said.split())


def test_a_pin_is_served_under_a_cap(services: Services) -> None:
    _, large = keys(services)
    assert ask(services, "pinned-under-cap", pinned_action_key=large).action_key == large


def test_decisions_under_a_cap_replay_and_what_is_kept_is_what_the_rows_say(stack: Stack, services: Services) -> None:
    with stack.services() as operator:
        rebuilt = operator.policies.RebuildPolicy(
            policy_service_pb2.RebuildPolicyRequest(name=POLICY, verify_only=True)
        )
    assert (rebuilt.agrees, rebuilt.max_error) == (True, 0.0)
    replayed = json.loads(stack.kedge("replay", TENANT, "support", "--sample", "1000", "--json").stdout)
    assert (replayed["mismatches"], replayed["replayed"] >= 75) == (0, True)


def test_a_higher_cap_opens_at_once(services: Services) -> None:
    policy = services.policies.GetPolicy(policy_service_pb2.GetPolicyRequest(name=POLICY)).policy
    policy.exploration.max_non_baseline_decisions_per_hour = 100_000
    request = policy_service_pb2.PutPolicyRequest(
        policy=policy, expected_version=policy.policy_version, because="more may be explored"
    )
    put = services.policies.PutPolicy(request).policy

    wait_for(lambda: not status(services).closed_reason, "the cap to give way")
    assert put.exploration.max_non_baseline_decisions_per_hour == 100_000
    wait_for(
        lambda: ask(services, f"again-{time.monotonic_ns()}").reason == decision_pb2.DECISION_REASON_DRAWN, "a draw"
    )
