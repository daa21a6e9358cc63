"""Decide as a core application meets it: sticky, idempotent, bounded, and answered whatever happens."""

from collections import Counter
from typing import Any

import pytest

from kedge.bandit.v1 import decision_pb2, decision_service_pb2, governance_service_pb2, policy_pb2
from tests.fixtures.core_app import (
    POLICY,
    TENANT,
    ask,
    cells,
    episode_of,
    keys,
    log,
    now,
    refusal,
    stored,
    success,
)
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Services, Stack, wait_for


def test_an_episode_gets_one_action_however_often_it_asks(services: Services) -> None:
    for number in range(30):
        first = ask(services, f"sticky-{number}")
        again = ask(services, f"sticky-{number}", request_id="another", context=decision_pb2.Context())
        by_token = ask(services, f"sticky-{number}", decision_token=first.decision_token)
        assert not first.reused
        for reuse in (again, by_token):
            assert reuse.reused
            assert (reuse.decision, reuse.action_key, reuse.propensity) == (
                first.decision,
                first.action_key,
                first.propensity,
            )


def test_an_episode_that_another_process_decided_is_read_when_it_continues(services: Services, stack: Stack) -> None:
    first = ask(services, "elsewhere")
    wait_for(lambda: stored(services, first.decision), "the decision to be written")
    before = stack.pid("server")
    stack.kill("server")
    wait_for(lambda: stack.pid("server") != before, "another server")
    again = ask(services, "elsewhere", continues_episode=True)
    assert again.reused
    assert again.decision == first.decision


def test_the_answer_carries_the_whole_distribution_and_its_own_share_of_it(services: Services) -> None:
    decided = ask(services, "whole")
    shares = {one.action_key: one.propensity for one in decided.distribution}
    assert sum(shares.values()) == pytest.approx(1.0, abs=1e-9)
    assert shares[decided.action_key] == decided.propensity == decided.model_route_propensity
    assert shares[keys(services)[0]] >= 0.2
    assert decided.expire_time.seconds - decided.decision_time.seconds == 30 * 24 * 3600


def test_an_action_that_the_caller_cannot_serve_is_never_chosen(services: Services) -> None:
    small, large = keys(services)
    only_small = [ask(services, f"small-{i}", available_action_keys=[small]) for i in range(10)]
    assert {one.action_key for one in only_small} == {small}
    without_baseline = ask(services, "no-baseline", available_action_keys=[large])
    assert without_baseline.action_key == large
    assert without_baseline.reason == decision_pb2.DECISION_REASON_BASELINE_UNAVAILABLE
    assert (without_baseline.propensity, without_baseline.is_randomised) == (1.0, False)


def test_a_pin_no_exploration_and_a_tool_loop_are_not_randomised(services: Services) -> None:
    small, large = keys(services)
    pinned = ask(services, "pinned", pinned_action_key=large)
    assert (pinned.action_key, pinned.reason) == (large, decision_pb2.DECISION_REASON_PINNED)
    quiet = ask(services, "quiet", no_exploration=True)
    assert (quiet.action_key, quiet.reason) == (small, decision_pb2.DECISION_REASON_NO_EXPLORATION)
    looping = ask(services, "looping", in_tool_loop=True)
    assert (looping.action_key, looping.reason) == (small, decision_pb2.DECISION_REASON_TOOL_LOOP)
    assert not any(one.is_randomised for one in (pinned, quiet, looping))


