"""Start the Gym beside `kedge up`, by the trainer's own command; nothing of the trainer is imported here."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from kedge_bandit.entrypoints.profile import is_loopback

ADDRESS: Final = "http://127.0.0.1:8600"
"""Where the Gym is put unless KEDGE_GYM_URL says otherwise."""

ENVIRONMENTS: Final = Path("build/envs/bin/python")
"""What `make envs` makes."""


def command_of(address: str) -> list[str]:
    """Spell the command that serves the Gym at an address; empty where it is not this machine's to start.

    >>> command_of("https://gym.example")
    []
    """
    parts, trainer = urlsplit(address), Path(sys.executable).parent / "kedge-trainer"
    if not (is_loopback(parts.hostname or "") and parts.port and trainer.exists() and ENVIRONMENTS.exists()):
        return []
    return [str(trainer), "envs", "gym", "--port", str(parts.port), "--python", str(ENVIRONMENTS)]


@contextmanager
def gym_beside(address: str, log_dir: Path) -> Iterator[bool]:
    """Serve the Gym until the block is left; gives whether it is ours. It takes a while to answer.

    Args:
        address: where it is to be found.
        log_dir: where what it prints goes.
    """
    command = command_of(address)
    if not command:
        yield False
        return
    log_dir.mkdir(parents=True, exist_ok=True)
    with (
        (log_dir / "gym.log").open("ab") as log,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True) as process,
    ):
        try:
            yield True
        finally:
            process.terminate()
