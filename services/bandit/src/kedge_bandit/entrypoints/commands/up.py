"""`kedge up`: the whole product to look at, every process, three busy tenants, a frozen policy, proposals that wait.

It keeps what it learned under its folder, so that the next one goes on from there. `kedge down`, or Ctrl-C, ends it.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from kedge_bandit.entrypoints import programs
from kedge_bandit.entrypoints.bootstrap import make_ready
from kedge_bandit.entrypoints.commands.serve import supervise
from kedge_bandit.entrypoints.demo_stage import DemoFailed, Stage, wait_until_serving
from kedge_bandit.entrypoints.gym_beside import ADDRESS, gym_beside
from kedge_bandit.entrypoints.keep_database import kept
from kedge_bandit.entrypoints.printing import FailedCheck, InertConsole
from kedge_bandit.entrypoints.settings import Settings, read_settings
from kedge_bandit.entrypoints.start_checks import check_ports, claimed
from kedge_bandit.entrypoints.supervisor import has_leftovers

FOLDER = Path("build/up")
PID_FILE = "up.pid"
CONSOLE_PORT = 8090
FROZEN = "a-routing"
EXAMINED = "c-prompting"
MODEL = "demo-model"
LOWER_FLOOR = "the learned part has been better than the baseline for weeks; the alarm still needs days only"
CANDIDATE = "Take at most three short steps, then give the answer and nothing else."
PEOPLE = {"alice": "approver", "bob": "proposer"}
DOWN_SECONDS = 60.0

Out = Annotated[Path, typer.Option(help="Folder of everything that it keeps.")]


def up(
    out: Out = FOLDER,
    per_second: Annotated[float, typer.Option(help="Decisions a second of each tenant.", min=0.1)] = 5.0,
) -> None:
    """Start every process with three demo tenants under steady traffic, and print where to look."""
    console = InertConsole(stderr=True, soft_wrap=True)
    settings = _settings(out)
    with claimed(settings), ExitStack() as exits:
        if not has_leftovers(settings.data_dir / "run"):
            check_ports(settings)
        exits.enter_context(_named(out / PID_FILE))
        database = make_ready(settings, progress=lambda line: console.print(f"· {line}", markup=False))
        exits.callback(database.stop)
        supervisor = supervise(
            settings,
            database,
            said=lambda line: console.print(line, style="yellow", markup=False),
            run=programs.everything(settings, database.gate_url),
            log_dir=out / "logs",
        )
        own = {"KEDGE_CONSOLE_PORT": str(settings.console_port), "KEDGE_GYM_URL": settings.gym_url}
        supervisor.environment = {**supervisor.environment, **own}
        supervisor.obey_signals()
        exits.callback(supervisor.stop)
        supervisor.start()
        watching = threading.Thread(target=supervisor.watch, daemon=True)
        exits.enter_context(kept(database.embedded, supervisor.said))
        watching.start()
        try:
            stage = _stage(out, settings, console)
            keys = _set_the_scene(stage)
        except DemoFailed as failure:
            console.print(f"[red]it did not come up:[/] {escape(str(failure))}", highlight=False)
            raise typer.Exit(1) from failure
        exits.enter_context(_traffic(stage, keys, per_second))
        is_ours = exits.enter_context(gym_beside(settings.gym_url, out / "logs"))
        _say_where(
            stage, gym=settings.gym_url if is_ours else f"{settings.gym_url}, not started here; make envs, then again"
        )
        watching.join()


def _settings(out: Path) -> Settings:
    settings = read_settings()
    if not settings.gate_port:
        raise FailedCheck("everything includes the gate: leave KEDGE_GATE_PORT out, or name a port")
    own = {
        "data_dir": out / "data",
        "console_port": settings.console_port or CONSOLE_PORT,
        "gym_url": settings.gym_url or ADDRESS,
        "log_level": "WARNING",
    }
    return settings.model_copy(update=own)


def down(out: Out = FOLDER) -> None:
    """End what `kedge up` started in a folder, and wait until it has."""
    path = out / PID_FILE
    try:
        pid = int(path.read_text(encoding="ascii"))
        os.kill(pid, signal.SIGTERM)
    except (FileNotFoundError, ValueError, ProcessLookupError):
        raise FailedCheck(f"nothing is up in {out}") from None
    deadline = time.monotonic() + DOWN_SECONDS
    while path.exists():
        if time.monotonic() > deadline:
            raise FailedCheck(f"process {pid} does not end: see {out / 'logs'}")
        time.sleep(0.1)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{os.getpid()}\n", encoding="ascii")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _stage(out: Path, settings: Settings, console: Console) -> Stage:
    server, gate = f"{settings.host}:{settings.port}", f"{settings.host}:{settings.gate_port}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KEDGE_")}
    environment |= {
        "KEDGE_ADDRESS": server,
        "KEDGE_GATE_ADDRESS": gate,
        "KEDGE_DATA_DIR": str(settings.data_dir.resolve()),
        "KEDGE_CONSOLE_PORT": str(settings.console_port),
        "KEDGE_HOST": settings.host,
    }
    wait_until_serving(server)
    wait_until_serving(gate, "the gate")
    return Stage(out, settings, environment, console)


def _set_the_scene(stage: Stage) -> Path:
    """Onboard what is not there yet; gives the file of the core applications' keys."""
    keys = stage.out / "keys.json"
    if keys.exists():
        return keys
    folder = stage.out / "policies"
    stage.module("kedge_demo.worlds", "--out", str(folder), "--floor", "0.8")
    files = {path.stem: path for path in sorted(folder.glob("*.json"))}
    stage.kedge("tenant", "onboard", *files, "--because", "to show it")
    found: dict[str, str] = {}
    names: dict[str, str] = {}
    for tenant, path in files.items():
        names[tenant] = json.loads(path.read_text(encoding="utf-8"))["name"].rpartition("/")[2]
        stage.kedge("policy", "apply", str(path), "--because", "to show it")
        found[tenant] = _key(stage, tenant, "core_app", "--principal", "core-app")
    stage.kedge("freeze", FROZEN, names[FROZEN], "--because", "answers in the wrong language since this morning")
    _set_the_exam(stage, names[EXAMINED])
    _propose(stage, EXAMINED, names[EXAMINED], "--kind", "floor_stage", "--floor", "0.2", because=LOWER_FLOOR)
    text = folder / "three-steps.txt"
    text.write_text(CANDIDATE, encoding="utf-8")
    prompt = ("--kind", "prompt", "--arm", "three-steps", "--file", str(text))
    _propose(
        stage, EXAMINED, names[EXAMINED], *prompt, because="nearly as right as long reasoning, and said in three lines"
    )
    keys.touch(mode=0o600)
    keys.write_text(json.dumps(found), encoding="utf-8")
    return keys


