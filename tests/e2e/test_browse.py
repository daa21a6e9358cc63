"""Look through the record over gRPC: pages of decisions and episodes, one episode's timeline, belief and history."""

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from kedge.bandit.v1 import (
    decision_pb2,
    decision_service_pb2,
    episode_pb2,
    episode_service_pb2,
    outcome_pb2,
    policy_service_pb2,
)
from tests.fixtures.core_app import POLICY, ask, episode_of, keys, log, refusal, success
from tests.fixtures.stack import Services, Stack, wait_for

EPISODES = [f"browsed-{number}" for number in range(7)]


@pytest.fixture(scope="module", autouse=True)
def played(services: Services) -> None:
    """Play seven episodes: the last is vetoed, the others succeed or fail in turn."""
    for number, episode in enumerate(EPISODES):
        decided = ask(services, episode)
        success(services, episode, value=float(number % 2), decision_token=decided.decision_token)
        trajectory = episode_pb2.Trajectory(terminated=True)
        trajectory.guardrail_events.add(kind=episode_pb2.GUARDRAIL_KIND_PII, tripped=episode == EPISODES[-1])
        trajectory.llm_calls.add(
            model_id="m-1", prompt_tokens=10, completion_tokens=3, cost_usd=0.002, latency_ms=120.0
        )
        trajectory.tool_calls.add(tool_name="lookup", verifier_verdict=episode_pb2.VERIFIER_VERDICT_PASSED)
        log(services, decided, episode, trajectory=trajectory)
    ended = (episode_pb2.EPISODE_STATE_SETTLED, episode_pb2.EPISODE_STATE_VETOED)
    wait_for(lambda: all(episode_of(services, one).state in ended for one in EPISODES), "the verdicts")


def decisions(services: Services, **wishes: object) -> list[str]:
    """Read every page."""
    found: list[str] = []
    request = decision_service_pb2.ListDecisionsRequest(policy=POLICY, page_size=3, **wishes)  # type: ignore[arg-type]  # by name
    while True:
        page = services.decisions.ListDecisions(request)
        assert len(page.decisions) <= 3
        found += [one.episode_id for one in page.decisions]
        request.page_token = page.next_page_token
        if not page.next_page_token:
            return found


def episodes(services: Services, **wishes: object) -> list[str]:
    found: list[str] = []
    request = episode_service_pb2.ListEpisodesRequest(policy=POLICY, page_size=3, **wishes)  # type: ignore[arg-type]  # by name
    while True:
        page = services.episodes.ListEpisodes(request)
        found += [one.episode_id for one in page.episodes]
        assert all(one.action_key and one.open_time.seconds for one in page.episodes)
        request.page_token = page.next_page_token
        if not page.next_page_token:
            return found


def test_pages_of_decisions_hold_each_once_the_newest_first(services: Services) -> None:
    assert decisions(services) == EPISODES[::-1]


def test_decisions_are_found_by_what_is_known_of_them(services: Services) -> None:
    small, large = keys(services)
    by_action = [decisions(services, action_key=key) for key in (small, large)]
    assert sorted(by_action[0] + by_action[1]) == sorted(EPISODES)
    assert decisions(services, episode_id=EPISODES[2]) == [EPISODES[2]]
    assert decisions(services, episode_id="nobody-s") == []
    assert decisions(services, bucket="task=nothing") == []
    pinned = decision_pb2.DECISION_REASON_PINNED
    assert decisions(services, reason=pinned) == []
    early = Timestamp()
    early.FromDatetime(datetime.now(UTC) - timedelta(days=1))
    assert decisions(services, end_time=early) == []
    assert decisions(services, end_time=Timestamp(seconds=-1)) == []


def test_a_token_that_is_none_is_refused(services: Services) -> None:
    for stub, request in (
        (
            services.decisions.ListDecisions,
            decision_service_pb2.ListDecisionsRequest(policy=POLICY, page_token="later"),
        ),
        (services.episodes.ListEpisodes, episode_service_pb2.ListEpisodesRequest(policy=POLICY, page_token="later")),
        (
            services.episodes.ListEpisodes,
            episode_service_pb2.ListEpisodesRequest(policy=POLICY, page_token="2026-01-01 x"),
        ),
    ):
        assert refusal(partial(stub, request)) == "INVALID_NAME"


def test_pages_of_episodes_hold_each_once_and_by_state(services: Services) -> None:
    assert episodes(services) == EPISODES[::-1]
    assert episodes(services, state=episode_pb2.EPISODE_STATE_VETOED) == [EPISODES[-1]]
    assert episodes(services, state=episode_pb2.EPISODE_STATE_SETTLED) == EPISODES[-2::-1]


