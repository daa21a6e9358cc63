"""`kedge demo`: the whole story on real data, from an empty folder to a printed report, through the real processes.

This file only conducts. The core applications are played by another process (`kedge_demo.play`), the figures are
computed by one that knows nothing of this package (`kedge_demo.measure`), and everything administrative is the command
line's own.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import grpc
import typer
from grpc_health.v1 import health_pb2, health_pb2_grpc
from rich.console import Console
from rich.markup import escape

from kedge_bandit.entrypoints import programs
from kedge_bandit.entrypoints.bootstrap import ReadyDatabase, make_ready
from kedge_bandit.entrypoints.commands.serve import supervise
from kedge_bandit.entrypoints.printing import InertConsole
from kedge_bandit.entrypoints.settings import Settings, read_settings
from kedge_bandit.entrypoints.start_checks import claimed
from kedge_bandit.entrypoints.supervisor import Supervisor

READY_SECONDS = 60.0
SETTLE_SECONDS = 180.0
REPLAYED = 1_000
MARKER = ".kedge-demo"
FIRST_FLOOR = "0.8"
BECAUSE_FLOOR = "demo: the baseline keeps most of the traffic until something was learned"
BECAUSE_FREEZE = "demo: show that one command stops everything a tenant learns"


class DemoFailed(Exception):
    """Say which step of the demo did not do what it must."""


@dataclass(slots=True)
class Stage:
    """Where the demo plays: folder, running service, and the command line's environment."""

    out: Path
    settings: Settings
    environment: dict[str, str]
    console: Console

    def kedge(self, *arguments: str, quiet: bool = False) -> str:
        """Run the command line as a person would, and show the command."""
        if not quiet:
            self.console.print(f"[dim]$ kedge {' '.join(_quoted(a) for a in arguments)}", highlight=False)
        return self._run([str(Path(sys.executable).parent / "kedge"), *arguments])

    def read(self, *arguments: str) -> Any:
        """Run a command of the command line for its JSON."""
        return json.loads(self.kedge(*arguments, "--json", quiet=True))

    def module(self, name: str, *arguments: str, loud: bool = False) -> str:
        """Run a module of the demo package in a process of its own."""
        command = [sys.executable, "-m", name, *arguments]
        if loud:
            if subprocess.run(command, env=self.environment, check=False).returncode:
                raise DemoFailed(f"{name} failed; its own lines above say why")
            return ""
        return self._run(command)

    def _run(self, command: Sequence[str]) -> str:
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DemoFailed(
                f"{' '.join(command[-6:])} ended with {done.returncode}: {(done.stderr or done.stdout)[-2000:]}"
            )
        return done.stdout


def demo(
    out: Annotated[Path, typer.Option(help="Folder of the run; one of an earlier demo is emptied first.")] = Path(
        "build/demo"
    ),
    scale: Annotated[float, typer.Option(help="Share of the traffic to play, for trials.")] = 1.0,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as one JSON document.")] = False,
) -> None:
    """Play three tenants of real data through the real service, and report what it learned, vetoed and froze."""
    console = InertConsole(stderr=True)
    if find_spec("kedge_demo") is None:
        raise typer.BadParameter("the package kedge-demo is not installed: run `make setup`")
    begun = time.monotonic()
    _empty(out)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    settings = _settings(out)
    with claimed(settings):
        report = _played(out, settings, console, scale)
    console.print(f"done in {time.monotonic() - begun:.0f} s: {out / 'report.json'} and {out / 'report.html'}")
    if as_json:
        sys.stdout.write(json.dumps(report) + "\n")


