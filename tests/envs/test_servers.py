"""Every registered environment served by OpenEnv and reached by our thin client, which knows the protocol alone."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import httpx
import pytest

from kedge_trainer.adapters.environments import GROUNDS, load
from kedge_trainer.adapters.openenv_client import RemoteEpisode, Session, get, post, session
from kedge_trainer.application.evaluate import evaluate
from kedge_trainer.domain.errors import ServerRefused
from tests.envs.replay import recorded
from tests.fixtures.openenv import Host
from tests.trust.size import of

every_server = pytest.mark.parametrize("name", GROUNDS)
SEED = 1_000_000
URL_CHECKS = {
    "openapi_version_available",
    "health_endpoint",
    "metadata_endpoint",
    "schema_endpoint",
    "mcp_endpoint",
    "mode_endpoint_consistency",
}


@every_server
def test_openenv_validate_passes_on_the_folder_and_on_the_running_server(openenv_host: Host, name: str) -> None:
    found = openenv_host.ask(validate=name)
    exit_code, written = found["static"]
    report = json.loads(written)
    assert (exit_code, report["verdict"]) == (0, "pass"), written
    exit_code, written = found["url"]
    checks = {one["id"]: one["passed"] for one in json.loads(written)["criteria"]}
    assert (exit_code, checks) == (0, dict.fromkeys(URL_CHECKS, True)), written


@every_server
@pytest.mark.parametrize("which", ["random", "oracle"])
def test_a_policy_scores_the_same_over_the_wire_as_in_process(openenv_host: Host, name: str, which: str) -> None:
    ground = load(name)
    task = next(iter(ground.TASKS))
    policy = ground.ORACLE if which == "oracle" else which
    count = of(5, 100)
    with session(openenv_host.urls[name]) as remote:
        there = evaluate(ground, task=task, policy=policy, split="dev", episodes=count, start=remote.start)
    here = evaluate(ground, task=task, policy=policy, split="dev", episodes=count)
    assert {k: pytest.approx(v, nan_ok=True) for k, v in here.values.items()} == there.values


@every_server
def test_64_sessions_at_once_do_not_know_each_other(openenv_host: Host, name: str) -> None:
    ground = load(name)
    task = next(iter(ground.TASKS))
    alone = [recorded(ground, task, seed, "random") for seed in range(SEED, SEED + 64)]

    with ThreadPoolExecutor(64) as pool, _sessions(openenv_host.urls[name], 64) as remotes:
        episodes = list(pool.map(lambda pair: pair[0].start(task, pair[1].seed), zip(remotes, alone, strict=True)))
        for number in range(of(4, 40)):
            playing = [(e, one) for e, one in zip(episodes, alone, strict=True) if number < len(one.actions)]
            actions = [one.actions[number] for _, one in playing]
            turns = list(pool.map(RemoteEpisode.step, [e for e, _ in playing], actions))
            assert [turn.reward for turn in turns] == pytest.approx([one.rewards[number] for _, one in playing])
            assert [e.observe() for e, _ in playing] == [one.observations[number + 1] for _, one in playing]


@contextmanager
def _sessions(url: str, count: int) -> Iterator[list[Session]]:
    with ExitStack() as stack:
        yield [stack.enter_context(session(url)) for _ in range(count)]


MALFORMED = [
    "not json",
    "",
    "[]",
    "3",
    "null",
    '"reset"',
    "[" * 100_000,
    "{}",
    '{"type": 7}',
    '{"type": "step"}',
    '{"type": "step", "data": []}',
    '{"type": "step", "data": {"nonsense": {"a": [1, null]}}}',
    '{"type": "reset", "data": {"seed": -1}}',
    '{"type": "reset", "data": {"seed": "seven"}}',
    '{"type": "reset", "data": {"task": "no such task", "seed": 0}}',
    '{"type": "reset", "data": {"task": ["a"], "seed": 0}}',
    '{"type": "reset", "data": {"split": "moon", "index": 0}}',
    '{"type": "mcp", "data": 3}',
]


@every_server
def test_no_message_ends_a_session_and_the_episode_goes_on(openenv_host: Host, name: str) -> None:
    ground = load(name)
    task = next(iter(ground.TASKS))
    whole = recorded(ground, task, SEED, "random")
    with session(openenv_host.urls[name]) as remote:
        episode = remote.start(task, SEED)
        for message in MALFORMED:
            with pytest.raises(ServerRefused):
                remote.send(message)
        assert episode.observe() == whole.observations[0]
        for action, observation in zip(whole.actions, whole.observations[1:], strict=True):
            episode.step(action)
            assert episode.observe() == observation


REFUSED: list[tuple[str, str]] = [
    ("/reset", '{"task": "no such task"}'),
    ("/reset", '{"task": ["a"]}'),
    ("/reset", '{"task": "\\ud800"}'),
    ("/reset", '{"task": ' + "[" * 500 + "]" * 500 + "}"),
    ("/reset", '{"seed": 2000000}'),
    ("/reset", '{"seed": NaN}'),
    ("/reset", '{"seed": "\\ud800"}'),
    ("/reset", '{"seed": 1' + "0" * 5000 + "}"),
    ("/reset", '{"split": "moon"}'),
    ("/reset", '{"split": "test", "index": 0}'),
    ("/reset", '{"split": "dev", "index": -1}'),
    ("/reset", '{"split": "dev", "index": "x"}'),
    ("/reset", '{"episode_id": "\\ud800"}'),
    ("/reset", '{"self": 1}'),
    ("/step", '{"action": {}}'),
    ("/step", '{"action": {}, "episode_id": ["a"]}'),
    ("/step", '{"action": {"action_type": NaN}}'),
    ("/step", '{"action": {"\\ud800": 1}}'),
    ("/{name}/tasks", '{"split": "moon"}'),
    ("/{name}/num_tasks", '{"split": "test"}'),
    ("/{name}/task", '{"split": "dev", "index": -1}'),
    ("/{name}/task_range", '{"split": "moon"}'),
]


@every_server
def test_no_value_in_a_request_is_an_error_of_the_server(openenv_host: Host, name: str) -> None:
    with httpx.Client(base_url=openenv_host.urls[name], headers={"Content-Type": "application/json"}) as client:
        for path, body in REFUSED:
            answer = client.post(path.format(name=name), content=body)
            assert answer.status_code in {400, 422}, (path, body[:60])
            assert answer.json()["detail"], (path, body[:60])
        told = client.post("/reset", json={"task": "no such task"}).json()["detail"]
        assert all(task in told for task in load(name).TASKS)
        assert client.post("/reset", json={"split": "dev", "index": 0}).status_code == 200


@every_server
def test_a_session_asks_about_itself_and_learns_nothing_hidden(openenv_host: Host, name: str) -> None:
    ground = load(name)
    task = next(iter(ground.TASKS))
    with session(openenv_host.urls[name]) as remote:
        remote.start(task, SEED).step({})
        state = remote.state()
    assert set(state) == {"episode_id", "step_count", "task", "finished"}
    assert (state["step_count"], state["task"], state["finished"]) == (1, task, False)


@every_server
def test_the_test_split_is_refused_unless_the_server_was_started_for_evaluation(openenv_host: Host, name: str) -> None:
    ground = load(name)
    task = next(iter(ground.TASKS))
    forbidden: list[dict[str, object]] = [{"seed": 2_000_000}, {"split": "test", "index": 0}, {"seed": 5_000_000}]
    with session(openenv_host.urls[name]) as remote:
        for asked in forbidden:
            with pytest.raises(ServerRefused, match="split"):
                remote.ask("reset", {"task": task, **asked})
    openenv_host.ask(held_out=True)
    try:
        with session(openenv_host.urls[name]) as remote:
            assert remote.start(task, 2_000_000).observe() == ground.start(task, 2_000_000).observe()
    finally:
        openenv_host.ask(held_out=False)


@every_server
def test_tasks_and_splits_can_be_found_and_pages_answer(openenv_host: Host, name: str) -> None:
    ground, url = load(name), openenv_host.urls[name]
    assert get(url, "/tasks") == dict(ground.TASKS)
    metadata = cast("dict[str, object]", get(url, "/metadata"))
    assert (metadata["name"], metadata["version"]) == (ground.NAME, ground.VERSION)
    reset = cast("dict[str, Any]", post(url, "/reset", {"seed": SEED, "task": next(iter(ground.TASKS))}))
    shown = {key: value for key, value in reset["observation"].items() if key != "metadata"}
    assert shown == ground.start(next(iter(ground.TASKS)), SEED).observe()
    assert get(url, "/state")
    with pytest.raises(ServerRefused):
        post(url, "/step", {"action": {}})


def test_nothing_at_an_address_is_said_so() -> None:
    with pytest.raises(ServerRefused, match="refused"), session("http://127.0.0.1:9"):
        pass
