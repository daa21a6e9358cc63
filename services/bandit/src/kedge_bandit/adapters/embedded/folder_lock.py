"""Lock a folder between processes, so that the lock dies with its last holder, however it dies.

flock belongs to the open file, not to the process: a child that inherits the descriptor holds the lock too, and a
zombie, which has no descriptors, holds none. A process number has neither property.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def open_private(path: Path, flags: int) -> int:
    """Open a file of a workspace, made with mode 0600 and given to the folder's owner when it is missing.

    The folder's owner, not root, because the same data folder may be used by root today and by its owner tomorrow.

    Args:
        path: file whose folder exists; a symbolic link is refused.
        flags: access flags of `os.open`, to which creation is added.

    Returns:
        The descriptor; the caller closes it.
    """
    descriptor = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return descriptor


class FolderLock:
    """Hold one advisory lock file, shared or exclusive; closing it lets go."""

    def __init__(self, path: Path) -> None:
        self._descriptor = open_private(path, os.O_RDWR)

    @property
    def descriptor(self) -> int:
        """Give the descriptor that a child may inherit and thereby hold the lock."""
        return self._descriptor

    def take(self) -> None:
        """Wait until nobody else holds the lock and take it alone."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def share(self) -> None:
        """Wait until nobody holds the lock alone and take a share of it."""
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def try_take(self) -> bool:
        """Take the lock alone if nobody else holds any of it; a share held before may be lost when this fails."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Let go of this holder's part; a child that inherited the descriptor keeps the lock."""
        os.close(self._descriptor)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Run the body while no other process runs a body under the same path."""
    lock = FolderLock(path)
    try:
        lock.take()
        yield
    finally:
        lock.close()
