"""The Java client against the real server, in one run of Maven; `make trust ARGS=tests/trust/test_java_client.py`.

The tests themselves are Java (proto/clients/java/src/test); what they need done to the server, they ask for.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT
from tests.docs.pages import blocks
from tests.e2e.test_quickstart import PREPARATION, published, settled
from tests.fixtures.shell import Shell
from tests.java import cases, maven
from tests.java.control import controlled
from tests.java.sidecar import Sidecar, running_sidecar
from tests.trust import size

LACKS = maven.missing()
pytestmark = pytest.mark.skipif(
    bool(LACKS), reason=f"the Java client needs Debian packages that are missing ({LACKS}): make test-system-deps"
)
MINUTES = size.of(30, 40)
CASES = size.of(3_000, 100_000)
PAGE = "java.md"
LOGS = """
CREATE TEMP TABLE turn_log (turn_id text, ended_at timestamptz, task text, words int);
CREATE TEMP TABLE llm_call_log (turn_id text, called_at timestamptz, model_id text, prompt_tokens int,
    completion_tokens int, cost_usd float8, latency_ms float8);
CREATE TEMP TABLE tool_call_log (turn_id text, called_at timestamptz, tool_name text, blocked bool, verified bool,
    latency_ms float8);
CREATE TEMP TABLE guardrail_log (turn_id text, checked_at timestamptz, kind text, tripped bool);
INSERT INTO turn_log VALUES ('t-1', now(), 'math', 12), ('t-2', now(), 'code', 300);
INSERT INTO llm_call_log VALUES ('t-1', now(), 'small', 30, 8, .0002, 640), ('t-2', now(), 'large', 90, 40, NULL, NULL),
    ('t-2', now(), 'large', 20, 5, .01, 900);
INSERT INTO tool_call_log VALUES ('t-2', now(), 'search', false, true, 12.5), ('t-2', now(), 'mail', true, false, 1);
INSERT INTO guardrail_log VALUES ('t-1', now(), 'PII', false), ('t-2', now(), 'INJECTION', true);
"""
"""A platform's logs, as docs/java.md names them."""


