"""Serve environments in one process that has OpenEnv, and validate them there: a test's fixture runs this as a script.

It prints the ports as one JSON line, then answers a line of JSON with another: `{"validate": NAME}` runs the command
`openenv validate` on the folder and on the address, `{"held_out": true}` lets new sessions play the test split,
`{"setting": [NAME, VALUE]}` sets what a server reads from its environment, or takes it away where the value is empty.
"""

import json
import os
import socket
import sys
import threading
import time
from importlib import import_module
from pathlib import Path

import uvicorn
from openenv.cli.__main__ import app as openenv
from typer.testing import CliRunner

HELD_OUT = "KEDGE_ENV_HELD_OUT"


def serve(name: str) -> tuple[int, uvicorn.Server]:
    """Serve one environment on a free port, in a thread."""
    listening = socket.create_server(("127.0.0.1", 0))
    application = import_module(f"{name}.server.app").app
    server = uvicorn.Server(uvicorn.Config(application, log_level="error", ws="websockets-sansio"))
    threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    return listening.getsockname()[1], server


def validate(name: str, port: int) -> dict[str, object]:
    """Run the command at static level on the folder, then its checks on the address."""
    folder = Path(str(import_module(name).__file__)).parent
    runner = CliRunner()
    static = runner.invoke(openenv, ["validate", str(folder), "--level", "static", "--json"])
    url = runner.invoke(openenv, ["validate", "--url", f"http://127.0.0.1:{port}", "--timeout", "30", "--json"])
    return {"static": [static.exit_code, static.stdout], "url": [url.exit_code, url.stdout]}


def main(names: list[str]) -> None:
    """Serve until standard input closes."""
    ports = {name: serve(name)[0] for name in names}
    print(json.dumps(ports), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if "validate" in asked:
            print(json.dumps(validate(asked["validate"], ports[asked["validate"]])), flush=True)
        if "held_out" in asked:
            os.environ[HELD_OUT] = "1" if asked["held_out"] else "0"
            print("{}", flush=True)
        if "setting" in asked:
            name, value = asked["setting"]
            os.environ.pop(name, None)
            os.environ.update({name: value} if value else {})
            print("{}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
