"""Serve fleets: `server`, `python -m fleet_oversight_env.server.app`, or uvicorn with this `app`."""

import argparse

import uvicorn
from fastapi import FastAPI
from openenv.core.env_server.http_server import create_app

from fleet_oversight_env.ground import NAME, PORT, TASKS
from fleet_oversight_env.models import FleetAction, FleetObservation, FleetState
from fleet_oversight_env.server.environment import FleetEnvironment
from fleet_oversight_env.server.messages import ObjectsOnly, answer_refusals

MAX_SESSIONS = 256

app: FastAPI = create_app(
    FleetEnvironment,
    FleetAction,
    FleetObservation,
    env_name=NAME,
    max_concurrent_envs=MAX_SESSIONS,
    state_cls=FleetState,
)
app.add_middleware(ObjectsOnly)
answer_refusals(app)


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
