"""Run servers, worker and web as children: restart the one that dies, all of them in turn, or stop them together."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from kedge_bandit.entrypoints.readiness import READY_FD, heard_ready

_PACKAGE = "kedge_bandit.entrypoints"
_BACKOFF_SECONDS = (0.0, 0.1, 0.5, 1.0, 2.0, 5.0)
_STOP_SECONDS = 20.0
_HEALTHY_SECONDS = 10.0
_READY_SECONDS = 60.0
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What one child runs.

    Attributes:
        name: of its pid file and log; several may run one module.
        module: under `kedge_bandit.entrypoints`.
        settings: what its environment has beyond the common one.
        is_ready: says whether it serves; asked after a planned restart only.
    """

    name: str
    module: str
    settings: Mapping[str, str] = field(default_factory=dict)
    is_ready: Callable[[], bool] = lambda: True


@dataclass(slots=True)
class Child:
    """One process and how often it died lately.

    Attributes:
        is_leaving: it was told to end, so its end is no death.
        was_ready: it, or one before it, has said that it serves.
        pipe: where it says so; None when nobody listens any more.
    """

    program: Program
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    deaths: int = 0
    is_leaving: bool = False
    was_ready: bool = False
    pipe: int | None = None

    @property
    def name(self) -> str:
        """Name of its program."""
        return self.program.name


