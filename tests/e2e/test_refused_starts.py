"""What `kedge serve` says when it cannot work: one sentence and the exit code 1, before anything was started."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from kedge_bandit.entrypoints import supervisor as supervisors
from kedge_bandit.entrypoints.settings import Settings
from kedge_bandit.entrypoints.start_checks import check_ports, claimed
from kedge_bandit.entrypoints.supervisor import Program, Supervisor
from tests.fixtures.stack import Stack, free_port, wait_for

KEDGE = Path(sys.executable).parent / "kedge"


def refused(data_dir: Path, **settings: str) -> str:
    """Start it, and give what it says before it ends."""
    ports = {name: str(free_port()) for name in ("KEDGE_PORT", "KEDGE_WEB_PORT")}
    environment = {
        "PATH": os.environ["PATH"],
        "KEDGE_DATA_DIR": str(data_dir),
        "KEDGE_METRICS_PORT": "0",
        "KEDGE_WORKER_METRICS_PORT": "0",
        "KEDGE_GATE_PORT": "0",
        **ports,
        **settings,
    }
    ended = subprocess.run([KEDGE, "serve"], env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert (ended.returncode, ended.stdout) == (1, ""), ended.stderr
    return ended.stderr


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"KEDGE_JWT_ISSUER": "https://login.example"},
            "tokens need KEDGE_JWT_AUDIENCE and KEDGE_JWT_KEYS too: without, tokens meant for others would be taken\n",
        ),
        (
            {"KEDGE_TLS_CERTIFICATE": "/nosuch.pem", "KEDGE_TLS_KEY": "/nosuch.key"},
            "the certificate of KEDGE_TLS_CERTIFICATE cannot be served",
        ),
        ({"KEDGE_DATABASE_URL": "mysql://x"}, "setting KEDGE_DATABASE_URL (or DATABASE_URL): write postgresql://"),
        (
            {"KEDGE_DATA_DIR": "/dev/null/x"},
            "the data folder /dev/null/x cannot be used (Not a directory): set KEDGE_DATA_DIR\n",
        ),
        ({"KEDGE_PORT": "abc"}, "setting KEDGE_PORT:"),
        ({"KEDGE_PORT": "65535", "KEDGE_REPLICAS": "2"}, "KEDGE_PORT counts up to 65536, and ports end at 65535: "),
        ({"KEDGE_LOG_LEVEL": "foo"}, "setting KEDGE_LOG_LEVEL: Input should be 'DEBUG', 'INFO', "),
    ],
)
def test_a_set_up_that_cannot_work_is_refused_in_one_sentence(
    tmp_path: Path, settings: dict[str, str], sentence: str
) -> None:
    said = refused(tmp_path, **settings)
    assert said.startswith(sentence)
    assert said.count("\n") == 1


def test_a_database_that_is_away_is_one_sentence(tmp_path: Path) -> None:
    said = refused(tmp_path, KEDGE_DATABASE_URL=f"postgresql://nobody:x@127.0.0.1:{free_port()}/x")
    assert said.startswith("· bringing the schema to head\nthe database cannot be used: ")
    assert said.count("\n") == 2


@pytest.mark.parametrize("name", ["KEDGE_PORT", "KEDGE_WEB_PORT", "KEDGE_METRICS_PORT", "KEDGE_WORKER_METRICS_PORT"])
def test_a_taken_port_is_named_with_its_setting(tmp_path: Path, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        said = refused(tmp_path, **{name: str(port)})
    assert said == f"port {port} of 127.0.0.1 is taken: set {name} to another one\n"


def test_one_port_for_two_doors_is_refused() -> None:
    port = free_port()
    with pytest.raises(SystemExit, match=f"port {port} of 127.0.0.1 is taken: set KEDGE_WEB_PORT"):
        check_ports(Settings(port=port, web_port=port, metrics_port=0, worker_metrics_port=0))
    with pytest.raises(SystemExit, match="KEDGE_HOST: nothing can listen on 192"):
        check_ports(Settings(host="192.0.2.1", port=port))


def test_a_data_folder_has_one_holder(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    with claimed(settings), pytest.raises(SystemExit, match="another `kedge serve` runs"), claimed(settings):
        pass
    with claimed(settings):
        pass


def test_a_second_service_over_a_data_folder_migrates_nothing(stack: Stack) -> None:
    said = refused(stack.data_dir, KEDGE_DATABASE_URL=stack.database_url)
    assert said == f"another `kedge serve` runs over {stack.data_dir}: end it, or set KEDGE_DATA_DIR\n"


def test_a_child_that_was_never_ready_ends_the_service_with_its_sentence(tmp_path: Path) -> None:
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as holder:
        taken = {"KEDGE_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/x", "KEDGE_METRICS_PORT": "0"}
        taken["KEDGE_PORT"] = str(holder.getsockname()[1])
        supervisor = Supervisor(
            environment={"PATH": os.environ["PATH"], **taken},
            run_dir=tmp_path / "run",
            programs=[Program(name="server", module="server")],
            log_dir=tmp_path,
            said=said.append,
        )
        supervisor.start()
        try:
            supervisor.watch()
        finally:
            supervisor.stop()
    assert supervisor.failed
    assert said == ["server ended with 1 before it was ever ready: what it said has to be mended first"]


def test_a_child_that_was_ready_once_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "trial_children"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "child.py").write_text(
        "from kedge_bandit.entrypoints.readiness import say_ready\nsay_ready()\nraise SystemExit(1)\n", encoding="utf-8"
    )
    monkeypatch.setattr(supervisors, "_PACKAGE", "trial_children")
    said: list[str] = []
    supervisor = Supervisor(
        environment={"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)},
        run_dir=tmp_path / "run",
        programs=[Program(name="child", module="child")],
        said=said.append,
    )
    supervisor.start()
    watching = Thread(target=supervisor.watch)
    watching.start()
    try:
        wait_for(lambda: len(said) > 1, "the second death of the child")
    finally:
        supervisor.stopping.set()
        watching.join()
        supervisor.stop()
    assert not supervisor.failed
    assert all(line.endswith("starting it again") for line in said)
