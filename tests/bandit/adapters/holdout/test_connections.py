"""A tenant names who answers; what may be asked, run and known is the operator's."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kedge_bandit.adapters.holdout.connect import LOOPBACK, Connections
from kedge_bandit.application.answer_ports import AnswerFailed
from kedge_bandit.application.holdout_ports import AnswererKind, AnswererSettings
from kedge_bandit.domain.errors import InvalidValue
from kedge_bandit.domain.identifiers import TenantId

SECRET = bytes(32)
ACME, GLOBEX = TenantId("acme"), TenantId("globex")


def connections(folder: Path) -> Connections:
    return Connections(secrets=folder / "secrets", scripts=folder / "scripts", hosts=LOOPBACK)


@pytest.mark.parametrize("name", ["../answers", "/bin/cat", "missing", "."])
async def test_a_program_outside_the_gates_folder_is_not_run(tmp_path: Path, name: str) -> None:
    settings = AnswererSettings(kind=AnswererKind.SCRIPT, address=name)
    with pytest.raises(AnswerFailed, match="no program"):
        async with connections(tmp_path).answerer(ACME, settings, SECRET):
            pass


@pytest.mark.parametrize(
    "address", ["http://169.254.169.254/v1", "http://db.internal:5432/v1", "https://evil.example/v1"]
)
def test_a_host_that_the_operator_did_not_name_is_not_asked(tmp_path: Path, address: str) -> None:
    settings = AnswererSettings(kind=AnswererKind.OPENAI, address=address)
    connect = connections(tmp_path)
    with pytest.raises(InvalidValue, match="KEDGE_GATE_HOSTS"):
        connect.check_settings(ACME, settings)
    replace(connect, hosts=("*",)).check_settings(ACME, settings)


@pytest.mark.parametrize("kind", [AnswererKind.OPENAI, AnswererKind.CORE_APP])
def test_this_machine_is_not_asked_unless_it_is_named(tmp_path: Path, kind: AnswererKind) -> None:
    address = "http://localhost:5432/v1" if kind is AnswererKind.OPENAI else "localhost:5432"
    with pytest.raises(InvalidValue, match="KEDGE_GATE_HOSTS"):
        replace(connections(tmp_path), hosts=()).check_settings(ACME, AnswererSettings(kind=kind, address=address))


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1@evil.example/v1",
        "http://127.0.0.1:x@evil.example/v1",
        "http://evil.example#@127.0.0.1/v1",
        "http://127.0.0.1\\@evil.example/v1",
        "http:///v1",
    ],
)
def test_the_host_that_is_checked_is_the_one_that_is_dialled(tmp_path: Path, address: str) -> None:
    with pytest.raises(InvalidValue):
        connections(tmp_path).check_settings(ACME, AnswererSettings(kind=AnswererKind.OPENAI, address=address))


@pytest.mark.parametrize(
    "address",
    [
        "dns://127.0.0.1:53/192.0.2.2:52098",
        "dns:///127.0.0.1:1",
        "unix:/run/kedge.sock",
        "unix:///run/kedge.sock",
        "ipv4:127.0.0.1:1,192.0.2.2:1",
        "xds:///service",
        "tls://127.0.0.1:1/192.0.2.2:1",
        "127.0.0.1:1,192.0.2.2:1",
        "127.0.0.1",
        "127.0.0.1:0",
        "127.0.0.1:65536",
        "127.0.0.1:1\n",
        "user@127.0.0.1:1",
    ],
)
def test_a_core_application_is_named_by_host_and_port_alone(address: str) -> None:
    with pytest.raises(InvalidValue, match="host:port"):
        AnswererSettings(kind=AnswererKind.CORE_APP, address=address)


def test_a_secret_is_its_tenants_own_and_nobody_learns_of_anothers(tmp_path: Path) -> None:
    (tmp_path / "secrets" / "globex").mkdir(parents=True)
    (tmp_path / "secrets" / "globex" / "models").write_text("sk-globex", encoding="utf-8")
    settings = AnswererSettings(kind=AnswererKind.OPENAI, address="http://127.0.0.1:1/v1", secret_name="models")
    connect, told = connections(tmp_path), []
    connect.check_settings(GLOBEX, settings)
    for name in ("models", "nobody-has-it"):
        with pytest.raises(InvalidValue) as refused:
            connect.check_settings(ACME, replace(settings, secret_name=name))
        told.append(str(refused.value).replace(name, ""))
    assert told[0] == told[1]


def test_a_secret_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    settings = AnswererSettings(kind=AnswererKind.OPENAI, address="http://127.0.0.1:1/v1", secret_name="other")
    with pytest.raises(InvalidValue, match="folder of the gate's secrets"):
        connections(tmp_path).check_settings(ACME, settings)


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
