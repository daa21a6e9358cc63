"""Lay out the files of an embedded database, and find a folder that the server's user can reach.

```text
<data folder>/
  pgdata/        the cluster, 0700, owned by the server's user
  socket/        the socket, 0700, owned by the server's user; in the temporary folder when the path is too long
  password       0600, owned by the server's user (initdb reads it)
  postgres.log   0600
  *.lock         who starts or stops, who uses the server, whether a server lives
  location       instead of all that: where it lies, when root's data folder is closed to the server's user
```

No folder that existed before has its mode or owner changed. When root names a data folder that the server's user cannot
reach (inside a 0700 home), the files go to a new folder under the state folder, and `location` points there. The name
is new each time, so that a data folder which was removed and made again starts empty.
"""

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kedge_bandit.adapters.embedded.errors import DataFolderForeign, DataFolderGone, DataFolderUnreachable
from kedge_bandit.adapters.embedded.folder_lock import alone
from kedge_bandit.adapters.embedded.server_user import ServerUser, current_user, unprivileged_user

SOCKET_PORT = 5432
SOCKET_NAME = f".s.PGSQL.{SOCKET_PORT}"
# sun_path holds 108 bytes with its final zero on Linux and 104 on macOS.
SOCKET_PATH_LIMIT = 103
# libpq reads commas and SQLAlchemy reads colons in a host as separators.
PLAIN_PATH = re.compile(r"[A-Za-z0-9_./-]+")
SHORT_FOLDER_PREFIX = "kedge-socket-"


@dataclass(frozen=True, slots=True)
class Workspace:
    """Name the files of one embedded database and the user its server runs as."""

    root: Path
    user: ServerUser

    @property
    def cluster(self) -> Path:
        """Give PostgreSQL's data directory."""
        return self.root / "pgdata"

    @property
    def password_file(self) -> Path:
        """Give the file with the generated password."""
        return self.root / "password"

    @property
    def log_file(self) -> Path:
        """Give the server's log."""
        return self.root / "postgres.log"

    @property
    def turn_lock(self) -> Path:
        """Give the lock of whoever starts or stops the server right now."""
        return self.root / "turn.lock"

    @property
    def users_lock(self) -> Path:
        """Give the lock that every supervisor shares while it uses the server."""
        return self.root / "users.lock"

    @property
    def server_lock(self) -> Path:
        """Give the lock that the server's own processes hold while they live."""
        return self.root / "server.lock"

    def make_socket_folder(self) -> Path:
        """Make the 0700 folder for the socket and return it: in the workspace, or a short one elsewhere."""
        folder = self.root / "socket"
        if PLAIN_PATH.fullmatch(str(folder)) and len(os.fsencode(folder / SOCKET_NAME)) <= SOCKET_PATH_LIMIT:
            make_folder(folder, 0o700, owner=self.user)
            return folder
        short = tempfile.gettempdir()
        if not PLAIN_PATH.fullmatch(short) or len(os.fsencode(short)) > SOCKET_PATH_LIMIT // 2:
            short = "/tmp"  # noqa: S108 - the folder made in it has a random name and mode 0700
        folder = Path(tempfile.mkdtemp(prefix=SHORT_FOLDER_PREFIX, dir=short))
        _give(folder, 0o700, self.user)
        return folder


def open_workspace(data_dir: Path, state_dir: Path) -> Workspace:
    """Find or make the folder of an embedded database.

    Args:
        data_dir: the folder that was asked for; made when missing.
        state_dir: where root puts what may not lie in `data_dir`, such as /var/lib/kedge.

    Returns:
        The workspace; its root is `data_dir`, or where `data_dir`'s pointer leads.

    Raises:
        DataFolderUnreachable, DataFolderForeign, DataFolderGone, ServerUserUnavailable: as their texts say.
        OSError: the system refuses.
    """
    root = data_dir.absolute()
    if os.geteuid() != 0:
        make_folder(root, 0o700)
        return _own_workspace(root)
    make_folder(root, 0o755)
    pointer = root / "location"
    if pointer.is_file():
        root = _follow(pointer)
        return Workspace(root=root, user=_user_of(root))
    user = _user_of(root)
    if user.can_enter(root):
        return Workspace(root=root, user=user)
    if (root / "pgdata").exists():
        raise DataFolderUnreachable(root, f"it holds data, but uid {user.uid}, whose data they are, may not enter it")
    return Workspace(root=_settle_elsewhere(root, pointer, state_dir, user), user=user)


def make_folder(path: Path, mode: int, owner: ServerUser | None = None) -> None:
    """Make a folder with exactly this mode and owner when it is missing; leave one that exists alone.

    Args:
        path: folder to make; missing parents are made with the process's usual mode.
        mode: permission bits, whatever the umask.
        owner: who gets it; us when None.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return
    _give(path, mode, owner)


def _give(path: Path, mode: int, owner: ServerUser | None) -> None:
    """Set mode and owner of a folder that we just made, without following a link put in its place."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchmod(descriptor, mode)
        if owner is not None and owner.switches:
            os.fchown(descriptor, owner.uid, owner.gid)
    finally:
        os.close(descriptor)


def _own_workspace(root: Path) -> Workspace:
    """Check that a plain user may write in the folder and owns the data that are there."""
    user = current_user()
    if (root / "location").is_file():
        raise DataFolderForeign(root, (root / "location").stat().st_uid)
    for folder in (root, root / "pgdata"):
        if folder.exists() and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise DataFolderForeign(folder, folder.stat().st_uid)
    return Workspace(root=root, user=user)


def _user_of(root: Path) -> ServerUser:
    """Choose root's server user: the owner of data that exist, else the usual unprivileged one."""
    try:
        owner = (root / "pgdata").stat()
    except FileNotFoundError:
        return unprivileged_user()
    if owner.st_uid == 0:
        return unprivileged_user()
    return ServerUser(uid=owner.st_uid, gid=owner.st_gid, switches=True)


def _follow(pointer: Path) -> Path:
    """Read where the workspace lies; only root's own pointer is believed."""
    facts = pointer.lstat()
    if not stat.S_ISREG(facts.st_mode) or facts.st_uid != 0:
        raise DataFolderForeign(pointer, facts.st_uid)
    target = pointer.read_text(encoding="utf-8").strip()
    if not target or not Path(target).is_dir():
        raise DataFolderGone(pointer, target)
    return Path(target)


def _settle_elsewhere(root: Path, pointer: Path, state_dir: Path, user: ServerUser) -> Path:
    """Make a workspace under the state folder and leave a pointer to it; the first of several to come here does."""
    with alone(root / "turn.lock"):
        if pointer.is_file():
            return _follow(pointer)
        make_folder(state_dir, 0o755)
        make_folder(state_dir / "data", 0o755)
        key = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:16]
        folder = Path(tempfile.mkdtemp(prefix=f"{key}-", dir=state_dir / "data"))
        _give(folder, 0o755, None)
        if not user.can_enter(folder):
            folder.rmdir()
            raise DataFolderUnreachable(root, f"uid {user.uid} can enter neither it nor {state_dir}")
        (folder / "origin").write_text(f"{root}\n", encoding="utf-8")
        draft = root / "location.new"
        draft.write_text(f"{folder}\n", encoding="utf-8")
        draft.replace(pointer)
        return folder


@contextmanager
def explaining_refusals(folder: Path) -> Iterator[None]:
    """Turn what the operating system refuses in the body into a DataFolderUnreachable that says what to do."""
    try:
        yield
    except OSError as error:
        raise DataFolderUnreachable(folder, str(error)) from error
