"""`kedge-trainer envs gym`: let policies play where people can watch, by the environments' own servers."""

import signal
import sys
from contextlib import ExitStack
from types import FrameType
from typing import Annotated, Final

import typer

from kedge_trainer.adapters.environments import GROUNDS
from kedge_trainer.adapters.gym_server import Gym, listening
from kedge_trainer.adapters.server_children import running_servers
from kedge_trainer.domain.errors import CannotServe, UnknownEnvironment
from kedge_trainer.entrypoints.show import out

PORT: Final = 8600


def serve_gym(
    *,
    host: Annotated[str, typer.Option()] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="of the Gym; the servers that it starts count up from the next one")] = PORT,
    server: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=URL", help="a server that runs already; without one, a server for each environment"),
    ] = None,
    python: Annotated[
        str, typer.Option(help="the interpreter that has OpenEnv; in a checkout build/envs/bin/python")
    ] = sys.executable,
) -> None:
    """Serve the Gym until stopped: policies play on the environments' servers, and every step can be looked at."""
    given = dict(_read(one) for one in server or [])
    with ExitStack() as exits:
        signal.signal(signal.SIGTERM, _end)
        missing = [] if given else list(GROUNDS)
        servers = {**given, **exits.enter_context(running_servers(missing, python=python, first_port=port + 1))}
        listener = exits.enter_context(listening(Gym(servers), host, port))
        shown = f"http://{host}:{listener.server_address[1]}"
        out.print(f"gym {shown} with {', '.join(servers)}", highlight=False, markup=False, soft_wrap=True)
        try:
            listener.serve_forever()
        except KeyboardInterrupt:
            return


def _end(_number: int, _frame: FrameType | None) -> None:
    """Leave through the exits, so that the servers end too."""
    raise SystemExit(0)


def _read(text: str) -> tuple[str, str]:
    name, found, url = text.partition("=")
    if name not in GROUNDS:
        raise UnknownEnvironment(name, GROUNDS)
    if not found or not url.startswith(("http://", "https://")):
        raise CannotServe(f"{text!r} names no server; write --server {name}=http://127.0.0.1:7860")
    return name, url
