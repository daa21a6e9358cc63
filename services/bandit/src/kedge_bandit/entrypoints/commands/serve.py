"""`kedge serve`: database, servers, worker and REST in one command."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from kedge_bandit.entrypoints import programs
from kedge_bandit.entrypoints.bootstrap import ReadyDatabase, make_ready
from kedge_bandit.entrypoints.keep_database import kept
from kedge_bandit.entrypoints.metrics_port import is_encrypted
from kedge_bandit.entrypoints.printing import InertConsole
from kedge_bandit.entrypoints.profile import check_database, check_profile
from kedge_bandit.entrypoints.settings import MAX_REPLICAS, Settings, read_settings
from kedge_bandit.entrypoints.start_checks import check_files, check_ports, claimed
from kedge_bandit.entrypoints.supervisor import Program, Supervisor, has_leftovers, settings_of

NO_GATE: Final = "no gate: give it a login of its own with KEDGE_GATE_DATABASE_URL, or nothing can be promoted"


def serve(
    replicas: Annotated[
        int | None,
        typer.Option(min=1, max=MAX_REPLICAS, help="Server processes, on ports from KEDGE_PORT on [KEDGE_REPLICAS]."),
    ] = None,
) -> None:
    """Start everything and keep it running until Ctrl-C; what dies is started again, SIGHUP restarts all in turn."""
    console = InertConsole(stderr=True, soft_wrap=True)
    settings = read_settings()
    if replicas is not None:
        settings = settings.model_copy(update={"replicas": replicas})
    check_profile(settings)
    check_files(settings)
    with claimed(settings):
        if not has_leftovers(settings.data_dir / "run"):
            check_ports(settings)
        database = make_ready(settings, progress=lambda line: console.print(f"· {line}", markup=False))
        try:
            check_database(settings, database.service_url)
            _run(settings, database, console)
        finally:
            database.stop()


def _run(settings: Settings, database: ReadyDatabase, console: Console) -> None:
    """Supervise until a signal. Raises typer.Exit where a child has shown that the set-up cannot work."""
    supervisor = supervise(
        settings,
        database,
        said=lambda line: console.print(line, style="yellow", markup=False),
        run=programs.everything(settings, database.gate_url),
    )
    supervisor.obey_signals()
    try:
        supervisor.start()
        ports = ", ".join(program.settings["KEDGE_PORT"] for program in programs.servers(settings))
        scheme = "https" if is_encrypted(settings) else "http"
        console.print(f"gRPC on {settings.host}:{ports}, REST on {scheme}://{settings.host}:{settings.web_port}")
        if settings.gate_port:
            has_gate = f"gate on {settings.host}:{settings.gate_port}"
            console.print(has_gate if database.gate_url else NO_GATE, markup=False)
        if settings.console_port:
            place = settings.console_url or f"{scheme}://{settings.host}:{settings.console_port}"
            console.print(f"console on {place}; `kedge console link` prints a way in", markup=False)
        console.print(f"operator key in {settings.data_dir / 'operator.key'}; Ctrl-C ends", markup=False)
        with kept(database.embedded, supervisor.said):
            supervisor.watch()
    finally:
        supervisor.stop()
    if supervisor.failed:
        raise typer.Exit(1)


def supervise(
    settings: Settings,
    database: ReadyDatabase,
    *,
    said: Callable[[str], None],
    run: Sequence[Program],
    log_dir: Path | None = None,
) -> Supervisor:
    """Make the supervisor of some programs over a ready database."""
    common = settings_of(
        database_url=database.service_url,
        gate_database_url="",
        gate_port=str(settings.gate_port),
        gate_metrics_port=str(settings.gate_metrics_port),
        data_dir=str(settings.data_dir.resolve()),
        host=settings.host,
        port=str(settings.port),
        web_port=str(settings.web_port),
        metrics_port=str(settings.metrics_port),
        worker_metrics_port=str(settings.worker_metrics_port),
        log_level=settings.log_level,
    )
    return Supervisor(
        environment={**os.environ, **common},
        run_dir=settings.data_dir / "run",
        programs=run,
        log_dir=log_dir,
        said=said,
    )
