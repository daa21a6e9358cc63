"""From the command line alone: cases in, a candidate, its verdict; and a gate that is killed has used its query."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from google.protobuf.json_format import MessageToDict

from tests.fixtures.gated_stack import gated_stack
from tests.fixtures.gating import ANSWERS, enough_cases
from tests.fixtures.proposing import prompted
from tests.fixtures.stack import Stack, wait_for

TENANT = "gated"
SLOW = ANSWERS.replace("for line in sys.stdin:", "import time\nfor line in sys.stdin:\n    time.sleep(0.2)")


@pytest.fixture(scope="module")
def gated() -> Iterator[Stack]:
    with gated_stack() as stack:
        stack.tenant(TENANT)
        stack.put_policy(prompted(f"tenants/{TENANT}"))
        yield stack


def kedge(stack: Stack, *arguments: str) -> Any:
    ran = stack.kedge(*arguments, "--json")
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def put_program(stack: Stack, text: str, folder: Path) -> None:
    program = stack.data_dir / "gate" / "scripts" / "answers"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(text.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o755)
    file = folder / "answerer.json"
    file.write_text(json.dumps({"answerer": {"kind": "ANSWERER_KIND_SCRIPT", "address": "answers", "parallel": 16}}))
    kedge(stack, "holdout", "answerer", TENANT, "support", "--file", str(file))


def propose(stack: Stack, folder: Path, name: str, content: str) -> str:
    file = folder / f"{name}.txt"
    file.write_text(content, encoding="utf-8")
    asked = ("--kind", "prompt", "--arm", name, "--file", str(file), "--because", "better")
    made = kedge(stack, "proposal", "submit", TENANT, "support", *asked)
    found: str = made.get("name") or made["proposal"]["name"]
    return found


def state_of(stack: Stack, proposal: str) -> dict[str, Any]:
    shown = kedge(stack, "proposal", "show", proposal)
    found: dict[str, Any] = shown.get("proposal", shown)
    return found


def test_a_candidate_gets_its_verdict_and_a_killed_gate_has_used_its_query(gated: Stack, tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    lines = [json.dumps(MessageToDict(case, preserving_proto_field_name=True)) for case in enough_cases()]
    file.write_text("\n".join(lines), encoding="utf-8")
    imported = kedge(gated, "holdout", "import", TENANT, "support", str(file))
    assert (imported["imported"], imported["refused"]) == (500, [])
    put_program(gated, ANSWERS, tmp_path)
    proposal = propose(gated, tmp_path, "brief", "just as good")
    wait_for(lambda: state_of(gated, proposal)["state"] == "AWAITING_APPROVAL", "the verdict")
    assert state_of(gated, proposal)["gate_result"]["verdict"] == "PASS"
    shown = gated.kedge("holdout", "status", TENANT, "support", "--follow")
    assert "PASS" in shown.stdout
    assert "number" not in shown.stdout  # no text of a case

    put_program(gated, SLOW, tmp_path)
    slow = propose(gated, tmp_path, "slow", "just as good, slowly")
    running = "SELECT done FROM holdout.query WHERE close_time IS NULL"
    with gated.connect() as owner:
        wait_for(lambda: owner.execute(running).fetchone(), "the query to be opened")
        gated.kill("gate")
        assert owner.execute(running).fetchone() is not None
        expire(owner)
        wait_for(lambda: state_of(gated, slow)["state"] == "INCONCLUSIVE", "the crash to be noticed")
    assert state_of(gated, slow)["gate_result"]["inconclusive_reason"] == "CRASHED"
    ledger = kedge(gated, "holdout", "status", TENANT, "support")["ledger"]
    assert [(entry["query"], entry["verdict"]) for entry in ledger] == [(1, "PASS"), (2, "INCONCLUSIVE")]


def expire(owner: psycopg.Connection[Any]) -> None:
    """Let the lease of half a minute be over, as it would be by then."""
    owner.execute("UPDATE holdout.query SET lease_until = now() WHERE close_time IS NULL")
