"""A client decides in its own process, over the real service: same actions, true reports, a switch that reaches it."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator

import pytest

from kedge.bandit.v1 import decision_pb2, decision_service_pb2, episode_pb2, governance_service_pb2, policy_pb2
from kedge_client import Arm, Baseline, CallFailed, Choice, Kedge, Listener
from tests.fixtures.core_app import TENANT, ask, cells, episode_of, stored
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Services, Stack, wait_for

BASELINE = Baseline(model_route=Arm("small", "small-model"))
EPISODES = 2_000


class Heard(Listener):
    """Keep what did not go well."""

    def __init__(self) -> None:
        self.refused: list[tuple[str, str]] = []
        self.dropped: list[str] = []
        self.ends: list[CallFailed | None] = []

    def decision_refused(self, decision: str, why: str) -> None:
        self.refused.append((decision, why))

    def decision_dropped(self, decision: str) -> None:
        self.dropped.append(decision)

    def watch_ended(self, policy: str, failure: CallFailed | None) -> None:
        self.ends.append(failure)


@pytest.fixture(scope="module")
def key(stack: Stack) -> str:
    made = stack.tenant(TENANT)
    stack.put_policy(two_models(TENANT, judge_rate=0.5))
    return made


@pytest.fixture
def services(stack: Stack, key: str) -> Iterator[Services]:
    with stack.services(key) as connected:
        yield connected


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
async def kedge(stack: Stack, key: str, heard: Heard) -> AsyncIterator[Kedge]:
    baselines = dict.fromkeys(("support", "switched"), BASELINE)
    async with Kedge(
        stack.address, key=key, tenant=TENANT, baselines=baselines, local=["support"], listener=heard
    ) as made:
        assert await made.ready(timeout_s=30)
        yield made


async def decided(kedge: Kedge, episode: str, task: str = "math") -> Choice:
    return await kedge.decide("support", episode_id=episode, categories={"task": task})


async def test_two_thousand_episodes_get_the_action_that_the_server_draws(
    kedge: Kedge, services: Services, heard: Heard
) -> None:
    tasks = ("math", "code", "poetry")
    mine = [await decided(kedge, f"e-{i}", tasks[i % 3]) for i in range(EPISODES)]
    shown = {(choice.action_key, choice.propensity, choice.reason, choice.judge_requested) for choice in mine}
    assert len(shown) == 4  # two actions, with and without a judge

    def served() -> list[tuple[str, float, bool, bool]]:
        found = []
        for i in range(EPISODES):
            answer = ask(services, f"e-{i}", context=decision_pb2.Context(categories={"task": tasks[i % 3]}))
            found.append((answer.action_key, answer.propensity, answer.is_randomised, answer.judge_requested))
        return found

    there = await asyncio.to_thread(served)

    assert [(c.action_key, c.propensity, c.is_randomised, c.judge_requested) for c in mine] == there
    assert heard.dropped == []


async def test_an_episode_decided_here_is_learned_from_though_its_outcome_came_first(
    kedge: Kedge, services: Services, heard: Heard
) -> None:
    choice = await decided(kedge, "outcome-first")
    assert not choice.fallback
    assert choice.token == b""
    results = await kedge.record_outcomes([kedge.about(choice.handle).task_success(1.0)])
    assert len(results) == 1
    trajectory = episode_pb2.Trajectory(terminated=True)
    trajectory.guardrail_events.add(kind=episode_pb2.GUARDRAIL_KIND_PII, tripped=False)
    await kedge.log_episode(choice.handle, trajectory)
    await kedge.settle(choice.handle)

    await asyncio.to_thread(
        wait_for, lambda: episode_of(services, "outcome-first").weight > 0, "the episode to be learned from"
    )
    request = decision_service_pb2.GetDecisionRequest(name=choice.decision)
    record = services.decisions.GetDecision(request).decision
    assert (record.is_local, record.set_aside, record.superseded) == (True, "", False)
    assert record.action_key == choice.action_key
    replayed = services.decisions.ReplayDecision(decision_service_pb2.ReplayDecisionRequest(name=choice.decision))
    assert replayed.matches, replayed.detail
    assert cells(services)
    assert heard.refused == []


async def test_a_decision_can_be_cancelled_at_once_because_it_is_reported_first(
    kedge: Kedge, services: Services
) -> None:
    choice = await decided(kedge, "cancelled")

    await kedge.cancel(choice.handle)

    assert stored(services, choice.decision)


async def test_an_episode_keeps_its_choice_and_a_freeze_reaches_the_client_and_beats_it(
    stack: Stack, key: str, heard: Heard
) -> None:
    stack.put_policy(two_models(TENANT, name="switched"))
    name = f"tenants/{TENANT}/policies/switched"
    async with Kedge(
        stack.address, key=key, tenant=TENANT, baselines={"switched": BASELINE}, local=["switched"], listener=heard
    ) as kedge:
        assert await kedge.ready(timeout_s=30)

        async def choose(episode: str) -> Choice:
            return await kedge.decide("switched", episode_id=episode, categories={"task": "math"})

        large = next(c for c in [await choose(f"s-{i}") for i in range(50)] if c.model_route == "large")
        assert await choose(large.episode_id) is large
        with stack.services() as operator:
            request = governance_service_pb2.SetModeRequest(name=name, mode=policy_pb2.MODE_FROZEN, because="test")
            await asyncio.to_thread(operator.governance.SetMode, request)
        frozen = [await choose(f"probe-{i}") for i in range(1)]
        async with asyncio.timeout(10):
            while frozen[-1].reason != "FROZEN":
                await asyncio.sleep(0.005)
                frozen.append(await choose(f"probe-{len(frozen)}"))
        again = await choose(large.episode_id)
        assert (again.model_route, again.reason) == ("small", "FROZEN")
    assert heard.dropped == []
    # The second decision of a frozen episode is stored, behind the first; everything else was true.
    assert {why for _, why in heard.refused} <= {"CONFLICT"}


async def test_a_server_that_drains_ends_the_stream_at_once_and_the_client_comes_back(
    stack: Stack, kedge: Kedge, services: Services, heard: Heard
) -> None:
    stopped = stack.pid("server")
    os.kill(stopped, signal.SIGTERM)
    await asyncio.to_thread(
        wait_for, lambda: heard.ends and stack.pid("server") != stopped, "the stream to end and a new server"
    )

    assert heard.ends[0] is None  # it ended as a stream ends, not as a connection that broke
    assert await kedge.ready(timeout_s=30)
    choice = await decided(kedge, "after the drain")
    assert choice.reason == "DRAWN"
    await asyncio.to_thread(wait_for, lambda: stored(services, choice.decision), "the report after the drain")
