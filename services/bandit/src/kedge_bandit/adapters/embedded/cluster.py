"""Make a cluster that only its password opens, and say with which settings its server runs."""

import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

from kedge_bandit.adapters.embedded.binaries import Binaries
from kedge_bandit.adapters.embedded.errors import ClusterNotCreated, PasswordMissing, ServerUserUnavailable
from kedge_bandit.adapters.embedded.readiness import ROLE
from kedge_bandit.adapters.embedded.server_user import spawn
from kedge_bandit.adapters.embedded.workspace import SOCKET_PORT, Workspace, make_folder

# Vetted by measurement: 1,024 locks let pg_dump read 1,840 tenant schemas (64 do not), syncfs takes the crash recovery
# of their 119,000 files from 120 s to 1.8 s, and nothing is acknowledged before its fsync has returned.
SETTINGS = {
    "listen_addresses": "",
    "port": str(SOCKET_PORT),
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "max_locks_per_transaction": "1024",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
    "cluster_name": "kedge",
}
LINUX_SETTINGS = {"recovery_init_sync_method": "syncfs"}


def server_argv(binaries: Binaries, cluster: Path, socket_folder: Path) -> list[str]:
    """Write the server's command line; settings given here win over the cluster's files.

    Args:
        binaries: which server.
        cluster: its data directory, absolute, so that the process can be recognised by it.
        socket_folder: the only place where it listens.
    """
    settings = SETTINGS | (LINUX_SETTINGS if sys.platform == "linux" else {})
    settings["unix_socket_directories"] = str(socket_folder)
    argv = [str(binaries.postgres), "-D", str(cluster)]
    for name, value in settings.items():
        argv += ["-c", f"{name}={value}"]
    return argv


def read_data_major(cluster: Path) -> int | None:
    """Read which major version wrote the cluster; None when there is no cluster."""
    try:
        return int((cluster / "PG_VERSION").read_text(encoding="ascii"))
    except FileNotFoundError:
        return None


def read_password(workspace: Workspace) -> str:
    """Read the generated password.

    Raises:
        PasswordMissing: the file is not there.
    """
    try:
        return workspace.password_file.read_text(encoding="ascii").strip()
    except FileNotFoundError as error:
        raise PasswordMissing(workspace.password_file) from error


def create_cluster(workspace: Workspace, binaries: Binaries) -> None:
    """Make the cluster beside its final name and rename it when it is whole, so that a kill leaves no half of one.

    Locale C orders text by its UTF-8 bytes, as canonical action keys are ordered, on every system and version.

    Raises:
        ClusterNotCreated: initdb failed.
        ServerUserUnavailable: the server's user has no name, without which initdb does not work.
    """
    user = workspace.user
    if not user.has_name():
        raise ServerUserUnavailable(f"uid {user.uid} has no entry in /etc/passwd, and initdb insists on one")
    if not workspace.password_file.exists():
        _write_password(workspace)
    draft = workspace.root / "pgdata.new"
    if draft.exists():
        shutil.rmtree(draft)
    make_folder(draft, 0o700, owner=user)
    argv = [str(binaries.initdb), "-D", str(draft), f"--username={ROLE}", f"--pwfile={workspace.password_file}"]
    argv += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--data-checksums", "--no-instructions"]
    child = spawn(argv, user, output=subprocess.PIPE)
    output, _ = child.communicate()
    if child.returncode != 0:
        raise ClusterNotCreated(workspace.cluster, output.decode(errors="replace").strip())
    draft.rename(workspace.cluster)
    _sync_folder(workspace.root)


def _write_password(workspace: Workspace) -> None:
    """Generate 256 random bits and keep them for the server's user alone."""
    draft = workspace.password_file.with_name("password.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        if workspace.user.switches:
            os.fchown(descriptor, workspace.user.uid, workspace.user.gid)
        file.write(secrets.token_urlsafe(32))
        file.flush()
        os.fsync(descriptor)
    draft.rename(workspace.password_file)


def _sync_folder(folder: Path) -> None:
    """Make a rename in the folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
