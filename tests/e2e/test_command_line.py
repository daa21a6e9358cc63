"""The command line against a running service: what people read, what machines read, and how it fails."""

import json
import re
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from kedge_bandit.entrypoints.cli import app
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Stack, wait_for

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "policy.example.toml"
BASELINE = "small@"


def run(stack: Stack, *arguments: str) -> Result:
    """Run a command in this process, which is a second quicker than in one of its own."""
    return CliRunner().invoke(app, list(arguments), env=stack.environment)


def ok(stack: Stack, *arguments: str) -> str:
    done = run(stack, *arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def read(stack: Stack, *arguments: str) -> Any:
    return json.loads(ok(stack, *arguments, "--json"))


def fail(stack: Stack, *arguments: str, code: int = 1) -> str:
    done = run(stack, *arguments)
    assert done.exit_code == code, done.output
    assert done.stdout == ""
    return done.stderr


def test_the_installed_command_is_this_one(stack: Stack) -> None:
    done = stack.kedge("tenant", "list", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, [])
    assert stack.kedge("freeze", "nobody", "--because", "x").returncode == 1
    assert stack.kedge("freeze").returncode == 2


def onboarded(stack: Stack, tenant: str) -> None:
    ok(stack, "tenant", "onboard", tenant, "--because", "a test")
    ok(stack, "policy", "apply", str(EXAMPLE), "--tenant", tenant)
    wait_for(lambda: read(stack, "status", tenant, "support")["allocation_version"] > 0, "the first allocation")


def test_the_example_applies_and_decides(stack: Stack) -> None:
    onboarded(stack, "example")
    again = read(stack, "policy", "apply", str(EXAMPLE), "--tenant", "example")
    assert (again["change"], again["policy"]["policy_version"], again["warnings"]) == ("unchanged", 1, [])
    shown = read(stack, "policy", "show", "example", "support")
    assert (len(shown["action_keys"]), shown["mode"], shown["effective_mode"]) == (8, "APPLY", "APPLY")
    assert "MODEL_ROUTE" in ok(stack, "policy", "show", "example", "support")
    context = ("--set", "task=math", "--set", "words=20")
    made = read(stack, "decide", "example", "support", "--episode", "e1", *context)
    assert (made["bucket"], made["episode_id"]) == ("task=math|words=1", "e1")
    assert sum(each["propensity"] for each in made["distribution"]) == 1
    wait_for(lambda: run(stack, "explain", made["decision"]).exit_code == 0, "the decision to be written")
    explained = read(stack, "explain", made["decision"])
    assert explained["decision"]["action_key"] == made["action_key"]
    assert explained["sentences"]


def test_the_switch_is_pulled_released_and_audited(stack: Stack) -> None:
    onboarded(stack, "switched")
    staged = read(
        stack, "policy", "stage", "switched", "support", "--floor", "0.9", "--slice", "0.2", "--because", "go"
    )
    assert staged["exploration"]["exploitation_floor"] == 0.9
    assert read(stack, "freeze", "switched", "--because", "it lies")["effective_mode"] == "FROZEN"
    decide = ("decide", "switched", "support", "--episode")
    wait_for(lambda: read(stack, *decide, "e0")["reason"] == "FROZEN", "the freeze to reach the replica")
    assert read(stack, *decide, "e1")["action_key"].count(BASELINE) == 1
    assert read(stack, "mode", "switched", "support")["decided_by"] == "tenant"
    thawed = read(stack, "unfreeze", "switched", "--because", "repaired", "--quarantine", "replay")
    assert thawed["effective_mode"] == "APPLY"
    assert read(stack, "mode", "switched", "support", "--set", "observe", "--because", "look")["mode"] == "OBSERVE"
    verbs = [event["verb"] for event in read(stack, "audit", "list", "switched")]
    assert verbs == [
        "policy.mode_set",
        "policy.resumed",
        "tenant.unfrozen",
        "tenant.frozen",
        "policy.staged",
        "policy.created",
        "tenant.onboarded",
    ]
    assert read(stack, "audit", "verify", "switched")["intact"]
    with stack.connect() as owner:
        owner.execute("UPDATE t_switched.audit_event SET because = 'nothing' WHERE audit_sequence = 4")
    assert "event 4" in fail(stack, "audit", "verify", "switched")


def test_status_rebuild_and_replay_say_what_is_and_prove_it(stack: Stack) -> None:
    onboarded(stack, "proven")
    for number in range(5):
        read(stack, "decide", "proven", "support", "--episode", f"e{number}", "--set", "task=code")
    wait_for(lambda: read(stack, "status", "proven", "support")["backlog"] == 0, "the rows to be folded")
    [overview] = read(stack, "status", "proven")
    assert overview["policy"]["name"] == "tenants/proven/policies/support"
    assert "proven/support" in ok(stack, "status")
    assert "self-check" in ok(stack, "status", "proven", "support", "--cells")
    assert read(stack, "rebuild", "proven", "support", "--verify")["agrees"]
    replayed = read(stack, "replay", "proven", "--sample", "10")
    assert (replayed["replayed"], replayed["mismatches"]) == (5, 0)


def test_keys_open_their_tenant_to_their_role(stack: Stack) -> None:
    onboarded(stack, "keyed")
    made = read(stack, "key", "create", "keyed", "--principal", "core-app", "--role", "core_app")
    assert re.fullmatch(rf"kdg_{made['key_id']}_[A-Za-z0-9_-]{{43}}", made["key"])
    environment = dict(stack.environment)
    stack.environment["KEDGE_KEY"] = made["key"]
    try:
        decide = ("decide", "keyed", "support", "--episode", "e1")
        wait_for(lambda: run(stack, *decide).exit_code == 0, "the key to be accepted")
        assert "PERMISSION_DENIED" in fail(stack, "freeze", "keyed", "--because", "x")
        assert "TENANT_DENIED" in fail(stack, "decide", "example", "support")
        stack.environment["KEDGE_KEY"] = made["key"][:-1] + "?"
        assert "UNAUTHENTICATED" in fail(stack, "status", "keyed")
    finally:
        stack.environment.clear()
        stack.environment.update(environment)


def test_episodes_of_another_log_are_imported_once(stack: Stack, tmp_path: Path) -> None:
    onboarded(stack, "imported")
    lines = [
        {
            "policy": "tenants/imported/policies/support",
            "episode_id": f"old-{number}",
            "context": {"categories": {"task": "math" if number else "sums", "colour": "red"} if number == 2 else {}},
            "trajectory": {"terminated": True},
        }
        for number in range(3)
    ]
    path = tmp_path / "episodes.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    first = read(stack, "import", "episodes", str(path))
    assert (first["imported"], first["duplicates"], len(first["refusals"])) == (2, 0, 1)
    assert read(stack, "import", "episodes", str(path))["duplicates"] == 2
    path.write_text('{"polizy": "x"}', encoding="utf-8")
    assert "line 1" in fail(stack, "import", "episodes", str(path))


def test_failures_are_one_sentence_with_a_reason(stack: Stack, tmp_path: Path) -> None:
    onboarded(stack, "failing")
    assert "POLICY_NOT_FOUND" in fail(stack, "status", "failing", "none")
    assert "TENANT_EXISTS" in fail(stack, "tenant", "onboard", "failing")
    assert "INVALID_EXPLORATION" in fail(
        stack, "policy", "stage", "failing", "support", "--floor", "0.01", "--because", "x"
    )
    assert "UNDECLARED_FEATURE" in fail(stack, "decide", "failing", "support", "--set", "colour=red")
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"name": two_models("failing").name, "colour": "red"}), encoding="utf-8")
    assert "colour" in fail(stack, "policy", "apply", str(path))
    for usage in (["freeze", "failing"], ["decide", "failing"], ["decide", "failing", "support", "--set", "x"]):
        fail(stack, *usage, code=2)
    stack.environment["KEDGE_ADDRESS"], address = "127.0.0.1:1", stack.environment["KEDGE_ADDRESS"]
    try:
        assert "kedge serve" in fail(stack, "status")
    finally:
        stack.environment["KEDGE_ADDRESS"] = address
