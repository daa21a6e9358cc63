"""What changes the meaning of evidence: it is folded anew, the old allocation serves meanwhile, and replay stays exact.

One policy lives through all of it: other reward weights, other cut points, another model behind a route, a successor.
The worker takes 50 settled episodes a pass, so that there is a meanwhile.
"""

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kedge.bandit.v1 import (
    decision_pb2,
    episode_pb2,
    episode_service_pb2,
    feedback_service_pb2,
    governance_service_pb2,
    outcome_pb2,
    policy_pb2,
    policy_service_pb2,
)
from tests.fixtures.core_app import POLICY, TENANT, ask, now
from tests.fixtures.outside_fold import folded, largest_difference
from tests.fixtures.policies import two_models
from tests.fixtures.second_person import add_arm
from tests.fixtures.stack import Services, Stack, running_stack, wait_for

EPISODES = 400
BATCH = 200


@pytest.fixture(scope="module")
def stack(fresh_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("kedge")
    with running_stack(fresh_database, folder, KEDGE_WORKER_BATCH=str(BATCH)) as running:
        yield running


@pytest.fixture(scope="module")
def services(stack: Stack) -> Iterator[Services]:
    key = stack.tenant(TENANT)
    stack.put_policy(first_policy())
    with stack.services(key) as connected:
        play(connected, "first", EPISODES, model="provider-1")
        yield connected


def first_policy() -> policy_pb2.Policy:
    policy = two_models(TENANT)
    policy.features.add(name="words", numeric=policy_pb2.NumericFeature(cut_points=[20]))
    policy.learner = "beta"
    return policy


def trajectory(model: str) -> episode_pb2.Trajectory:
    made = episode_pb2.Trajectory(terminated=True)
    made.guardrail_events.add(kind=episode_pb2.GUARDRAIL_KIND_PII, tripped=False)
    made.llm_calls.add(model_id=model, prompt_tokens=1, completion_tokens=1, cost_usd=0.001, latency_ms=100)
    return made


def play(services: Services, name: str, count: int, *, model: str) -> list[Any]:
    """Decide, log and score episodes, and wait until all of them are settled."""
    before = status(services).episode_counts["SETTLED"]
    decided, outcomes = [], []
    for i in range(count):
        words = decision_pb2.Context(categories={"task": "math"}, numbers={"words": 10.0 + i % 40})
        answer = ask(services, f"{name}-{i}", context=words)
        services.episodes.LogEpisode(
            episode_service_pb2.LogEpisodeRequest(
                policy=POLICY,
                request_id=f"{name}-{i}",
                episode_id=f"{name}-{i}",
                decision_token=answer.decision_token,
                trajectory=trajectory(model),
            )
        )
        outcomes.append(
            outcome_pb2.Outcome(
                idempotency_key=f"{name}-{i}",
                decision_token=answer.decision_token,
                signal=outcome_pb2.SIGNAL_TASK_SUCCESS,
                value=float(i % 3 > 0),
                observed_time=now(),
            )
        )
        decided.append(answer)
    for start in range(0, count, 100):
        request = feedback_service_pb2.RecordOutcomesRequest(
            parent=f"tenants/{TENANT}", outcomes=outcomes[start : start + 100]
        )
        services.feedback.RecordOutcomes(request)
    wait_for(lambda: status(services).episode_counts["SETTLED"] == before + count, "all to be settled")
    return decided


def status(services: Services) -> Any:
    return services.policies.GetPolicyStatus(policy_service_pb2.GetPolicyStatusRequest(name=POLICY))


def policy_of(services: Services) -> policy_pb2.Policy:
    found: policy_pb2.Policy = services.policies.GetPolicy(policy_service_pb2.GetPolicyRequest(name=POLICY)).policy
    return found


def put(services: Services, change: Callable[[policy_pb2.Policy], None]) -> int:
    """Change the policy; answers its new version."""
    policy = policy_of(services)
    change(policy)
    request = policy_service_pb2.PutPolicyRequest(
        policy=policy, expected_version=policy.policy_version, because="to see it refolded"
    )
    return int(services.policies.PutPolicy(request).policy.policy_version)


def audited(services: Services, verb: str) -> list[Any]:
    request = governance_service_pb2.ListAuditEventsRequest(parent=f"tenants/{TENANT}", page_size=1000)
    return [event for event in services.governance.ListAuditEvents(request).events if event.verb == verb]


def export(services: Services) -> list[Any]:
    return list(services.episodes.ExportDecisions(episode_service_pb2.ExportDecisionsRequest(policy=POLICY)))


def served_until(services: Services, verb: str, count: int) -> list[int]:
    """Decide on and on until the service has written down what it did; answers the allocations that were drawn from."""
    versions = []

    def is_done() -> bool:
        words = decision_pb2.Context(categories={"task": "math"}, numbers={"words": 10.0})
        versions.append(ask(services, f"meanwhile-{uuid.uuid4()}", context=words).allocation_version)
        return len(audited(services, verb)) == count

    wait_for(is_done, verb)
    return versions


def assert_the_record_is_sound(stack: Stack, services: Services) -> None:
    """State is the rebuild of the log, a fold outside agrees, and every decision replays, old ones and new ones."""
    request = policy_service_pb2.RebuildPolicyRequest(name=POLICY, verify_only=True)
    rebuilt = services_of_operator(stack, request)
    assert (rebuilt.agrees, rebuilt.max_error <= 1e-9) == (True, True)
    assert largest_difference(export(services)) <= 1e-9
    replayed = json.loads(stack.kedge("replay", TENANT, "support", "--sample", "5000", "--json").stdout)
    assert (replayed["mismatches"], replayed["max_error"] <= 1e-9) == (0, True)
    assert replayed["replayed"] >= EPISODES


def services_of_operator(stack: Stack, request: policy_service_pb2.RebuildPolicyRequest) -> Any:
    with stack.services() as operator:
        return operator.policies.RebuildPolicy(request)


def assert_old_serves_until_new(services: Services, old: int, versions: list[int]) -> None:
    meanwhile = [version for version in versions if version <= old]
    assert len(meanwhile) >= 3, "too quick to be seen: lower the batch"
    assert versions[: len(meanwhile)] == meanwhile
    wait_for(lambda: status(services).allocation_version > old, "a new allocation")


def test_other_reward_weights_settle_and_fold_anew_what_was_settled(stack: Stack, services: Services) -> None:
    before = {cell: sums for cell, sums in folded(export(services))[1].items() if sums[0] > 0}
    old = status(services).allocation_version

    def reweigh(policy: policy_pb2.Policy) -> None:
        policy.reward.weight_human, policy.reward.weight_task_success = 0.2, 0.5

    version = put(services, reweigh)
    versions = served_until(services, "evidence.resettled", 1)

    assert_old_serves_until_new(services, old, versions)
    after = folded(export(services))[1]
    assert sum(sums[1] for sums in after.values()) != pytest.approx(sum(sums[1] for sums in before.values()), rel=1e-3)
    assert sum(sums[0] for sums in after.values()) == pytest.approx(EPISODES, rel=1e-3)
    [event] = audited(services, "evidence.resettled")
    assert (event.actor, json.loads(event.payload_json)["reason"]) == ("kedge", str(version))
    assert_the_record_is_sound(stack, services)


def test_other_cut_points_move_the_evidence_into_the_buckets_of_the_stored_numbers(
    stack: Stack, services: Services
) -> None:
    old = status(services).allocation_version

    def cut(policy: policy_pb2.Policy) -> None:
        [words] = [feature for feature in policy.features if feature.name == "words"]
        words.numeric.cut_points[:] = [15.0, 30.0]

    put(services, cut)
    versions = served_until(services, "evidence.resettled", 2)

    assert_old_serves_until_new(services, old, versions)
    weights: dict[str, float] = {}
    for (bucket, _), sums in folded(export(services))[1].items():
        weights[bucket] = weights.get(bucket, 0.0) + sums[0]
    filled = sorted(round(weight) for weight in weights.values() if weight > 0.5)
    assert filled == [50, 150, 200]
    assert_the_record_is_sound(stack, services)


def test_another_model_behind_a_route_leaves_40_episodes_of_every_cell_and_the_new_ones(
    stack: Stack, services: Services
) -> None:
    before = folded(export(services))[1]
    fresh = play(services, "second", 30, model="provider-2")
    wait_for(lambda: len(audited(services, "evidence.revalued")) == len({one.action_key for one in fresh}), "its note")

    after = folded(export(services))[1]
    concerned = [cell for cell, sums in before.items() if sums[0] > 80 and cell[1] in {one.action_key for one in fresh}]
    assert concerned
    for cell in concerned:
        assert 39.9 < after[cell][0] <= 40 + len(fresh)
    assert [record.known_change for record in export(services) if record.HasField("known_change")]
    assert_the_record_is_sound(stack, services)


def test_a_successor_starts_from_what_its_predecessor_knew(stack: Stack, services: Services) -> None:
    policy = policy_of(services)
    [large] = [arm for arm in policy.arms if arm.name == "large"]
    large_id = f"large@{large.content_hash[:12]}"
    revalued = len(audited(services, "evidence.revalued"))
    heir = policy_pb2.Arm(
        dimension=policy_pb2.DIMENSION_MODEL_ROUTE, name="larger", content="larger-model", succeeds=large_id
    )

    put_version = add_arm(stack, POLICY, heir).policy_version
    wait_for(lambda: len(audited(services, "evidence.revalued")) == revalued + 1, "its note")

    assert put_version == policy.policy_version + 1
    [heir_key] = [key for key in policy_of(services).action_keys if key.startswith("larger@")]
    after = folded(export(services))[1]
    inherited = {cell: sums for cell, sums in after.items() if cell[1] == heir_key}
    assert inherited
    for (bucket, _), (n, _, _) in inherited.items():
        assert n == pytest.approx(min(40.0, after[bucket, large_id][0]), rel=1e-3)
    play(services, "third", 60, model="provider-2")
    assert_the_record_is_sound(stack, services)
