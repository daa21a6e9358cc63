"""Serve call audits: `server`, `python -m call_audit_env.server.app`, or uvicorn with this `app`."""

import argparse
import os

import uvicorn
from fastapi import FastAPI, HTTPException, status
from openenv.core.env_server.http_server import create_app

from call_audit_env.ground import NAME, PORT, TASKS
from call_audit_env.models import AuditAction, AuditObservation, AuditState, GradeRequest
from call_audit_env.server.environment import SESSIONS, CallAuditEnvironment
from call_audit_env.server.messages import ObjectsOnly, answer_refusals
from call_audit_env.server.sessions import MOST

MAX_SESSIONS = 256
EVALUATOR = "KEDGE_ENV_EVALUATOR"
"""Set to 1 for a server whose /grade also tells what was missed; an auditor's server is started without."""

app: FastAPI = create_app(
    CallAuditEnvironment,
    AuditAction,
    AuditObservation,
    env_name=NAME,
    max_concurrent_envs=MAX_SESSIONS,
    state_cls=AuditState,
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
def grade(asked: GradeRequest) -> dict[str, object]:
    """Grade a finished audit, as the task that it was begun as; to an evaluator also report what was missed."""
    episode = SESSIONS.find(asked.episode_id)
    if episode is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "no episode is kept under that id: reset with it first")
    if not episode.over:
        raise HTTPException(status.HTTP_409_CONFLICT, "the audit is not over: a grade before its end would tell")
    told: dict[str, object] = {"task": episode.task, "grade": episode.grade()}
    return told | ({"report": episode.graded_report()} if os.environ.get(EVALUATOR) == "1" else {})


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=PORT)
    asked = parser.parse_args()
    uvicorn.run(app, host=asked.host, port=asked.port, log_level="warning")


if __name__ == "__main__":
    main()
