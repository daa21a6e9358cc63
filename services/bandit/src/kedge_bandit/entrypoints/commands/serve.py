"""`kedge serve`: database, server, worker and REST in one command."""

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from kedge_bandit.entrypoints.bootstrap import ReadyDatabase, make_ready
from kedge_bandit.entrypoints.settings import Settings, read_settings
from kedge_bandit.entrypoints.supervisor import PROCESSES, AlreadyRunning, Supervisor, child_environment


def serve() -> None:
    """Start everything and keep it running until Ctrl-C; a child that dies is started again."""
    console = Console(stderr=True)
    settings = read_settings()
    database = make_ready(settings, progress=lambda line: console.print(f"· {line}"))
    try:
        supervisor = supervise(settings, database, said=lambda line: console.print(f"[yellow]{line}"))
        supervisor.stop_on_signals()
        try:
            supervisor.start()
        except AlreadyRunning as error:
            console.print(f"error: {error}", style="red", markup=False)
            raise SystemExit(1) from error
        console.print(f"gRPC on {settings.host}:{settings.port}, REST on http://{settings.host}:{settings.web_port}")
        console.print(f"operator key in {settings.data_dir / 'operator.key'}; Ctrl-C ends")
        try:
            supervisor.watch()
        finally:
            supervisor.stop()
    finally:
        database.stop()


def supervise(
    settings: Settings,
    database: ReadyDatabase,
    *,
    said: Callable[[str], None],
    log_dir: Path | None = None,
    names: Sequence[str] = PROCESSES,
) -> Supervisor:
    """Make the supervisor of the three processes over a ready database."""
    environment = child_environment(
        database_url=database.service_url,
        data_dir=str(settings.data_dir.resolve()),
        host=settings.host,
        port=str(settings.port),
        web_port=str(settings.web_port),
        metrics_port=str(settings.metrics_port),
        worker_metrics_port=str(settings.worker_metrics_port),
        log_level=settings.log_level,
    )
    return Supervisor(
        environment=environment, run_dir=settings.data_dir / "run", log_dir=log_dir, said=said, names=names
    )