@pytest.fixture(scope="module")
def sidecar(fresh_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    with running_sidecar(fresh_database, tmp_path_factory.mktemp("sidecar")) as running:
        yield running


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder through which both sides hand each other files."""
    return tmp_path_factory.mktemp("figures")


@pytest.fixture(scope="module")
def said(sidecar: Sidecar, figures: Path) -> dict[str, list[maven.Result]]:
    """Run every Java test once; gives what each said, by class."""
    cases.write(figures, CASES)
    with controlled(sidecar.verbs) as control:
        environment = {
            "KEDGE_TEST_ADDRESS": sidecar.stack.address,
            "KEDGE_TEST_KEY": sidecar.key,
            "KEDGE_TEST_WEB": f"http://127.0.0.1:{sidecar.stack.web_port}",
            "KEDGE_TEST_CONTROL": control,
            "KEDGE_TEST_ECHO_ADDRESS": f"127.0.0.1:{sidecar.echo_port}",
            "KEDGE_TEST_TLS_ADDRESS": f"127.0.0.1:{sidecar.tls_port}",
            "KEDGE_TEST_CA": str(sidecar.folder / "ours.pem"),
            "KEDGE_TEST_CERTIFICATE": str(sidecar.folder / "client.pem"),
            "KEDGE_TEST_CERTIFICATE_KEY": str(sidecar.folder / "client.key"),
            "KEDGE_TEST_RESULTS": str(figures),
            "KEDGE_TEST_FULL": "1" if size.IS_FULL else "0",
        }
        done = maven.maven(environment, "test", timeout=MINUTES * 60)
    found = maven.results()
    assert found, f"Maven ran no test:\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}"
    _write(figures)
    return found


def _write(figures: Path) -> None:
    """Print what was measured and keep it."""
    table = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(figures.glob("*.json"))}
    for name, values in table.items():
        print(name, *(f"{key}={value:g}" for key, value in values.items()))
    target = ROOT / "build/trust/java.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({"full": size.IS_FULL, **table}, indent=1) + "\n", encoding="utf-8")


@pytest.mark.parametrize("name", maven.test_classes())
def test_every_test_of_this_class_passes_in_the_jvm(name: str, said: dict[str, list[maven.Result]]) -> None:
    tests = said.get(name, [])
    assert tests
    assert [each for each in tests if each.failure] == []
    assert [each.name for each in tests if each.skipped] == []


def test_java_python_and_the_server_decide_every_case_the_same(
    said: dict[str, list[maven.Result]], figures: Path
) -> None:
    assert said
    by_java = (figures / "cases.java").read_text(encoding="utf-8").splitlines()
    assert len(by_java) == CASES
    assert by_java == list(cases.by_the_server(CASES))
    assert by_java == list(cases.by_the_client(CASES, cases.watched()))


@pytest.fixture(scope="module")
def shown(
    said: dict[str, list[maven.Result]], sidecar: Sidecar, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[str, str]]:
    """Run every command of docs/java.md in its order, after Maven has built; gives what each printed."""
    assert said
    (maven.BUILD / "classpath").unlink()  # the page's own command has to make it
    folder = tmp_path_factory.mktemp("quickstart")
    for name in ("docs", "proto", "build"):
        (folder / name).symlink_to(ROOT / name)
    [program] = [block for block in blocks(PAGE, "java") if "public class FirstTurn" in block]
    (folder / "FirstTurn.java").write_text(program, encoding="utf-8")
    shell = Shell(folder, sidecar.stack.environment)
    commands = [line[2:] for block in blocks(PAGE, "console") for line in block.splitlines()]
    answers = []
    for written in commands:
        if written in PREPARATION:
            continue
        answers.append((written, shell.run(written)))
        if written.startswith("kedge policy apply"):
            published(sidecar.stack)
        if "FirstTurn.java" in written:
            settled(sidecar.stack)
    return answers


def answer_to(shown: list[tuple[str, str]], part: str) -> str:
    return next(printed for command, printed in shown if part in command)


def test_the_program_of_the_page_decides_and_its_turn_is_rewarded(shown: list[tuple[str, str]]) -> None:
    first, decision = answer_to(shown, "FirstTurn.java").splitlines()
    assert first.split() == ["small", "single", "direct", "BUDGET"]
    assert re.fullmatch(r"tenants/acme/decisions/[0-9a-f-]{36}", decision)
    status = answer_to(shown, "kedge status")
    assert "SETTLED" in status
    assert "0.8955" in status or "0.8288" in status  # the second where the turn was judged
    assert "the published vector was the baseline alone" in answer_to(shown, "kedge explain")


def test_buf_curl_speaks_to_the_server_as_the_page_says(shown: list[tuple[str, str]]) -> None:
    decided = json.loads(answer_to(shown, ".DecisionService/Decide"))
    assert {"actionKey", "propensity", "decisionToken"} <= set(decided)
    recorded = json.loads(answer_to(shown, ".FeedbackService/RecordOutcomes"))
    assert [result["status"] for result in recorded["results"]] == ["OUTCOME_STATUS_RECORDED"]


def test_the_statements_of_the_page_turn_a_platforms_logs_into_episodes(
    shown: list[tuple[str, str]], sidecar: Sidecar, tmp_path: Path
) -> None:
    assert shown
    with sidecar.stack.connect() as connection:
        connection.execute(LOGS)
        found = [row for block in blocks(PAGE, "sql") for row in connection.execute(block.encode()).fetchall()]
    file = tmp_path / "turns.jsonl"
    file.write_text("".join(json.dumps(document) + "\n" for (document,) in found), encoding="utf-8")
    for imported, duplicates in ((5, 0), (0, 5)):
        answer = json.loads(sidecar.stack.kedge("import", "episodes", str(file), "--json").stdout)
        assert (int(answer.get("imported", 0)), int(answer.get("duplicates", 0))) == (imported, duplicates)
        assert answer.get("refusals", []) == []
