"""Check once, before anything is started, what no restart would mend: files, tokens, the data folder, the ports."""

import errno
import fcntl
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module

from kedge_bandit.entrypoints.doors import keyring_of
from kedge_bandit.entrypoints.metrics_port import IDENTITY_WIRING, is_encrypted
from kedge_bandit.entrypoints.settings import Settings

_MAX_PORT = 65535
_TAKEN = (errno.EADDRINUSE, errno.EACCES)


def check_files(settings: Settings) -> None:
    """Read what TLS and tokens are set up with. Raises SystemExit in one sentence, as the processes would."""
    if is_encrypted(settings):
        import_module(IDENTITY_WIRING).served_certificate(settings)
    keyring_of(settings)


@contextmanager
def claimed(settings: Settings) -> Iterator[None]:
    """Hold the data folder while the body runs; the claim dies with its holder.

    Raises:
        SystemExit: the folder cannot be made, or another `kedge serve` that is alive holds it.
    """
    folder = settings.data_dir
    try:
        (folder / "run").mkdir(parents=True, exist_ok=True)
        lock = (folder / "run" / "supervisor.lock").open("w")
    except OSError as error:
        raise SystemExit(f"the data folder {folder} cannot be used ({error.strerror}): set KEDGE_DATA_DIR") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SystemExit(f"another `kedge serve` runs over {folder}: end it, or set KEDGE_DATA_DIR") from error
        yield


def check_ports(settings: Settings) -> None:
    """Listen on every port for a moment, on all at once. Raises SystemExit that names the port and its setting."""
    with ExitStack() as held:
        for name, port in _ports(settings):
            if port > _MAX_PORT:
                raise SystemExit(f"{name} counts up to {port}, and ports end at {_MAX_PORT}: set it lower")
            try:
                _listen(held, settings.host, port)
            except OSError as error:
                if error.errno not in _TAKEN:
                    raise SystemExit(f"KEDGE_HOST: nothing can listen on {settings.host}: {error.strerror}") from error
                why = "is taken" if error.errno == errno.EADDRINUSE else "is not for this user"
                raise SystemExit(f"port {port} of {settings.host} {why}: set {name} to another one") from error


def _ports(settings: Settings) -> Iterator[tuple[str, int]]:
    """Name the ports of all processes, with their settings; 0 is none, or any."""
    for number in range(settings.replicas):
        yield "KEDGE_PORT", settings.port and settings.port + number
        yield "KEDGE_METRICS_PORT", settings.metrics_port and settings.metrics_port + number
    yield "KEDGE_WEB_PORT", settings.web_port
    yield "KEDGE_CONSOLE_PORT", settings.console_port
    yield "KEDGE_WORKER_METRICS_PORT", settings.worker_metrics_port
    yield "KEDGE_GATE_PORT", settings.gate_port
    yield "KEDGE_GATE_METRICS_PORT", settings.gate_port and settings.gate_metrics_port


def _listen(held: ExitStack, host: str, port: int) -> None:
    """Listen on every address of a host; one that this machine has not is left out where another one works."""
    if port == 0:
        return
    missing: OSError | None = None
    found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    works = False
    for family, _, _, _, address in found:
        try:
            held.enter_context(socket.create_server(address, family=family))
            works = True
        except OSError as error:
            if error.errno in _TAKEN:
                raise
            missing = error
    if missing is not None and not works:
        raise missing
