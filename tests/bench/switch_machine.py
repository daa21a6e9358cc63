"""Watch what the machine gives while the switch is flipped: the cores that nobody else takes, and its disk's pace."""

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.tenants_place import cpu_seconds

_PROBE_SECONDS = 0.1
_PROBE_BYTES = 8192
_BUSY = (0, 1, 2, 5, 6, 7)
"""Places in the first line of /proc/stat: user, nice, system, irq, softirq, steal."""


@dataclass(slots=True)
class Machine:
    """Look at the machine from a thread of its own; the bench marks the stretches.

    Attributes:
        folder: on the disk that the database is on.
        cores: for each stretch, how many cores were idle or used by the bench and what it started.
        syncs: milliseconds of each fdatasync of a page.
    """

    folder: Path
    cores: list[float] = field(default_factory=list)
    syncs: list[float] = field(default_factory=list)
    _marked: tuple[float, float] | None = None
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._probe, name="disk probe")

    def __enter__(self) -> "Machine":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def mark(self) -> None:
        """End a stretch, where one runs, and begin the next."""
        now, others = time.monotonic(), _busy_seconds() - cpu_seconds(os.getpid(), with_children=True)
        if self._marked is not None:
            began, before = self._marked
            self.cores.append((os.cpu_count() or 1) - (others - before) / (now - began))
        self._marked = now, others

    def _probe(self) -> None:
        page = os.open(self.folder / "probe", os.O_CREAT | os.O_WRONLY)
        try:
            while not self._stopping.wait(_PROBE_SECONDS):
                os.pwrite(page, bytes(_PROBE_BYTES), 0)
                began = time.perf_counter()
                os.fdatasync(page)
                self.syncs.append((time.perf_counter() - began) * 1e3)
        finally:
            os.close(page)


def _busy_seconds() -> float:
    """Read the CPU that the whole machine has used."""
    ticks = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:]
    return sum(int(ticks[place]) for place in _BUSY) / os.sysconf("SC_CLK_TCK")
