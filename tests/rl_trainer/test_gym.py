"""The Gym plays over the wire what plays in process, and tells a person more than the players."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from kedge_trainer.adapters.environments import GROUNDS, load, watching
from kedge_trainer.adapters.openenv_client import get
from kedge_trainer.adapters.server_children import running_servers
from kedge_trainer.application.gym import modes_of, named
from kedge_trainer.domain.errors import CannotServe, ServerRefused, UnknownEnvironment
from kedge_trainer.entrypoints.cli import app
from tests.fixtures.gym import running_gym
from tests.fixtures.openenv import PYTHON, Host
from tests.fixtures.stack import free_port

CHOSEN = {
    "brief_routing_env": ("hard_brief", "trained", ["eval_mode"]),
    "call_audit_env": ("hard", "auditor", []),
    "fleet_oversight_env": ("nexacrm_hard", "window_rules", []),
    "relocation_env": ("crisis", "reader", ["blind"]),
}
SEED = 3
NO_SUCH_MODE = "NOT_SWITCHED"


@pytest.fixture(scope="module")
def gym(openenv_host: Host) -> Iterator[str]:
    with running_gym(openenv_host.urls) as address:
        yield address


def ask(gym: str, **query: Any) -> httpx.Response:
    return httpx.get(f"{gym}/episode", params=query, timeout=60)


def shown(gym: str, **query: Any) -> Any:
    answer = ask(gym, **query)
    assert answer.status_code == httpx.codes.OK, answer.text
    return answer.json()


def as_sent(value: object) -> Any:
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("name", GROUNDS)
def test_an_episode_in_the_gym_is_the_one_in_process_step_by_step(gym: str, name: str) -> None:
    task, policy, on = CHOSEN[name]
    asked = {"environment": name, "task": task, "policy": policy, "on": on, "seed": SEED}
    ground, told = load(name), watching(name)
    full = named(ground, task, frozenset(on) - told.SWITCHES.keys())
    episode, player = ground.start(full, 1_000_000 + SEED), ground.policy(policy, full, 1_000_000 + SEED)
    whole = shown(gym, **asked, step=999)
    turns = []
    for number, step in enumerate(whole["steps"]):
        seen = shown(gym, **asked, step=number)
        assert seen["seen"] == as_sent(episode.observe())
        action = player(episode.observe())
        turns.append(turn := episode.step(action))
        assert step["action"] == as_sent(action)
        assert (step["reward"], step["veto"]) == (turn.reward, turn.veto)
    assert turns[-1].terminated or turns[-1].truncated
    assert (whole["at"], whole["grade"]) == (len(whole["steps"]), turns[-1].grade)
    assert whole["told"] == as_sent(told.told(full, 1_000_000 + SEED))


def test_what_is_offered_can_be_played(gym: str) -> None:
    offers = httpx.get(f"{gym}/environments").json()
    assert {offer["name"] for offer in offers} == set(GROUNDS)
    for offer in offers:
        assert set(offer["privileged"]) < set(offer["policies"])
        assert offer["oracle"] in offer["policies"]
        for task in offer["tasks"]:
            on = list(offer["switches"])
            assert shown(gym, environment=offer["name"], task=task, policy="empty", on=on, step=1)["at"] == 1


def test_who_is_needed_is_told_to_the_person_and_who_was_heard_is_seen(gym: str) -> None:
    asked = {"environment": "brief_routing_env", "task": "hard_brief", "on": "eval_mode", "step": 99}
    naive, oracle = (shown(gym, **asked, policy=policy) for policy in ("naive", "oracle"))
    assert naive["told"]["required"] == ["analyst", "finance", "strategy", "hr"]
    assert naive["seen"]["current_brief"]["consulted_experts"] == ["analyst"]
    assert set(oracle["seen"]["current_brief"]["consulted_experts"]) == set(oracle["told"]["required"])
    assert naive["grade"] < 0.3 < 0.9 < oracle["grade"]


def test_a_switch_reaches_the_environment(gym: str) -> None:
    asked = {"environment": "brief_routing_env", "task": "hard_brief", "policy": "naive", "step": 99}
    alone, helped = shown(gym, **asked, on=["compat", "eval_mode"]), shown(gym, **asked, on=["compat"])
    assert (alone["seen"]["eval_mode"], helped["seen"]["eval_mode"]) == (True, False)
    assert alone["grade"] + 0.3 < helped["grade"]
    assert shown(gym, **asked, on=["rag", "eval_mode"])["seen"]["rag_enabled"]


def test_tools_have_prices_and_they_are_what_the_budget_loses(gym: str) -> None:
    asked = {"environment": "call_audit_env", "task": "hard", "policy": "auditor", "step": 99}
    whole = shown(gym, **asked)
    spent = sum(step["price"] for step in whole["steps"] if not step["refused"])
    checklist = whole["seen"]["checklist"]
    assert spent == checklist["total_budget"] - checklist["budget_remaining_units"]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ({"environment": "nowhere", "task": "easy", "policy": "random"}, "UNKNOWN_ENVIRONMENT"),
        ({"environment": "relocation_env", "task": "nothing", "policy": "random"}, "UNKNOWN_TASK"),
        ({"environment": "relocation_env", "task": "easy", "policy": "nobody"}, "UNKNOWN_POLICY"),
        ({"environment": "relocation_env", "task": "easy", "policy": "random", "on": "rag"}, NO_SUCH_MODE),
        (
            {"environment": "brief_routing_env", "task": "audit_brief", "policy": "naive", "on": "compat"},
            "NOT_SWITCHED",
        ),
        ({"environment": "fleet_oversight_env", "task": "banking_faq", "policy": "random"}, "TASK_FOR_TESTING"),
        ({"environment": "relocation_env", "task": "easy", "policy": "random", "seed": "100000"}, "SEED_OUT_OF_SPLIT"),
        ({"environment": "relocation_env", "task": "easy", "policy": "random", "seed": "-1"}, "CANNOT_SERVE"),
        ({}, "UNKNOWN_ENVIRONMENT"),
    ],
)
def test_what_cannot_be_played_says_why(gym: str, query: dict[str, str], reason: str) -> None:
    answer = ask(gym, **query)
    assert answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY
    assert answer.json()["reason"] == reason


def test_a_path_that_is_none_and_a_server_that_is_away_are_said() -> None:
    with running_gym({"relocation_env": f"http://127.0.0.1:{free_port()}"}) as gym:
        assert httpx.get(f"{gym}/nowhere").status_code == httpx.codes.NOT_FOUND
        answer = ask(gym, environment="relocation_env", task="easy", policy="random")
        assert (answer.status_code, answer.json()["reason"]) == (httpx.codes.BAD_GATEWAY, "SERVER_REFUSED")
        answer = ask(gym, environment="call_audit_env", task="hard", policy="random")
        assert "no server of call_audit_env" in answer.json()["detail"]


def test_modes_are_what_stands_behind_a_dash() -> None:
    assert modes_of(load("relocation_env").TASKS)["easy"] == [frozenset(), frozenset({"blind"})]
    for name in GROUNDS:
        ground = load(name)
        for task, sets in modes_of(ground.TASKS).items():
            if task not in ground.TEST_ONLY:
                assert {named(ground, task, modes) for modes in sets} <= set(ground.TASKS)


def test_servers_that_it_starts_end_with_it() -> None:
    with running_servers(["relocation_env"], python=str(PYTHON), first_port=free_port()) as urls:
        assert get(urls["relocation_env"], "/health") == {"status": "healthy"}
    with pytest.raises(ServerRefused):
        get(urls["relocation_env"], "/health")


def test_a_server_that_is_none_is_refused_before_anything_starts() -> None:
    for words, error in (("nowhere=http://x", UnknownEnvironment), ("relocation_env", CannotServe)):
        with pytest.raises(error):
            CliRunner().invoke(app, ["envs", "gym", "--server", words], catch_exceptions=False)
