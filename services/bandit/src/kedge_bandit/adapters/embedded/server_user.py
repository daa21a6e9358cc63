"""Decide which user runs the server, and start processes as that user.

PostgreSQL refuses to run as root. A plain user runs it as themselves; root runs it as `postgres`, else `nobody`, with
no supplementary groups.
"""

import os
import pwd
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kedge_bandit.adapters.embedded.errors import ServerUserUnavailable

UNPRIVILEGED_USERS = ("postgres", "nobody")

# Nothing of the service's environment reaches the server: neither secrets nor PG* variables that would redirect it.
SERVER_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


@dataclass(frozen=True, slots=True)
class ServerUser:
    """Say as whom the server runs; `switches` is true when that is not who we are."""

    uid: int
    gid: int
    switches: bool

    def has_name(self) -> bool:
        """Tell whether the user stands in the user database, which initdb insists on."""
        try:
            pwd.getpwuid(self.uid)
        except KeyError:
            return False
        return True

    def can_enter(self, folder: Path) -> bool:
        """Tell whether the user may pass through a folder and all its parents, by trying it as that user."""
        question = spawn(["/bin/sh", "-c", '[ -x "$1" ]', "sh", str(folder)], self, output=subprocess.DEVNULL)
        return question.wait() == 0


def current_user() -> ServerUser:
    """Give the plain user who runs this process."""
    return ServerUser(uid=os.geteuid(), gid=os.getegid(), switches=False)


def unprivileged_user() -> ServerUser:
    """Give the user that root runs the server as.

    Raises:
        ServerUserUnavailable: neither `postgres` nor `nobody` exists.
    """
    for name in UNPRIVILEGED_USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return ServerUser(uid=entry.pw_uid, gid=entry.pw_gid, switches=True)
    raise ServerUserUnavailable(f"this process is root and none of {', '.join(UNPRIVILEGED_USERS)} exists")


def spawn(
    argv: Sequence[str], user: ServerUser, *, output: int, folder: Path = Path("/"), inherited: tuple[int, ...] = ()
) -> subprocess.Popen[bytes]:
    """Start a process as the server's user, with a bare environment, no input and a session of its own.

    A session of its own keeps Ctrl-C in the service's terminal from the server: the service decides when it stops.

    Args:
        argv: program and arguments.
        user: as whom.
        output: descriptor or `subprocess` constant for standard output and error.
        folder: working folder; root's own may be closed to the user.
        inherited: further descriptors that the process keeps open.

    Returns:
        The running child; the caller waits for it.

    Raises:
        ServerUserUnavailable: this root may not change its user.
        OSError: the program cannot be run.
    """
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=str(folder),
            env=SERVER_ENVIRONMENT,
            user=user.uid if user.switches else None,
            group=user.gid if user.switches else None,
            extra_groups=[] if user.switches else None,
            umask=0o077,
            start_new_session=True,
            pass_fds=inherited,
        )
    except OSError as error:
        # A failure before the program is run names the working folder, and root can always enter that.
        if user.switches and error.filename == str(folder):
            raise ServerUserUnavailable(f"this root may not become uid {user.uid} ({error.strerror})") from error
        raise
