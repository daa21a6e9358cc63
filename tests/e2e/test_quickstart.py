"""Do what docs/quickstart.md says, word for word, against a running service on ports that the page has one set."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from kedge.bandit.v1 import episode_pb2, episode_service_pb2, policy_service_pb2
from tests.architecture.tree import ROOT
from tests.docs.pages import blocks
from tests.fixtures.shell import Shell
from tests.fixtures.stack import Services, Stack, wait_for

PAGE = "quickstart.md"
POLICY = "tenants/acme/policies/support"
PREPARATION = ("make setup", ". .venv/bin/activate", "kedge serve")
"""Commands that the fixture has done already."""


def page_commands() -> list[str]:
    lines = [line for block in blocks(PAGE, "console") for line in block.splitlines()]
    assert all(line.startswith("$ ") for line in lines)
    return [line[2:] for line in lines if line[2:] not in PREPARATION]


@pytest.fixture(scope="module")
def said(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """Run every command of the page in its order, and keep what each printed."""
    folder = tmp_path_factory.mktemp("quickstart")
    (folder / "docs").symlink_to(ROOT / "docs")
    [program] = blocks(PAGE, "python")
    (folder / "first_turn.py").write_text(program, encoding="utf-8")
    shell = Shell(folder, {**stack.environment, "KEDGE_WEB_PORT": str(stack.web_port)})
    answers: list[tuple[str, str]] = []
    for written in page_commands():
        answers.append((written, shell.run(written)))
        wait = WAITS.get(written.partition(" --because")[0])
        if wait is not None:
            wait(stack)
    return answers


def published(stack: Stack) -> None:
    with stack.services() as services:
        status = policy_service_pb2.GetPolicyStatusRequest(name=POLICY, without_cells=True)
        wait_for(lambda: services.policies.GetPolicyStatus(status).allocation_version > 0, "the first allocation")


def settled(stack: Stack) -> None:
    with stack.services() as services:
        status = policy_service_pb2.GetPolicyStatusRequest(name=POLICY, without_cells=True)
        wait_for(lambda: services.policies.GetPolicyStatus(status).episode_counts["SETTLED"] == 1, "the first reward")


# Where the page lets a second pass.
WAITS: dict[str, Callable[[Stack], None]] = {
    "kedge policy apply docs/policy.example.toml": published,
    "APP_KEY=$APP_KEY python first_turn.py | tee first_turn.out": settled,
}


def answer_to(said: list[tuple[str, str]], start: str) -> str:
    return next(printed for command, printed in said if command.startswith(start))


def test_the_page_shows_every_step(said: list[tuple[str, str]]) -> None:
    assert [command.split()[0] for command, _ in said].count("kedge") == 6
    assert sum(command.startswith("curl") for command, _ in said) == 3


def test_the_program_decides_by_the_budget_and_not_by_falling_back(said: list[tuple[str, str]]) -> None:
    first, decision = answer_to(said, "APP_KEY=$APP_KEY python").splitlines()
    assert first.split() == ["small", "single", "direct", "BUDGET"]
    assert decision.startswith("tenants/acme/decisions/")


def test_the_first_reward_is_settled_and_explained(said: list[tuple[str, str]]) -> None:
    status = answer_to(said, "kedge status")
    assert "SETTLED" in status
    assert "0.8955" in status or "0.8288" in status  # the second where the turn was judged
    assert "the exploration budget allows no exploring now" in status
    assert "the published vector was the baseline alone" in answer_to(said, "kedge explain")


def test_rest_answers_as_the_page_says(said: list[tuple[str, str]]) -> None:
    decided, recorded, logged = (json.loads(printed) for command, printed in said if command.startswith("curl"))
    assert {"actionKey", "propensity", "judgeRequested", "decisionToken"} <= set(decided)
    assert [result["status"] for result in recorded["results"]] == ["OUTCOME_STATUS_RECORDED"]
    assert logged == {"duplicate": False}


def test_the_turn_over_rest_is_settled_unless_it_waits_for_its_judge(said: list[tuple[str, str]], stack: Stack) -> None:
    decided = json.loads(answer_to(said, "curl -sS $REST/v1/tenants/acme/policies/support:decide"))
    is_judged = decided["judgeRequested"]
    wanted = (episode_pb2.EPISODE_STATE_PENDING, 0.0) if is_judged else (episode_pb2.EPISODE_STATE_SETTLED, 1.0)
    request = episode_service_pb2.GetEpisodeRequest(policy=POLICY, episode_id="turn-1")

    def stands(services: Services) -> bool:
        found: Any = services.episodes.GetEpisode(request).episode
        return (found.state, found.weight) == wanted

    with stack.services() as services:
        wait_for(lambda: stands(services), "the turn over REST to stand as it must")


def test_the_switch_was_pulled_and_released(said: list[tuple[str, str]]) -> None:
    assert "FROZEN" in answer_to(said, "kedge freeze")
    assert "APPLY" in answer_to(said, "kedge unfreeze")
