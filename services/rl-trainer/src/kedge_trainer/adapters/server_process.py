"""Become an environment's server, so that whoever stops this process stops the server."""

import os
import subprocess
from typing import NoReturn

from kedge_trainer.adapters.environments import distribution
from kedge_trainer.domain.errors import CannotServe, NotInstalled

PORTS = range(1, 65_536)
HELD_OUT = "KEDGE_ENV_HELD_OUT"
"""Tells a server that it may also play the test split."""

_MISSING = """
import sys
from importlib.util import find_spec
print(*(name for name in sys.argv[1:] if find_spec(name) is None))
"""


def become_server(name: str, *, python: str, host: str, port: int, held_out: bool) -> NoReturn:
    """Replace this process by the server of an environment.

    Args:
        name: the environment.
        python: the interpreter that has OpenEnv and the environment.
        host: the address to listen at.
        port: the port to listen at.
        held_out: also play the test split.

    Raises:
        CannotServe: that is no port, or no interpreter.
        NotInstalled: the interpreter lacks something.
    """
    if port not in PORTS:
        raise CannotServe(f"{port} is no port; choose one from {PORTS[0]} to {PORTS[-1]} with --port")
    check_installed(name, python)
    command = server_command(name, python=python, host=host, port=port)
    os.execvpe(python, command, os.environ | ({HELD_OUT: "1"} if held_out else {}))  # noqa: S606 - no shell is wanted


def server_command(name: str, *, python: str, host: str, port: int) -> list[str]:
    """Spell how an interpreter serves an environment.

    >>> server_command("relocation_env", python="python", host="127.0.0.1", port=7860)
    ['python', '-m', 'relocation_env.server.app', '--host', '127.0.0.1', '--port', '7860']
    """
    return [python, "-m", f"{name}.server.app", "--host", host, "--port", str(port)]


def check_installed(name: str, python: str) -> None:
    """Make sure that an interpreter can serve an environment.

    Raises:
        CannotServe: that is no interpreter.
        NotInstalled: it lacks something.
    """
    missing = _missing(python, "openenv", "uvicorn", name)
    if missing:
        remedy = "in a checkout run `make envs` and add --python build/envs/bin/python"
        raise NotInstalled(f"{missing[0]} for {python}", f"{remedy}, elsewhere install {distribution(name)}[server]")


def _missing(python: str, *modules: str) -> list[str]:
    """List what an interpreter cannot import."""
    try:
        found = subprocess.run([python, "-c", _MISSING, *modules], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as failure:
        why = failure.strerror if isinstance(failure, OSError) else f"it ended with {failure.returncode}"
        raise CannotServe(
            f"{python} is no Python that runs ({why}); name one that has OpenEnv by --python"
        ) from failure
    return found.stdout.split()
