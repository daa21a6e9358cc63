"""Serve briefs: `server`, `python -m brief_routing_env.server.app`, or uvicorn with this `app`."""

import argparse

import uvicorn
from fastapi import FastAPI, HTTPException, status
from openenv.core.env_server.http_server import create_app

from brief_routing_env import rubric
from brief_routing_env.ground import NAME, PORT, TASKS
from brief_routing_env.models import BriefAction, BriefObservation, BriefState, GradeRequest
from brief_routing_env.server.environment import SESSIONS, BriefEnvironment
from brief_routing_env.server.messages import ObjectsOnly, answer_refusals
from brief_routing_env.server.sessions import MOST

MAX_SESSIONS = 256

app: FastAPI = create_app(
    BriefEnvironment,
    BriefAction,
    BriefObservation,
    env_name=NAME,
    max_concurrent_envs=MAX_SESSIONS,
    state_cls=BriefState,
)
app.add_middleware(ObjectsOnly)
answer_refusals(app)


@app.get("/tasks")
def tasks() -> dict[str, str]:
    """List the tasks that a reset may ask for."""
    return dict(TASKS)


@app.get("/sessions")
def sessions() -> dict[str, int]:
    """Count the episodes that are kept by id."""
    return {"kept": SESSIONS.count(), "most": MOST}


@app.post("/grade")
def grade(asked: GradeRequest) -> dict[str, str | float]:
    """Grade a finished episode, as the task that it was begun as."""
    episode = SESSIONS.find(asked.episode_id)
    if episode is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "no episode is kept under that id: reset with it first")
    if not episode.over:
        raise HTTPException(status.HTTP_409_CONFLICT, "the episode is not over: a grade before its end would tell")
    return {"task": episode.task, "grade": rubric.grade(episode.world)}


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=PORT)
    asked = parser.parse_args()
    uvicorn.run(app, host=asked.host, port=asked.port, log_level="warning")


if __name__ == "__main__":
    main()