def _played(out: Path, settings: Settings, console: Console, scale: float) -> Any:
    """Run the service, tell the story over it, and give its report. Raises typer.Exit where it cannot be told."""
    database = make_ready(settings, progress=lambda line: console.print(f"· {line}", markup=False))
    supervisor = supervise(
        settings,
        database,
        said=lambda line: console.print(line, style="yellow", markup=False),
        run=[*programs.servers(settings), programs.worker()],
        log_dir=out / "logs",
    )
    try:
        supervisor.start()
        threading.Thread(target=supervisor.watch, daemon=True).start()
        return _story(_stage(out, settings, database, console), scale)
    except DemoFailed as failure:
        console.print(f"[red]the demo failed:[/] {escape(str(failure))}", highlight=False)
        raise typer.Exit(1) from failure
    finally:
        _close(supervisor, database)


def _settings(out: Path) -> Settings:
    """Keep everything of the run in its folder, on ports that nobody uses."""
    ports = {name: _free_port() for name in ("port", "web_port", "metrics_port", "worker_metrics_port")}
    return read_settings().model_copy(update={"data_dir": out / "data", "log_level": "WARNING", "replicas": 1, **ports})


def _empty(out: Path) -> None:
    """Empty the folder of an earlier demo; refuse one that holds something else."""
    if out.exists() and any(out.iterdir()) and not (out / MARKER).exists():
        raise typer.BadParameter(f"{out} holds files that no demo made: name another folder, or empty it yourself")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / MARKER).write_text("kedge demo may empty this folder\n", encoding="ascii")


def _interrupt(*_: object) -> None:
    """End as Ctrl-C does: everything that was started is stopped."""
    raise KeyboardInterrupt


def _stage(out: Path, settings: Settings, database: ReadyDatabase, console: Console) -> Stage:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KEDGE_")}
    environment |= {
        "KEDGE_ADDRESS": f"{settings.host}:{settings.port}",
        "KEDGE_DATA_DIR": str(settings.data_dir.resolve()),
        "KEDGE_DATABASE_URL": database.service_url,
    }
    stage = Stage(out, settings, environment, console)
    wait_until_serving(settings)
    return stage


def _story(stage: Stage, scale: float) -> Any:
    out = stage.out
    policies = _onboard(stage)
    stage.console.rule("traffic")
    address = f"{stage.settings.host}:{stage.settings.port}"
    keys = ("--address", address, "--keys", str(out / "keys.json"), "--out", str(out))
    kedge = str(Path(sys.executable).parent / "kedge")
    stage.module("kedge_demo.play", *keys, "--kedge", kedge, "--scale", str(scale), loud=True)
    _wait_until_settled(stage, policies)
    stage.console.rule("proof")
    proofs = {tenant: _prove(stage, tenant, policy) for tenant, policy in policies.items()}
    stage.module("kedge_demo.measure", *keys, loud=True)
    stage.console.print("· the same figures from inside, read from the database")
    stage.module("kedge_demo.dump_truth", "--out", str(out))
    stage.module("kedge_bandit.entrypoints.inside_figures", "--out", str(out))
    stage.module("kedge_demo.measure", "--out", str(out), "--compare", str(out / "inside.json"), loud=True)
    stage.console.rule("kill switch")
    freeze = _freeze(stage, next(iter(policies)), keys)
    (out / "facts.json").write_text(json.dumps({"proofs": proofs, "freeze": freeze}, indent=2), encoding="utf-8")
    stage.console.rule("report")
    if scale < 1:
        stage.console.print(
            "[yellow]a trial: most of this traffic is spent behind the first floor, too little to learn from;"
            " the whole run is what the figures are about"
        )
    stage.module("kedge_demo.report", "--out", str(out), "--facts", str(out / "facts.json"), loud=True)
    return json.loads((out / "report.json").read_text(encoding="utf-8"))


