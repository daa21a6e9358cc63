"""Serve relocation cases: `server`, `python -m relocation_env.server.app`, or uvicorn with this `app`."""

import argparse

import uvicorn
from fastapi import FastAPI
from openenv.core.env_server.http_server import create_app

from relocation_env.ground import NAME, PORT, TASKS
from relocation_env.models import RelocationAction, RelocationObservation, RelocationState
from relocation_env.server.environment import RelocationEnvironment
from relocation_env.server.messages import ObjectsOnly

MAX_SESSIONS = 256

app: FastAPI = create_app(
    RelocationEnvironment,
    RelocationAction,
    RelocationObservation,
    env_name=NAME,
    max_concurrent_envs=MAX_SESSIONS,
    state_cls=RelocationState,
)
app.add_middleware(ObjectsOnly)


@app.get("/tasks")
def tasks() -> dict[str, str]:
    """List the tasks that a reset may ask for."""
    return dict(TASKS)


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=PORT)
    asked = parser.parse_args()
    uvicorn.run(app, host=asked.host, port=asked.port, log_level="warning")


if __name__ == "__main__":
    main()
