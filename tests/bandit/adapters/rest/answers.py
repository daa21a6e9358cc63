"""Read the transcoder's error answers, checking what every one of them must have."""

from typing import Any

import httpx


def error_of(answer: httpx.Response) -> dict[str, Any]:
    assert answer.headers["content-type"] == "application/json"
    error: dict[str, Any] = answer.json()["error"]
    assert error["code"] == answer.status_code
    return error


def reason_of(answer: httpx.Response) -> str:
    info = error_of(answer)["details"][0]
    assert info["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    assert info["domain"] == "kedge.dev"
    reason: str = info["reason"]
    return reason
