"""A tenant names who answers; what may be asked, run and known is the operator's."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kedge_bandit.adapters.holdout.connect import Connections
from kedge_bandit.application.answer_ports import AnswerFailed
from kedge_bandit.application.holdout_ports import AnswererKind, AnswererSettings
from kedge_bandit.domain.errors import InvalidValue

SECRET = bytes(32)


def connections(folder: Path) -> Connections:
    return Connections(secrets=folder / "secrets", scripts=folder / "scripts")


@pytest.mark.parametrize("name", ["../answers", "/bin/cat", "missing", "."])
async def test_a_program_outside_the_gates_folder_is_not_run(tmp_path: Path, name: str) -> None:
    settings = AnswererSettings(kind=AnswererKind.SCRIPT, address=name)
    with pytest.raises(AnswerFailed, match="no program"):
        async with connections(tmp_path).answerer(settings, SECRET):
            pass


@pytest.mark.parametrize(
    "address", ["http://169.254.169.254/v1", "http://db.internal:5432/v1", "https://evil.example/v1"]
)
def test_a_host_that_the_operator_did_not_name_is_not_asked(tmp_path: Path, address: str) -> None:
    settings = AnswererSettings(kind=AnswererKind.OPENAI, address=address)
    connect = connections(tmp_path)
    with pytest.raises(InvalidValue, match="KEDGE_GATE_HOSTS"):
        connect.check_settings(settings)
    replace(connect, hosts=("*",)).check_settings(settings)


def test_a_secret_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    settings = AnswererSettings(kind=AnswererKind.OPENAI, address="http://127.0.0.1:1/v1", secret_name="other")
    with pytest.raises(InvalidValue, match="folder of secrets"):
        connections(tmp_path).check_settings(settings)


@pytest.mark.parametrize(
    "fields",
    [
        {"address": ""},
        {"address": "ftp://x"},
        {"secret_name": "../key"},
        {"timeout_seconds": 0.0},
        {"timeout_seconds": math.inf},
        {"parallel": 65},
        {"usd_per_million_prompt_tokens": -1.0},
        {"kind": AnswererKind.REPORTED},
    ],
)
def test_what_could_never_answer_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        AnswererSettings(**({"kind": AnswererKind.OPENAI, "address": "http://127.0.0.1/v1"} | fields))
