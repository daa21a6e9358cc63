"""Find out whether a server runs on a cluster, and remove what a dead one left.

PostgreSQL takes any process number in postmaster.pid for a live server when a signal 0 reaches it: a zombie that nobody
has reaped, or another program that was given the number later. Here only a living `postgres` process counts.
"""

import subprocess
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from kedge_bandit.adapters.embedded.workspace import SHORT_FOLDER_PREFIX, SOCKET_PORT

PROC = Path("/proc")
POSTMASTER_NAMES = frozenset({"postgres", "postmaster"})


@dataclass(frozen=True, slots=True)
class PidFile:
    """Hold what postmaster.pid says; a server that is just starting has not written all of it."""

    pid: int
    port: int
    socket_folder: Path | None


@dataclass(frozen=True, slots=True)
class Process:
    """Hold what the system says of a process: its state letter and its command line."""

    state: str
    argv: tuple[str, ...]


def parse_pid_file(text: str) -> PidFile | None:
    r"""Read postmaster.pid: process, data folder, start time, port, socket folder, one per line.

    >>> parse_pid_file("12\n/data/pgdata\n1700000000\n5432\n/data/socket\n").port
    5432
    >>> parse_pid_file("") is None
    True
    """
    lines = text.splitlines()
    if not lines or not lines[0].strip().lstrip("-").isdecimal():
        return None
    port = lines[3].strip() if len(lines) > 3 else ""
    socket_folder = lines[4].strip() if len(lines) > 4 else ""
    return PidFile(
        pid=abs(int(lines[0])),
        port=int(port) if port.isdecimal() else SOCKET_PORT,
        socket_folder=Path(socket_folder) if socket_folder else None,
    )


def read_pid_file(cluster: Path) -> PidFile | None:
    """Read the cluster's postmaster.pid; None when missing or empty."""
    try:
        return parse_pid_file((cluster / "postmaster.pid").read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        return None


def find_postmaster(cluster: Path) -> PidFile | None:
    """Give the living server of this cluster; None when its process is gone, a zombie, or something else.

    A `postgres` process is doubted only when its own command line names another data folder: two servers on one
    folder destroy it.
    """
    found = read_pid_file(cluster)
    if found is None:
        return None
    process = look_up(found.pid)
    if process is None or process.state in {"Z", "X"} or not may_serve(process.argv, cluster):
        return None
    return found


def may_serve(argv: tuple[str, ...], cluster: Path) -> bool:
    """Tell whether a command line may be the postmaster of a cluster.

    >>> may_serve(("/usr/bin/python3", "-m", "kedge"), Path("/data"))
    False
    >>> may_serve(("postgres: checkpointer ",), Path("/data"))
    False
    >>> may_serve(("/usr/lib/postgresql/18/bin/postgres", "-D", "/elsewhere"), Path("/data"))
    False
    >>> may_serve(("postgres", "-D", "relative"), Path("/data"))
    True
    """
    if not argv or Path(argv[0]).name not in POSTMASTER_NAMES:
        return False
    named = next((value for option, value in pairwise(argv) if option == "-D"), None)
    if named is None or not Path(named).is_absolute():
        return True
    return Path(named).resolve() == cluster.resolve()


def look_up(pid: int) -> Process | None:
    """Ask the system about a process; None when there is none of that number."""
    if not PROC.joinpath("self", "stat").exists():
        return _look_up_with_ps(pid)
    try:
        facts = PROC.joinpath(str(pid), "stat").read_text(encoding="utf-8", errors="replace")
        command = PROC.joinpath(str(pid), "cmdline").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may hold anything, so the state is what follows the last one.
    state = facts.rpartition(")")[2].split()[0]
    return Process(state=state, argv=tuple(command.rstrip("\0").split("\0")))


def _look_up_with_ps(pid: int) -> Process | None:
    """Ask ps, where there is no /proc."""
    answer = subprocess.run(
        ["/bin/ps", "-o", "state=,command=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    words = answer.stdout.split()
    return Process(state=words[0][0], argv=tuple(words[1:])) if words else None


def remove_leftovers(cluster: Path, *, kept: Path | None = None) -> None:
    """Remove postmaster.pid and the socket of a server that is known to be dead.

    PostgreSQL removes them itself unless a zombie or a stranger has the number; then it would refuse to start.
    The caller has made sure that no server lives.

    Args:
        cluster: the dead server's data directory.
        kept: a socket folder that the next server is to have as well.
    """
    dead = read_pid_file(cluster)
    if dead is not None and dead.socket_folder is not None:
        socket = dead.socket_folder / f".s.PGSQL.{dead.port}"
        lock = socket.with_name(f"{socket.name}.lock")
        if _holder(lock) == dead.pid:
            lock.unlink(missing_ok=True)
            socket.unlink(missing_ok=True)
        if dead.socket_folder != kept:
            forget_short_folder(dead.socket_folder)
    (cluster / "postmaster.pid").unlink(missing_ok=True)


def forget_short_folder(folder: Path) -> None:
    """Remove a socket folder that was made outside the workspace, once it is empty."""
    if folder.name.startswith(SHORT_FOLDER_PREFIX) and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _holder(lock: Path) -> int | None:
    """Read which process wrote a socket's lock file; the folder may be one that other servers use too."""
    try:
        found = parse_pid_file(lock.read_text(encoding="utf-8", errors="replace"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.pid if found else None