def test_a_timeline_tells_what_was_decided_said_and_judged_in_order(services: Services) -> None:
    request = episode_service_pb2.GetTimelineRequest(policy=POLICY, episode_id=EPISODES[1])
    told = services.episodes.GetTimeline(request)
    kinds = [entry.WhichOneof("entry") for entry in told.entries]
    assert kinds[0] == "decision"
    assert sorted(kinds[1:-1]) == ["event", "outcome"]
    assert kinds[-1] == "verdict"
    times = [entry.receive_time.ToNanoseconds() for entry in told.entries]
    assert times == sorted(times)
    said = dict(zip(kinds, told.entries, strict=True))
    (call,) = said["event"].event.trajectory.llm_calls
    assert (call.model_id, call.cost_usd, call.latency_ms) == ("m-1", 0.002, 120.0)
    (tool,) = said["event"].event.trajectory.tool_calls
    assert (tool.tool_name, tool.verifier_verdict) == ("lookup", episode_pb2.VERIFIER_VERDICT_PASSED)
    assert (said["outcome"].outcome.signal, said["outcome"].outcome.value) == (outcome_pb2.SIGNAL_TASK_SUCCESS, 1.0)
    assert said["outcome"].source
    verdict = said["verdict"].verdict
    parts = {one.component: one.value for one in verdict.components}
    spec = told.reward
    quality = spec.weight_human + spec.weight_judge + spec.weight_task_success
    raw = quality * parts["quality"] - spec.weight_cost * parts["cost"] - spec.weight_latency * parts["latency"]
    assert parts["raw"] == pytest.approx(raw, abs=1e-12)
    assert verdict.reward == pytest.approx(min(1.0, max(0.0, raw)), abs=1e-12)


def test_a_vetoed_episode_names_its_reason_and_one_that_nobody_knows_is_not_found(services: Services) -> None:
    request = episode_service_pb2.GetTimelineRequest(policy=POLICY, episode_id=EPISODES[-1])
    verdict = services.episodes.GetTimeline(request).entries[-1].verdict
    assert verdict.state == episode_pb2.EPISODE_STATE_VETOED
    assert list(verdict.veto_reasons) == [outcome_pb2.VETO_REASON_GUARDRAIL_PII]
    request.episode_id = "nobody-s"
    assert refusal(lambda: services.episodes.GetTimeline(request)) == "EPISODE_NOT_FOUND"


def test_the_belief_of_a_bucket_is_a_density_around_its_mean(services: Services) -> None:
    found = services.policies.GetBelief(policy_service_pb2.GetBeliefRequest(name=POLICY))
    assert list(found.buckets) == ["task=math"]
    for bucket in ("", "task=math"):
        found = services.policies.GetBelief(policy_service_pb2.GetBeliefRequest(name=POLICY, bucket=bucket))
        assert [one.action_key for one in found.actions] == sorted(keys(services))
        assert sum(one.probability_best for one in found.actions) == pytest.approx(1.0)
        step = found.grid[1] - found.grid[0]
        for one in found.actions:
            assert one.lower < one.mean < one.upper
            area = sum((a + b) / 2 * step for a, b in zip(one.density, one.density[1:], strict=False))
            assert area == pytest.approx(1.0)
    assert sum(one.weight for one in found.actions) == pytest.approx(7.0, abs=0.01)
    wrong = policy_service_pb2.GetBeliefRequest(name=POLICY, bucket="task=nothing")
    assert refusal(lambda: services.policies.GetBelief(wrong)) == "INVALID_VALUE"


def test_the_history_counts_what_was_decided_and_what_became_of_it(services: Services) -> None:
    found = services.policies.GetHistory(policy_service_pb2.GetHistoryRequest(name=POLICY, points=10))
    tallies = [one for point in found.points for one in point.actions]
    assert sum(one.decisions for one in tallies) == sum(one.episodes for one in tallies) == len(EPISODES)
    assert sum(one.vetoes for one in tallies) == 1
    assert sum(one.cost_usd for one in tallies) == pytest.approx(7 * 0.002)
    assert sum(one.timed_episodes for one in tallies) == len(EPISODES)
    rewards = sum(episode_of(services, one).reward for one in EPISODES)
    assert sum(one.reward_sum for one in tallies) == pytest.approx(rewards)
    assert found.start_time.seconds <= found.points[-1].start_time.seconds < found.end_time.seconds
    for points in (1, 201):
        request = policy_service_pb2.GetHistoryRequest(name=POLICY, points=points)
        assert refusal(partial(services.policies.GetHistory, request)) == "INVALID_VALUE"
    request = policy_service_pb2.GetHistoryRequest(name=POLICY)
    request.start_time.FromDatetime(datetime.now(UTC) + timedelta(days=1))
    assert refusal(lambda: services.policies.GetHistory(request)) == "INVALID_VALUE"


def test_the_command_line_looks_through_the_same_record(stack: Stack) -> None:
    def told(*words: str) -> Any:
        done = stack.kedge_here(*words, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    place = ("deciding", "support")
    assert [one["episode_id"] for one in told("decisions", *place, "--limit", "2")] == EPISODES[:-3:-1]
    assert [one["episode_id"] for one in told("episodes", *place, "--state", "vetoed")] == [EPISODES[-1]]
    assert len(told("episode", *place, EPISODES[1])["entries"]) == 4
    assert [one["action_key"] for one in told("belief", *place, "--bucket", "task=math")["actions"]]
    points = told("history", *place, "--hours", "1", "--points", "4")["points"]
    assert sum(int(one["decisions"]) for point in points for one in point["actions"]) == len(EPISODES)
    for words in (("decisions", *place), ("episodes", *place), ("episode", *place, EPISODES[-1]), ("belief", *place)):
        assert stack.kedge_here(*words).exit_code == 0
    wrong = stack.kedge_here("episodes", *place, "--state", "happy")
    assert wrong.exit_code == 2
    assert "one of PENDING, SETTLED" in wrong.output.replace("\n", " ").replace("│ ", "")
