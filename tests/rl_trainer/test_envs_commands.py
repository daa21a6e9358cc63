"""Use `kedge-trainer envs` as a person and as a script would."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kedge_trainer.adapters.environments import GROUNDS, load
from kedge_trainer.domain.errors import ModelFailed, TrainerError, UnknownPolicy
from kedge_trainer.entrypoints.cli import app, main
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


def test_results_go_exactly_where_it_is_said_whatever_dots_the_name_has(tmp_path: Path) -> None:
    stem = tmp_path / "out/v1.2"
    done = run("evaluate", "relocation_env", "--seeds", "1", "--plot", "--out", str(stem))
    written = done.stdout.splitlines()[-1].removeprefix("written: ").split(", ")
    assert written == [f"{stem}.json", f"{stem}.png", f"{stem}.svg"]
    assert sorted(map(str, stem.parent.iterdir())) == written


def test_results_of_splits_and_figures_of_other_runs_are_never_mixed_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run("evaluate", "relocation_env", "--seeds", "1", "--plot")
    run("evaluate", "relocation_env", "--seeds", "1", "--split", "dev")
    held_out, dev = (f"relocation_env-generated-{split}" for split in ("test", "dev"))
    found = tmp_path / "build/envs-results"
    assert {file.name for file in found.iterdir()} == {f"{held_out}{kind}" for kind in (".json", ".png", ".svg")} | {
        f"{dev}.json"
    }
    run("evaluate", "relocation_env", "--seeds", "2")
    assert {file.name for file in found.iterdir()} == {f"{held_out}.json", f"{dev}.json"}


def test_a_table_that_is_piped_keeps_each_metric_on_one_line(tmp_path: Path) -> None:
    policies = [word for name in load("relocation_env").POLICIES for word in ("--policy", name)]
    done = run("evaluate", "relocation_env", "--seeds", "2", *policies, "--out", str(tmp_path / "wide"))
    [line] = [line for line in done.stdout.splitlines() if line.startswith("grade ")]
    assert line.count("(") == len(load("relocation_env").POLICIES)


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


@pytest.mark.parametrize("typed", ["quit\n", "", "\n\nquit\n", '{"action_type": "approve_hr"}\n'])
def test_a_person_leaves_by_a_word_or_by_the_end_of_input(typed: str) -> None:
    done = run("play", "relocation_env", typed=typed)
    assert done.exit_code == 0
    assert "quit" in done.stdout
    assert done.stdout.splitlines()[-1] == "left before the end"
    assert done.stdout.count("reward") == typed.count("{")


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run the whole command line and give the one sentence that it ends with."""

    def complaint(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["kedge-trainer", "envs", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 1
        [sentence] = capsys.readouterr().err.splitlines()
        return sentence

    return complaint


FAULTS = {
    "evaluate relocation_env --split tst": "UNKNOWN_SPLIT: there is no split 'tst'; choose one of test, train, dev",
    "infer relocation_env --split tst": "UNKNOWN_SPLIT: there is no split 'tst'; choose one of test, train, dev",
    "evaluate relocation_env --seeds 100001": "SPLIT_TOO_SMALL: split test has 100000 seeds, not 100001",
    "evaluate fleet_oversight_env --task banking_faq --split train": "TASK_FOR_TESTING: task banking_faq",
    "infer fleet_oversight_env --task banking_faq --split dev": "TASK_FOR_TESTING: task banking_faq",
    "play fleet_oversight_env --task banking_faq": "TASK_FOR_TESTING: task banking_faq",
    "play relocation_env --seed -1": "SEED_OUT_OF_SPLIT: split train has seeds 0 to 999999 by index, not -1",
    "play relocation_env --seed 2000001": "SEED_OUT_OF_SPLIT: split train has seeds 0 to 999999 by index, not 2000001",
    "play moon_env": "UNKNOWN_ENVIRONMENT: ",
    "evaluate relocation_env --seeds 1 --out /dev/null/found": "CANNOT_WRITE: /dev/null",
    "evaluate relocation_env --seeds 1 --url http://127.0.0.1:99999": "SERVER_REFUSED: ",
    "evaluate relocation_env --seeds 1 --url nowhere": "SERVER_REFUSED: ",
    "serve relocation_env --port 99999": "CANNOT_SERVE: 99999 is no port; choose one from 1 to 65535",
    "serve relocation_env --port 0": "CANNOT_SERVE: 0 is no port",
    "serve relocation_env --python /nosuch/python": "CANNOT_SERVE: /nosuch/python is no Python that runs (No such file",
    "serve relocation_env --python /": "CANNOT_SERVE: / is no Python that runs (Permission denied",
    "serve relocation_env": "NOT_INSTALLED: there is no openenv",
}


@pytest.mark.parametrize("words", FAULTS)
def test_what_cannot_be_done_is_one_sentence(refused: Callable[..., str], words: str) -> None:
    assert refused(*words.split()).startswith(FAULTS[words])


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
    assert "done=true error=there is no such action" in lines[-2]
    assert lines[-1].startswith("END success=false steps=20 score=0.05")
    assert [len(one["messages"]) for one in asked] == [2 * n for n in range(1, 21)]  # type: ignore[arg-type]
    assert "reward" not in json.dumps(asked)
    assert "secret-token" not in done.stdout


def test_a_model_that_does_not_answer_is_an_error_and_no_action() -> None:
    with pytest.raises(ModelFailed, match="API_BASE_URL"):
        run("infer", "relocation_env", env={"API_BASE_URL": "http://127.0.0.1:9"})


@every_ground
def test_a_refused_answer_of_a_model_is_printed_with_the_reason(name: str) -> None:
    with model(["I am not sure."]) as (url, _):
        done = run("infer", name, env={"API_BASE_URL": url})
    steps = [line for line in done.stdout.splitlines() if line.startswith("STEP ")]
    assert steps
    assert all(" error=" in line and not line.endswith("error=null") for line in steps)


def test_a_model_at_no_address_is_one_sentence(refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("http://127.0.0.1:9", "http://[::1", "nowhere", "http://127.0.0.1:99999"):
        monkeypatch.setenv("API_BASE_URL", address)
        assert refused("infer", "relocation_env").startswith(f"MODEL_FAILED: the model at {address} gave no answer")


def test_serve_says_how_to_get_openenv(refused: Callable[..., str]) -> None:
    sentence = refused("serve", "relocation_env")
    assert "`make envs`" in sentence
    assert "kedge-relocation-env[server]" in sentence


def test_serve_becomes_the_server_so_that_who_stops_the_command_stops_the_server(tmp_path: Path) -> None:
    python = tmp_path / "python"  # has everything, and its server tells its process and how it was asked
    python.write_text('#!/bin/sh\n[ "$1" = -c ] && exit 0\necho "$$ $KEDGE_ENV_HELD_OUT $*"\nexec sleep 600\n')
    python.chmod(0o755)
    words = ["envs", "serve", "relocation_env", "--python", str(python), "--port", "7000", "--held-out"]
    command = [sys.executable, "-m", "kedge_trainer.entrypoints.cli", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        told = server.stdout.readline()
        server.terminate()
        assert server.stdout.read() == ""
    assert told == f"{server.pid} 1 -m relocation_env.server.app --host 127.0.0.1 --port 7000\n"
    assert server.returncode == -signal.SIGTERM