@pytest.mark.parametrize(
    ("reason", "request_of"),
    [
        ("UNDECLARED_FEATURE", {"context": decision_pb2.Context(categories={"colour": "red"})}),
        ("UNDECLARED_FEATURE", {"context": decision_pb2.Context(numbers={"task": 1.0})}),
        ("CONTEXT_TOO_LARGE", {"context": decision_pb2.Context(categories={"task": "x" * 257})}),
        ("INVALID_NAME", {"request_id": "x" * 129}),
        ("INVALID_NAME", {"policy": "tenants/Deciding/policies/support"}),
        ("UNKNOWN_ACTION", {"pinned_action_key": "nobody@000000000000"}),
        ("INVALID_TOKEN", {"decision_token": b"\x01\x01made up by somebody"}),
        ("POLICY_NOT_FOUND", {"policy": f"tenants/{TENANT}/policies/another"}),
        ("TENANT_DENIED", {"policy": "tenants/nobody/policies/support"}),
    ],
)
def test_a_wrong_request_is_refused_with_its_reason(
    services: Services, reason: str, request_of: dict[str, Any]
) -> None:
    assert refusal(lambda: ask(services, "wrong", **request_of)) == reason


def test_a_foreign_tenant_looks_like_one_that_does_not_exist(services: Services, stack: Stack) -> None:
    foreign = stack.tenant("foreign")
    with stack.services(foreign) as other:
        assert refusal(lambda: ask(other, "spy")) == "TENANT_DENIED"
        assert refusal(lambda: ask(other, "spy", policy="tenants/nobody/policies/support")) == "TENANT_DENIED"


def test_best_action_is_the_baseline_while_nothing_is_known(services: Services) -> None:
    best = services.decisions.BestAction(
        decision_service_pb2.BestActionRequest(policy=POLICY, request_id="best", episode_id="best")
    )
    assert best.decision.reason == decision_pb2.DECISION_REASON_BEST_ACTION
    assert not best.decision.is_randomised


def test_a_freeze_serves_the_baseline_beats_stickiness_and_keeps_the_belief(services: Services, stack: Stack) -> None:
    small, large = keys(services)
    turns = [(f"before-{n}", ask(services, f"before-{n}")) for n in range(200)]
    sticky, explored, *_ = [turn for turn in turns if turn[1].action_key == large]
    name = f"tenants/{TENANT}"
    with stack.services() as operator:
        operator.governance.Freeze(governance_service_pb2.FreezeRequest(name=name, because="test"))
        wait_for(
            lambda: ask(services, f"probe-{now().ToNanoseconds()}").reason == decision_pb2.DECISION_REASON_FROZEN,
            "the freeze to arrive",
        )
        frozen = ask(services, sticky[0], decision_token=sticky[1].decision_token)
        assert (frozen.action_key, frozen.reason) == (small, decision_pb2.DECISION_REASON_FROZEN)
        before = cells(services)
        success(services, "quarantined", decision_token=explored[1].decision_token)
        log(services, explored[1], explored[0])
        wait_for(lambda: episode_of(services, explored[0]).weight_reason == "QUARANTINED", "the quarantine")
        assert cells(services) == before
        operator.governance.Unfreeze(
            governance_service_pb2.UnfreezeRequest(
                name=name, because="test", quarantine=governance_service_pb2.QUARANTINE_CHOICE_REPLAY
            )
        )
    wait_for(lambda: cells(services) != before, "the replay of what was quarantined")
    reasons = Counter(ask(services, f"after-{i}").reason for i in range(20))
    assert set(reasons) == {decision_pb2.DECISION_REASON_DRAWN}


def test_an_observing_policy_serves_the_baseline_and_logs_what_it_would_have_chosen(stack: Stack) -> None:
    stack.put_policy(two_models(TENANT, name="watched"))
    name = f"tenants/{TENANT}/policies/watched"
    with stack.services() as operator:
        operator.governance.SetMode(
            governance_service_pb2.SetModeRequest(name=name, mode=policy_pb2.MODE_OBSERVE, because="test")
        )
        wait_for(
            lambda: (
                ask(operator, f"o-{now().ToNanoseconds()}", policy=name).reason == decision_pb2.DECISION_REASON_OBSERVE
            ),
            "observing to begin",
        )
        decided = ask(operator, "observed", policy=name)
        assert decided.action.model_route.name == "small"
        wait_for(lambda: stored(operator, decided.decision), "the decision to be written")
        record = operator.decisions.GetDecision(decision_service_pb2.GetDecisionRequest(name=decided.decision)).decision
        assert record.shadow_action_key in keys(operator)
