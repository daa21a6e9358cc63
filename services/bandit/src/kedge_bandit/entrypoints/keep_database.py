"""Start the embedded database again when it has died, beside the processes that are minded meanwhile."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread

from kedge_bandit.adapters.embedded import EmbeddedDatabaseError, EmbeddedPostgres

LOOK_SECONDS = 0.2
LONGEST_PAUSE = 5.0


@dataclass(slots=True)
class DatabaseKeeper:
    """Look whether the database lives, five times a second, and bring it up where it does not.

    The processes keep their address and connect again by themselves. Recovery may take long, so this waits for it in a
    thread of its own.

    Attributes:
        said: called with one line when something happened to it.
        stopping: set it, and nothing is started any more.
    """

    embedded: EmbeddedPostgres
    said: Callable[[str], None]
    stopping: Event

    def run(self) -> None:
        """Keep it until `stopping` is set. What keeps it from starting may pass (a full disk), so never give up."""
        pause = LOOK_SECONDS
        while not self.stopping.wait(pause):
            if self.embedded.pid is not None:
                pause = LOOK_SECONDS
                continue
            self.said("the database ended; starting it again")
            try:
                self.embedded.start()
            except EmbeddedDatabaseError as error:
                pause = min(LONGEST_PAUSE, 2 * pause)
                self.said(f"the database does not start, next try in {pause:g} s: {error}")
            else:
                self.said("the database serves again")


@contextmanager
def kept(embedded: EmbeddedPostgres | None, said: Callable[[str], None]) -> Iterator[None]:
    """Keep a database while the body runs; do nothing for one that is not ours."""
    if embedded is None:
        yield
        return
    stopping = Event()
    thread = Thread(target=DatabaseKeeper(embedded, said, stopping).run, name="database-keeper")
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