def _set_the_exam(stage: Stage, policy: str) -> None:
    """Give a policy a holdout, and put the program that answers its cases where the gate looks for programs."""
    cases, answerer = stage.out / "cases.jsonl", stage.out / "answerer.json"
    program = stage.settings.data_dir / "gate" / "scripts" / MODEL
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -m kedge_demo.exam\n", encoding="utf-8")
    program.chmod(0o700)
    stage.module("kedge_demo.exam", "--cases", str(cases))
    answerer.write_text(json.dumps({"answerer": {"kind": "ANSWERER_KIND_SCRIPT", "address": MODEL}}), encoding="utf-8")
    stage.kedge("holdout", "import", EXAMINED, policy, str(cases))
    stage.kedge("holdout", "answerer", EXAMINED, policy, "--file", str(answerer))


def _propose(stage: Stage, tenant: str, policy: str, *what: str, because: str) -> None:
    """Let bob propose what waits for alice; his key ends with what asked for it."""
    bob = _key(stage, tenant, "proposer", "--principal", "bob", "--person", "bob", "--issuer", "kedge", "--days", "1")
    person = Stage(stage.out, stage.settings, {**stage.environment, "KEDGE_KEY": bob}, stage.console)
    person.kedge("proposal", "submit", tenant, policy, *what, "--because", because)


def _key(stage: Stage, tenant: str, role: str, *more: str) -> str:
    made = stage.kedge("key", "create", tenant, "--role", role, *more, "--because", "to show it", "--json", quiet=True)
    key: str = json.loads(made)["key"]
    return key


@contextmanager
def _traffic(stage: Stage, keys: Path, per_second: float) -> Iterator[None]:
    address = f"{stage.settings.host}:{stage.settings.port}"
    command = [sys.executable, "-m", "kedge_demo.traffic", "--address", address, "--keys", str(keys)]
    with (
        (stage.out / "logs" / "traffic.log").open("ab") as log,
        subprocess.Popen(
            [*command, "--per-second", str(per_second)],
            env=stage.environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        ) as player,
    ):
        try:
            yield
        finally:
            player.terminate()


def _say_where(stage: Stage, gym: str) -> None:
    """Print the addresses, and a link for each person."""
    settings, out = stage.settings, stage.console
    tenants = sorted(json.loads((stage.out / "keys.json").read_text(encoding="utf-8")))
    links = {name: _link(stage, *tenants, "--person", name, "--role", role) for name, role in PEOPLE.items()}
    links["an operator"] = _link(stage)
    out.print(f"\ngRPC      {settings.host}:{settings.port}", highlight=False)
    out.print(f"REST      http://{settings.host}:{settings.web_port}", highlight=False)
    out.print(f"console   http://{settings.host}:{settings.console_port}", highlight=False)
    out.print(f"gym       {gym}", highlight=False)
    out.print(f"logs      {stage.out / 'logs'}; data and the operator's key in {settings.data_dir}", highlight=False)
    out.print(
        f"tenants   {', '.join(tenants)}: {FROZEN} is frozen, a floor and a prompt of {EXAMINED} wait for approval\n"
    )
    for name, link in links.items():
        role = f" ({PEOPLE[name]})" if name in PEOPLE else ""
        out.print(f"{name + role:19} {link}", highlight=False, soft_wrap=True)
    out.print("\nEach link logs one person in, once, within the hour. Ctrl-C or `kedge down` ends it.", highlight=False)


def _link(stage: Stage, *arguments: str) -> str:
    link: str = json.loads(stage.kedge("console", "link", *arguments, "--json", quiet=True))["link"]
    return link
