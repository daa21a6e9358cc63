"""A policy survives the wire, and what cannot be one is refused with the reason."""

from datetime import timedelta

import pytest
from google.protobuf import json_format
from hypothesis import given

from kedge.bandit.v1 import policy_pb2
from kedge_bandit.adapters.grpc.wire_policy import policy_message, spec_of
from kedge_bandit.domain.errors import InvalidPolicy, KedgeError, RewardSpecInvalid, UnknownDimension, WindowsInvalid
from kedge_bandit.domain.policy import Policy
from tests.bandit.domain.policy_strategies import ACME, policies

ARM = {"dimension": "DIMENSION_MODEL_ROUTE", "name": "small", "content": "provider/small"}
REWARD = {"costReferenceUsd": 0.01, "latencyReferenceMs": 1000}
LEAST = {
    "arms": [ARM],
    "baseline": {"modelRoute": {"name": "small"}},
    "reward": REWARD,
}


def message(**changes: object) -> policy_pb2.Policy:
    return json_format.ParseDict({**LEAST, **changes}, policy_pb2.Policy())


@given(policies())
def test_a_policy_survives_the_wire(policy: Policy) -> None:
    sent = policy_pb2.Policy.FromString(policy_message(ACME, policy).SerializeToString())
    assert spec_of(sent) == policy.spec
    assert list(sent.action_keys) == list(policy.spec.action_keys)
    assert sent.action_keys[sent.baseline_index] == policy.spec.baseline_key


def test_what_is_left_out_has_the_vetted_default() -> None:
    spec = spec_of(message())
    assert (spec.learner, spec.half_life, spec.prior_strength) == ("auto", timedelta(days=14), 6.0)
    assert (spec.exploration.floor, spec.exploration.uniform_slice) == (0.8, 0.1)
    assert (spec.reward.weight_human, spec.reward.safety_source) == (0.4, "GUARDRAILS")


def test_a_weight_of_zero_is_not_a_weight_left_out() -> None:
    assert spec_of(message(reward={**REWARD, "weightJudge": 0})).reward.weight_judge == 0


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"arms": []}, InvalidPolicy),
        ({"arms": [{"dimension": 7, "name": "send", "content": "mail"}]}, UnknownDimension),
        ({"arms": [{"name": "spend", "content": "money"}]}, UnknownDimension),
        ({"arms": [{**ARM, "content": "a\0b"}]}, InvalidPolicy),
        ({"arms": [{**ARM, "costCard": {"usdPerEpisode": -1}}]}, InvalidPolicy),
        ({"arms": [{**ARM, "costCard": {"usdPerEpisode": "NaN"}}]}, InvalidPolicy),
        ({"baseline": {"modelRoute": {"name": "small", "contentHash": "0" * 64}}}, InvalidPolicy),
        ({"baseline": {}}, InvalidPolicy),
        ({"features": [{"name": "task"}]}, InvalidPolicy),
        ({"features": [{"name": "task", "numeric": {"cutPoints": [2, 1]}}]}, InvalidPolicy),
        ({"reward": {}}, RewardSpecInvalid),
        ({"reward": {"costReferenceUsd": "NaN", "latencyReferenceMs": 1}}, RewardSpecInvalid),
        ({"settlement": {"judgeWindow": "-1s"}}, WindowsInvalid),
        ({"settlement": {"judgeRate": "NaN"}}, InvalidPolicy),
        ({"halfLife": "59s"}, InvalidPolicy),
        ({"priorStrength": "Infinity"}, InvalidPolicy),
    ],
)
def test_what_is_no_policy_is_refused_with_its_reason(changes: dict[str, object], error: type[KedgeError]) -> None:
    with pytest.raises(error):
        spec_of(message(**changes))
