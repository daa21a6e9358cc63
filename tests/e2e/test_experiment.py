"""An experiment as a team runs it: the command line fixes it, traffic goes on, and the command line reads it."""

import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.fixtures.core_app import TENANT, ask, log, success
from tests.fixtures.stack import Services, Stack, wait_for

TURNS = 800
NAME = f"tenants/{TENANT}/experiments/spring"


def turn(services: Services, number: int) -> None:
    """Play a turn: the large model succeeds always, the small one every other time."""
    episode = f"s-{number // 4}/{number}"
    decided = ask(services, episode)
    value = 1.0 if decided.action_key.startswith("large") else float(number % 2)
    success(services, episode, value, decision_token=decided.decision_token)
    log(services, decided, episode)


@pytest.fixture(scope="module")
def played(services: Services, stack: Stack) -> Stack:
    """Fix one, and play it until all is settled."""
    made = stack.kedge_here(
        *("experiment", "create", TENANT, "support", "spring", "--guardrail", "veto_rate"),
        *("--because", "does the large model help?", "--json"),
    )
    assert made.exit_code == 0, made.output
    with ThreadPoolExecutor(8) as callers:
        list(callers.map(lambda number: turn(services, number), range(TURNS)))

    def settled() -> bool:
        shown = json.loads(stack.kedge_here("experiment", "show", NAME, "--json").stdout)
        return bool(shown["report"]["episodes"] == TURNS)

    wait_for(settled, "every episode to be settled")
    return stack


def test_an_experiment_is_read_and_ended(played: Stack) -> None:
    stack = played
    ended = stack.kedge_here("experiment", "end", NAME, "--because", "it was a test", "--json")
    report = json.loads(ended.stdout)["report"]
    reward = report["metrics"][0]
    assert report["decision"] == "HOLDOUT_UNKNOWN"
    assert reward["learned_lift"]["lower"] > 0
    assert abs(reward["served_lift"]["value"] - 0.8 * reward["learned_lift"]["value"]) < 1e-9  # the floor is .2
    assert report["sample_ratio"]["p_value"] > 1e-3
    assert "without the floor" in stack.kedge_here("experiment", "show", NAME).stdout
    assert "HOLDOUT_UNKNOWN" in stack.kedge_here("experiment", "list", TENANT).stdout


def test_key_figures_say_the_same_over_rest_and_the_command_line(played: Stack) -> None:
    stack = played
    told = json.loads(stack.kedge_here("kpi", TENANT, "support", "--json").stdout)
    answer = httpx.get(
        f"http://127.0.0.1:{stack.web_port}/v1/tenants/{TENANT}/policies/support:kpis",
        headers={"authorization": f"Bearer {stack.operator_key}"},
        timeout=30,
    )
    assert answer.json()["rewardLift"]["learnedMean"] == told["reward_lift"]["learned_mean"]
    assert told["episodes"] == TURNS
    assert told["coverage"][2] == {"signal": "task_success", "share": 1.0}
    assert "Cost and quality" in stack.kedge_here("kpi", TENANT, "support").stdout


def test_a_session_is_assigned_alike_by_every_call(services: Services, stack: Stack) -> None:
    name = f"tenants/{TENANT}/experiments/sessions"
    create = ("experiment", "create", TENANT, "support", "sessions", "--unit", "session", "--control", "0.5")
    assert stack.kedge_here(*create, "--because", "a test").exit_code == 0
    sides = {stack.kedge_here("experiment", "side", name, "s-1").stdout.strip() for _ in range(2)}
    assert len(sides) == 1
    assert sides <= {"LEARNED", "BASELINE"}
    assert stack.kedge_here(*create, "--because", "a test").exit_code != 0
    assert stack.kedge_here(
        "experiment", "create", TENANT, "support", "x", "--unit", "planet", "--because", "-"
    ).exit_code
