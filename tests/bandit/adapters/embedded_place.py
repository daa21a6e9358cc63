"""Share one folder and one cluster among the tests of an embedded database, and look at processes and files."""

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from kedge_bandit.adapters.embedded import EmbeddedPostgres

SERVICE = """
import sys
from pathlib import Path
from kedge_bandit.adapters.embedded import EmbeddedPostgres
database = EmbeddedPostgres(Path(sys.argv[1]), state_dir=Path(sys.argv[2]))
url = database.start()
print(database.pid, url, flush=True)
sys.stdin.read()
database.stop()
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as somebody else")
needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="zombies are made and seen through /proc")


@dataclass(frozen=True, slots=True)
class Place:
    """One folder for all tests of the module; its cluster is made once and used by one test after the other."""

    folder: Path

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def supervisor(self, data_dir: Path | None = None, **options: Path | timedelta) -> EmbeddedPostgres:
        return EmbeddedPostgres(data_dir or self.data, state_dir=self.folder / "state", **options)  # type: ignore[arg-type]  # tests pass the right kinds

    @contextmanager
    def service(self) -> Iterator[tuple[subprocess.Popen[str], int, str]]:
        """Run a supervisor in a process of its own; give it with the server's process and address."""
        argv = [sys.executable, "-c", SERVICE, str(self.data), str(self.folder / "state")]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        ) as process:
            try:
                assert process.stdout is not None
                pid, url = process.stdout.readline().split()
                yield process, int(pid), url
            finally:
                process.kill()


def ask(url: str, question: str) -> str:
    with psycopg.connect(url) as connection:
        row = connection.execute(question.encode()).fetchone()
    assert row is not None
    return str(row[0])


def do(url: str, *statements: str) -> None:
    with psycopg.connect(url) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def wait_for_end(pid: int) -> None:
    """Wait until a process that need not be ours has ended, reaped or not."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], 30)[0]
    finally:
        os.close(descriptor)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def leave_pid_file(data: Path, pid: int) -> None:
    """Write what a server with this process number would have left after a crash."""
    lines = f"{pid}\n{data}/pgdata\n1700000000\n5432\n{data}/socket\n"
    (data / "pgdata" / "postmaster.pid").write_text(lines, encoding="ascii")
    (data / "socket" / ".s.PGSQL.5432.lock").write_text(lines, encoding="ascii")
