"""Run server, worker and web as children: restart the one that dies, stop all of them together."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import IO

PROCESSES = ("server", "worker", "web")
_BACKOFF_SECONDS = (0.0, 0.1, 0.5, 1.0, 2.0, 5.0)
_STOP_SECONDS = 20.0
_HEALTHY_SECONDS = 10.0


class AlreadyRunning(Exception):
    """Refuse to supervise a data folder that a living supervisor holds; the lock dies with its holder."""


@dataclass(slots=True)
class Child:
    """One process and how often it died lately."""

    name: str
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    deaths: int = 0


@dataclass(slots=True)
class Supervisor:
    """Start children with one environment; pid files in `run_dir` let an operator (or a test) find them.

    Attributes:
        log_dir: where each child's standard error goes; None: this process's own.
        said: called with one line when a child died.
    """

    environment: Mapping[str, str]
    run_dir: Path
    log_dir: Path | None = None
    said: Callable[[str], None] = lambda _line: None
    names: Sequence[str] = PROCESSES
    stopping: Event = field(default_factory=Event)
    _children: list[Child] = field(default_factory=list)
    _lock: IO[str] | None = None

    def start(self) -> None:
        """Start every child.

        Raises:
            AlreadyRunning: another supervisor that is alive holds the folder.
        """
        self.run_dir.mkdir(parents=True, exist_ok=True)
        self._lock = (self.run_dir / "supervisor.lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = self.run_dir.parent
            raise AlreadyRunning(f"another `kedge serve` runs over {holder}: end it, or set KEDGE_DATA_DIR") from error
        if self.log_dir is not None:
            self.log_dir.mkdir(parents=True, exist_ok=True)
        self._end_leftovers()
        self._children = [Child(name) for name in self.names]
        for child in self._children:
            self._spawn(child)

    def watch(self) -> None:
        """Restart children that die, until `stopping` is set."""
        while not self.stopping.wait(0.05):
            for child in self._children:
                if child.process is not None and child.process.poll() is not None:
                    self._died(child)
                elif child.process is None and time.monotonic() - child.started >= _backoff(child.deaths):
                    self._spawn(child)

    def stop(self) -> None:
        """End every child: SIGTERM, then SIGKILL for one that does not drain in 20 s."""
        self.stopping.set()
        running = [child.process for child in self._children if child.process is not None]
        for process in running:
            process.terminate()
        deadline = time.monotonic() + _STOP_SECONDS
        for process in running:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for child in self._children:
            self._pid_file(child).unlink(missing_ok=True)

    def stop_on_signals(self) -> None:
        """Let SIGTERM and SIGINT end `watch`."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stopping.set())

    def _end_leftovers(self) -> None:
        """End children of a supervisor that was killed: they still hold the ports."""
        for name in self.names:
            path = self._pid_file(Child(name))
            pid = int(path.read_text(encoding="ascii")) if path.exists() else 0
            if pid and _runs(pid, name):
                self.said(f"ending {name} {pid}, left by a supervisor that was killed")
                os.kill(pid, signal.SIGTERM)
                deadline = time.monotonic() + _STOP_SECONDS
                while _runs(pid, name) and time.monotonic() < deadline:
                    time.sleep(0.05)
            path.unlink(missing_ok=True)

    def _spawn(self, child: Child) -> None:
        command = [sys.executable, "-m", f"kedge_bandit.entrypoints.{child.name}"]
        # A session of its own: Ctrl-C reaches this process, which then stops the children in order.
        if self.log_dir is None:
            child.process = subprocess.Popen(command, env=dict(self.environment), start_new_session=True)
        else:
            with (self.log_dir / f"{child.name}.log").open("ab") as log:
                child.process = subprocess.Popen(
                    command, env=dict(self.environment), start_new_session=True, stdout=log, stderr=log
                )
        child.started = time.monotonic()
        # Renamed into place, so that a reader never sees half a number.
        fresh = self._pid_file(child).with_suffix(".new")
        fresh.write_text(f"{child.process.pid}\n", encoding="ascii")
        fresh.replace(self._pid_file(child))

    def _died(self, child: Child) -> None:
        process = child.process
        code = process.returncode if process is not None else None
        lived = time.monotonic() - child.started
        child.deaths = 1 if lived > _HEALTHY_SECONDS else child.deaths + 1
        child.process, child.started = None, time.monotonic()
        self.said(f"{child.name} ended with {code} after {lived:.1f} s; starting it again")

    def _pid_file(self, child: Child) -> Path:
        return self.run_dir / f"{child.name}.pid"


def child_environment(**values: str) -> dict[str, str]:
    """Give this process's environment with settings of the children."""
    return {**os.environ, **{f"KEDGE_{name.upper()}": value for name, value in values.items()}}


def _runs(pid: int, name: str) -> bool:
    """Say whether a process is one of ours; a number that was given to somebody else since is not."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return f"kedge_bandit.entrypoints.{name}".encode() in arguments


def _backoff(deaths: int) -> float:
    return _BACKOFF_SECONDS[min(deaths - 1, len(_BACKOFF_SECONDS) - 1)] if deaths > 0 else 0.0
