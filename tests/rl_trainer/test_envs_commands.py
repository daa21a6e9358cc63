"""Use `kedge-trainer envs` as a person and as a script would."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kedge_trainer.adapters.environments import GROUNDS, load
from kedge_trainer.domain.errors import ModelFailed, TrainerError, UnknownPolicy
from kedge_trainer.entrypoints.cli import app
from tests.fixtures.openenv import Host

every_ground = pytest.mark.parametrize("name", GROUNDS)


def run(*words: str, typed: str = "", env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, ["envs", *words], input=typed, env=env, catch_exceptions=False)


def test_list_names_every_environment() -> None:
    assert [one["name"] for one in json.loads(run("list", "--json").stdout)] == list(GROUNDS)
    assert all(name in run("list").stdout for name in GROUNDS)


@every_ground
def test_describe_tells_tasks_policies_and_splits(name: str) -> None:
    ground, told = load(name), json.loads(run("describe", name, "--json").stdout)
    assert (told["tasks"], told["policies"]) == (dict(ground.TASKS), dict(ground.POLICIES))
    assert told["splits"]["test"] == [2_000_000, 2_099_999]
    assert "action_type" in run("describe", name).stdout


@every_ground
def test_evaluate_prints_a_table_and_writes_numbers_and_figures(name: str, tmp_path: Path) -> None:
    stem = tmp_path / "found"
    drawn = ["--plot"] if name == "relocation_env" else []  # one is enough: the plot knows nothing of an environment
    done = run("evaluate", name, "--seeds", "6", *drawn, "--out", str(stem))
    assert done.exit_code == 0
    written = json.loads(stem.with_suffix(".json").read_text())
    assert [one["policy"] for one in written] == ["random", load(name).ORACLE]
    assert {(one["split"], one["episodes"]) for one in written} == {("test", 6)}
    grades = [one["metrics"]["grade"] for one in written]
    assert grades[0]["mean"] < grades[1]["mean"] <= 1
    assert all(grade["low"] <= grade["mean"] <= grade["high"] for grade in grades)
    if drawn:
        assert stem.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in stem.with_suffix(".svg").read_text()
    assert f"{grades[1]['mean']:.3f}" in done.stdout


@every_ground
def test_evaluate_plays_a_running_server_to_the_same_numbers(openenv_host: Host, name: str, tmp_path: Path) -> None:
    asked = ("evaluate", name, "--seeds", "4", "--split", "dev", "--policy", "random", "--json")
    here = run(*asked, "--out", str(tmp_path / "here"))
    there = run(*asked, "--out", str(tmp_path / "there"), "--url", openenv_host.urls[name])
    assert json.loads(here.stdout) == json.loads(there.stdout)


@every_ground
def test_play_lets_a_policy_play(name: str) -> None:
    done = run("play", name, "--policy", load(name).ORACLE)
    assert done.exit_code == 0
    assert "grade" in done.stdout.splitlines()[-1]


def test_play_asks_a_person_for_each_action_and_takes_nonsense() -> None:
    typed = "hello\n" + '{"action_type": "approve_hr"}\n' * 19
    done = run("play", "relocation_env", "--task", "easy", typed=typed)
    assert done.exit_code == 0
    assert "invalid_action" in done.stdout
    assert "success 0" in done.stdout


def test_what_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(UnknownPolicy, match="oracle"):
        run("evaluate", "relocation_env", "--policy", "nobody", "--seeds", "1")
    with pytest.raises(TrainerError, match="no task"):
        run("play", "relocation_env", "--task", "moon")


@contextmanager
def model(answers: list[str]) -> Iterator[tuple[str, list[dict[str, object]]]]:
    """Serve scripted answers as an OpenAI-compatible endpoint does; the last is given for ever."""
    asked: list[dict[str, object]] = []

    class Chat(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            text = answers[min(len(asked), len(answers)) - 1]
            body = json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Chat) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
        server.shutdown()
        thread.join()


def test_infer_plays_a_model_from_its_own_transcript_and_prints_its_lines() -> None:
    answers = ['{"action_type": "approve_hr"}', "I am not sure."]
    with model(answers) as (url, asked):
        env = {"API_BASE_URL": url, "MODEL_NAME": "tiny", "HF_TOKEN": "secret-token"}
        done = run("infer", "relocation_env", "--task", "easy", env=env)
    lines = done.stdout.splitlines()
    assert lines[0] == "START task=easy env=relocation_env model=tiny seed=2000000"
    assert lines[1].startswith('STEP n=1 action={"action_type":"approve_hr","target":""} reward=0.')
    assert "unreadable" in lines[2]
    assert lines[-2].endswith("done=true error=null")
    assert lines[-1].startswith("END success=false steps=20 score=0.05")
    assert [len(one["messages"]) for one in asked] == [2 * n for n in range(1, 21)]  # type: ignore[arg-type]
    assert "reward" not in json.dumps(asked)
    assert "secret-token" not in done.stdout


def test_a_model_that_does_not_answer_is_an_error_and_no_action() -> None:
    with pytest.raises(ModelFailed, match="API_BASE_URL"):
        run("infer", "relocation_env", env={"API_BASE_URL": "http://127.0.0.1:9"})


def test_serve_says_what_it_needs_where_openenv_is_missing(capfd: pytest.CaptureFixture[str]) -> None:
    done = run("serve", "relocation_env")
    assert done.exit_code == 1
    assert "openenv" in capfd.readouterr().err + done.output