def _onboard(stage: Stage) -> dict[str, str]:
    """Onboard the tenants with the command line; answers each tenant's policy, and leaves the keys in a file."""
    folder = stage.out / "policies"
    stage.module("kedge_demo.worlds", "--out", str(folder))
    policies: dict[str, str] = {}
    keys: dict[str, dict[str, str]] = {}
    for path in sorted(folder.glob("*.json")):
        tenant = path.stem
        policies[tenant] = json.loads(path.read_text(encoding="utf-8"))["name"].rpartition("/")[2]
        stage.kedge("tenant", "onboard", tenant, "--because", "demo")
        keys[tenant] = {
            name: json.loads(
                stage.kedge("key", "create", tenant, "--principal", name.replace("_", "-"), "--role", role, "--json")
            )["key"]
            for name, role in (("core_app", "core_app"), ("viewer", "viewer"))
        }
        stage.kedge("policy", "apply", str(path), "--because", "demo")
        stage.kedge("policy", "stage", tenant, policies[tenant], "--floor", FIRST_FLOOR, "--because", BECAUSE_FLOOR)
    key_file = stage.out / "keys.json"
    key_file.touch(mode=0o600)
    key_file.write_text(json.dumps(keys), encoding="utf-8")
    for tenant, policy in policies.items():
        _until(partial(_published, stage, tenant, policy), READY_SECONDS, "a first allocation")
    return policies


def _wait_until_settled(stage: Stage, policies: dict[str, str]) -> None:
    stage.console.print("· waiting until every row is folded")
    for tenant, policy in policies.items():
        _until(partial(_settled, stage, tenant, policy), SETTLE_SECONDS, f"{tenant} to settle")


def _settled(stage: Stage, tenant: str, policy: str) -> bool:
    status = stage.read("status", tenant, policy)
    return int(status.get("backlog", 0)) == 0 and int(status["episode_counts"].get("PENDING", 0)) == 0


def _published(stage: Stage, tenant: str, policy: str) -> bool:
    return int(stage.read("status", tenant, policy).get("allocation_version", 0)) > 0


def _prove(stage: Stage, tenant: str, policy: str) -> dict[str, Any]:
    """Refold the evidence and replay decisions, each in a fresh process, from the database alone."""
    rebuilt = json.loads(stage.kedge("rebuild", tenant, policy, "--verify", "--json"))
    replayed = json.loads(stage.kedge("replay", tenant, policy, "--sample", str(REPLAYED), "--json"))
    if not rebuilt["agrees"] or replayed["mismatches"]:
        raise DemoFailed(f"{tenant}: rebuild {rebuilt}, replay {replayed}")
    stage.console.print(
        f"  {tenant}: rebuild differs by {rebuilt['max_error']:.1e}; {replayed['replayed']} decisions replayed,"
        f" {replayed['mismatches']} differ",
        highlight=False,
    )
    return {"rebuild": rebuilt, "replay": replayed}


def _freeze(stage: Stage, tenant: str, keys: Sequence[str]) -> dict[str, Any]:
    """Freeze a tenant with one command, and ask what it serves then."""
    stage.kedge("freeze", tenant, "--because", BECAUSE_FREEZE)
    stage.module("kedge_demo.frozen", *keys, "--tenant", tenant, "--because", BECAUSE_FREEZE)
    found: dict[str, Any] = json.loads((stage.out / "frozen.json").read_text(encoding="utf-8"))
    stage.console.print(
        f"  {found['baseline_served']} of {found['asked']} decisions answered the baseline {found['baseline']}",
        highlight=False,
    )
    return found


def wait_until_serving(settings: Settings) -> None:
    """Wait until the first server answers. Raises DemoFailed."""

    def serving() -> bool:
        with grpc.insecure_channel(f"{settings.host}:{settings.port}") as channel:
            check: Any = health_pb2_grpc.HealthStub(channel)
            try:
                answer = check.Check(health_pb2.HealthCheckRequest(), timeout=1)
            except grpc.RpcError:
                return False
            return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    _until(serving, READY_SECONDS, "the server to serve")


def _until(condition: Any, seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise DemoFailed(f"waited {seconds:g} s in vain for {what}")
        time.sleep(0.2)


def _close(supervisor: Supervisor, database: ReadyDatabase) -> None:
    supervisor.stop()
    database.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _quoted(argument: str) -> str:
    return f'"{argument}"' if " " in argument else argument
