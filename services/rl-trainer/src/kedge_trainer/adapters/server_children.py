"""Run the environments' servers as children of this process, each on a port of its own; they end with it."""

import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final

from kedge_trainer.adapters.openenv_client import get
from kedge_trainer.adapters.server_process import PORTS, check_installed, server_command
from kedge_trainer.domain.errors import CannotServe, ServerRefused

HOST: Final = "127.0.0.1"
SECONDS: Final = 300.0
"""OpenEnv takes some to import, the more so four times at once on a busy machine."""


@contextmanager
def running_servers(names: Iterable[str], *, python: str, first_port: int) -> Iterator[Mapping[str, str]]:
    """Serve environments on this machine, and wait until each answers; gives addresses by name.

    Args:
        names: environments.
        python: the interpreter that has OpenEnv and the environments.
        first_port: of the first one; the others count up.

    Raises:
        NotInstalled: the interpreter lacks something.
        CannotServe: a port is none, or a server ended or does not answer.
    """
    ports = dict(zip(names, range(first_port, PORTS[-1] + 1), strict=False))
    for name in ports:
        check_installed(name, python)
    with ExitStack() as exits:
        started = {}
        for name, port in ports.items():
            started[name] = exits.enter_context(_child(server_command(name, python=python, host=HOST, port=port)))
        deadline = time.monotonic() + SECONDS
        urls = {name: f"http://{HOST}:{port}" for name, port in ports.items()}
        for name, url in urls.items():
            _wait(name, url, started[name], deadline)
        yield urls


@contextmanager
def _child(command: list[str]) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.terminate()


def _wait(name: str, url: str, process: "subprocess.Popen[bytes]", deadline: float) -> None:
    while process.poll() is None and time.monotonic() < deadline:
        try:
            get(url, "/health")
        except ServerRefused:
            time.sleep(0.1)
        else:
            return
    raise CannotServe(f"the server of {name} does not answer at {url}; is the port free? see what it printed")