@dataclass(slots=True)
class Supervisor:
    """Start children with one environment; pid files in `run_dir` let an operator (or a test) find them.

    Attributes:
        log_dir: where each child's standard error goes; None: this process's own.
        said: called with one line when something happened to a child.
        rolling: set it, and `watch` restarts every child in turn.
        failed: a child ended by itself before it was ever ready, which no restart mends; that has ended `watch`.
    """

    environment: Mapping[str, str]
    run_dir: Path
    programs: Sequence[Program]
    log_dir: Path | None = None
    said: Callable[[str], None] = lambda _line: None
    stopping: Event = field(default_factory=Event)
    rolling: Event = field(default_factory=Event)
    failed: bool = False
    _children: list[Child] = field(default_factory=list)

    def start(self) -> None:
        """Start every child; who calls this has claimed the folder."""
        self.run_dir.mkdir(parents=True, exist_ok=True)
        if self.log_dir is not None:
            self.log_dir.mkdir(parents=True, exist_ok=True)
        self._end_leftovers()
        self._children = [Child(program) for program in self.programs]
        for child in self._children:
            self._spawn(child)

    def watch(self) -> None:
        """Restart children that die, and all in turn when `rolling` is set, until `stopping` is."""
        while not self.stopping.wait(_LOOK_SECONDS):
            self._mind()
            if self.rolling.is_set():
                self.rolling.clear()
                self._roll()

    def _mind(self) -> None:
        for child in self._children:
            has_ended = child.process is not None and child.process.poll() is not None
            _hear(child)
            if has_ended and not child.is_leaving:
                self._died(child)
            elif child.process is None and time.monotonic() - child.started >= _backoff(child.deaths):
                self._spawn(child)

    def _roll(self) -> None:
        """Restart one child after the other; one that does not get ready ends it, so that the others serve on."""
        for child in self._children:
            self.said(f"restarting {child.name}")
            if not self._replace(child):
                if not self.stopping.is_set():
                    self.said(f"{child.name} is not ready after {_READY_SECONDS:g} s; the next ones are left alone")
                return
        self.said("every process was restarted")

    def _replace(self, child: Child) -> bool:
        """End a child gently, start it again, and say whether it got ready; the others are minded meanwhile."""
        leaving = child.process
        if leaving is not None:
            child.is_leaving = True
            leaving.terminate()
            if not self._wait(lambda: leaving.poll() is not None, _STOP_SECONDS):
                leaving.kill()
                leaving.wait()
            child.is_leaving = False
            self._spawn(child)
        return self._wait(child.program.is_ready, _READY_SECONDS)

    def _wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not condition():
            if self.stopping.wait(_LOOK_SECONDS) or time.monotonic() > deadline:
                return False
            self._mind()
        return True

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
            _hang_up(child)
            self._pid_file(child).unlink(missing_ok=True)

    def obey_signals(self) -> None:
        """Let SIGTERM and SIGINT end `watch`, and SIGHUP restart every child in turn."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stopping.set())
        signal.signal(signal.SIGHUP, lambda *_: self.rolling.set())

    def _end_leftovers(self) -> None:
        """End children of a supervisor that was killed, however many it had: they still hold the ports."""
        left = _pids(self.run_dir)
        for path, pid in left.items():
            if _is_ours(pid):
                self.said(f"ending {path.stem} {pid}, left by a supervisor that was killed")
                os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        for path, pid in left.items():
            while _is_ours(pid) and time.monotonic() < deadline:
                time.sleep(_LOOK_SECONDS)
            path.unlink(missing_ok=True)

    def _spawn(self, child: Child) -> None:
        command = [sys.executable, "-m", f"{_PACKAGE}.{child.program.module}"]
        environment = {**self.environment, **child.program.settings}
        with ExitStack() as exits:
            log = None
            if self.log_dir is not None:
                log = exits.enter_context((self.log_dir / f"{child.name}.log").open("ab"))
            pipe: tuple[int, ...] = ()
            if not child.was_ready:
                pipe = (_open_pipe(child),)
                exits.callback(os.close, *pipe)
                environment[READY_FD] = str(pipe[0])
            # A session of its own: Ctrl-C reaches this process, which then stops the children in order.
            child.process = subprocess.Popen(
                command,
                env=environment,
                start_new_session=True,
                stdout=log,
                stderr=log,
                pass_fds=pipe,
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
        if code is not None and code > 0 and not child.was_ready:
            self.failed = True
            self.stopping.set()
            self.said(f"{child.name} ended with {code} before it was ever ready: what it said has to be mended first")
            return
        self.said(f"{child.name} ended with {code} after {lived:.1f} s; starting it again")

    def _pid_file(self, child: Child) -> Path:
        return self.run_dir / f"{child.name}.pid"


def settings_of(**values: str) -> dict[str, str]:
    """Spell settings as the environment has them.

    >>> settings_of(port="50051")
    {'KEDGE_PORT': '50051'}
    """
    return {f"KEDGE_{name.upper()}": value for name, value in values.items()}


def has_leftovers(run_dir: Path) -> bool:
    """Say whether children of a supervisor that was killed still run; they hold the ports until `start` ends them."""
    return any(_is_ours(pid) for pid in _pids(run_dir).values())


def _open_pipe(child: Child) -> int:
    """Open the pipe on which a child says that it serves; gives the child's end."""
    _hang_up(child)
    child.pipe, theirs = os.pipe()
    os.set_blocking(child.pipe, False)
    return theirs


def _hear(child: Child) -> None:
    if child.pipe is not None and heard_ready(child.pipe):
        child.was_ready = True
        _hang_up(child)


def _hang_up(child: Child) -> None:
    if child.pipe is not None:
        os.close(child.pipe)
        child.pipe = None


def _pids(run_dir: Path) -> dict[Path, int]:
    return {path: _pid_of(path) for path in run_dir.glob("*.pid")}


def _pid_of(path: Path) -> int:
    try:
        return int(path.read_text(encoding="ascii"))
    except ValueError:
        return 0


def _is_ours(pid: int) -> bool:
    """Say whether a process is one of ours; a number that was given to somebody else since is not."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return any(argument.startswith(f"{_PACKAGE}.".encode()) for argument in arguments)


def _backoff(deaths: int) -> float:
    return _BACKOFF_SECONDS[min(deaths - 1, len(_BACKOFF_SECONDS) - 1)] if deaths > 0 else 0.0
