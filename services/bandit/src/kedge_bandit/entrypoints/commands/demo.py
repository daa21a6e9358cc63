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
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from kedge_bandit.entrypoints import programs
from kedge_bandit.entrypoints.bootstrap import ReadyDatabase, make_ready
from kedge_bandit.entrypoints.commands.serve import supervise
from kedge_bandit.entrypoints.demo_environments import tell_environments
from kedge_bandit.entrypoints.demo_stage import (
    READY_SECONDS,
    SETTLE_SECONDS,
    DemoFailed,
    Stage,
    published,
    settled,
    until,
    wait_until_serving,
)
from kedge_bandit.entrypoints.printing import InertConsole
from kedge_bandit.entrypoints.settings import Settings, read_settings
from kedge_bandit.entrypoints.start_checks import claimed
from kedge_bandit.entrypoints.supervisor import Supervisor

MARKER = ".kedge-demo"
FIRST_FLOOR = "0.8"
BECAUSE_FLOOR = "demo: the baseline keeps most of the traffic until something was learned"
BECAUSE_FREEZE = "demo: show that one command stops everything a tenant learns"


class Story(StrEnum):
    """What a demo can play."""

    TENANTS = "tenants"
    ENVIRONMENTS = "environments"


def demo(
    story: Annotated[
        Story, typer.Argument(help="Three tenants of real data, or the four environments as traffic.")
    ] = Story.TENANTS,
    out: Annotated[Path, typer.Option(help="Folder of the run; one of an earlier demo is emptied first.")] = Path(
        "build/demo"
    ),
    scale: Annotated[float, typer.Option(help="Share of the traffic to play, for trials.")] = 1.0,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as one JSON document.")] = False,
) -> None:
    """Play real traffic through the real service, and report what it learned, vetoed and froze."""
    console = InertConsole(stderr=True)
    if find_spec("kedge_demo") is None:
        raise typer.BadParameter("the package kedge-demo is not installed: run `make setup`")
    begun = time.monotonic()
    folder, page = (out, out / "report.html") if story is Story.TENANTS else (out / story, out / f"{story}.html")
    _empty(out, folder)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    settings = _settings(folder)
    with claimed(settings):
        report = _played(folder, settings, console, lambda stage: TELL[story](stage, scale))
    console.print(f"done in {time.monotonic() - begun:.0f} s: {folder / 'report.json'} and {page}")
    if as_json:
        sys.stdout.write(json.dumps(report) + "\n")


def _played(out: Path, settings: Settings, console: Console, tell: Callable[[Stage], Any]) -> Any:
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
        return tell(_stage(out, settings, database, console))
    except DemoFailed as failure:
        console.print(f"[red]the demo failed:[/] {escape(str(failure))}", highlight=False)
        raise typer.Exit(1) from failure
    finally:
        _close(supervisor, database)


def _settings(out: Path) -> Settings:
    """Keep everything of the run in its folder, on ports that nobody uses."""
    ports = {name: _free_port() for name in ("port", "web_port", "metrics_port", "worker_metrics_port")}
    return read_settings().model_copy(update={"data_dir": out / "data", "log_level": "WARNING", "replicas": 1, **ports})


def _empty(out: Path, folder: Path) -> None:
    """Empty the folder of an earlier run; refuse one in a place that holds something else."""
    if out.exists() and any(out.iterdir()) and not (out / MARKER).exists():
        raise typer.BadParameter(f"{out} holds files that no demo made: name another folder, or empty it yourself")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
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
    wait_until_serving(f"{settings.host}:{settings.port}")
    return stage


def tell_tenants(stage: Stage, scale: float) -> Any:
    """Play, prove, measure, freeze and report three tenants; gives the report."""
    out = stage.out
    policies = _onboard(stage)
    stage.console.rule("traffic")
    address = f"{stage.settings.host}:{stage.settings.port}"
    keys = ("--address", address, "--keys", str(out / "keys.json"), "--out", str(out))
    kedge = str(Path(sys.executable).parent / "kedge")
    stage.module("kedge_demo.play", *keys, "--kedge", kedge, "--scale", str(scale), loud=True)
    _wait_until_settled(stage, policies)
    stage.console.rule("proof")
    proofs = {tenant: stage.prove(tenant, policy) for tenant, policy in policies.items()}
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
        until(partial(_is, published, stage, tenant, policy), READY_SECONDS, "a first allocation")
    return policies


def _wait_until_settled(stage: Stage, policies: dict[str, str]) -> None:
    stage.console.print("· waiting until every row is folded")
    for tenant, policy in policies.items():
        until(partial(_is, settled, stage, tenant, policy), SETTLE_SECONDS, f"{tenant} to settle")


def _is(holds: Callable[[Any], bool], stage: Stage, tenant: str, policy: str) -> bool:
    return holds(stage.read("status", tenant, policy))


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


def _close(supervisor: Supervisor, database: ReadyDatabase) -> None:
    supervisor.stop()
    database.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


TELL: Mapping[Story, Callable[[Stage, float], Any]] = {
    Story.TENANTS: tell_tenants,
    Story.ENVIRONMENTS: tell_environments,
}
