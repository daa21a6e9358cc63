"""`kedge up` and `kedge down`: everything to look at comes up by one command, and goes by one."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from kedge_bandit.entrypoints.supervisor import has_leftovers
from tests.fixtures.database import open_folder
from tests.fixtures.stack import free_port, free_ports, wait_for

pytestmark = pytest.mark.slow

KEDGE = Path(sys.executable).parent / "kedge"
PORTS = ("PORT", "WEB_PORT", "CONSOLE_PORT", "GATE_PORT")
SECONDS = 300.0


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with open_folder() as made:
        yield made


@pytest.fixture(scope="module")
def environment(folder: Path) -> dict[str, str]:
    ports = {f"KEDGE_{name}": str(free_port()) for name in PORTS}
    off = {f"KEDGE_{name}_METRICS_PORT": "0" for name in ("WORKER", "GATE")}
    data = {"KEDGE_DATA_DIR": str(folder / "up" / "data"), "KEDGE_ADDRESS": f"127.0.0.1:{ports['KEDGE_PORT']}"}
    gym = {"KEDGE_GYM_URL": f"http://127.0.0.1:{free_ports(5)}"}
    return {"PATH": os.environ["PATH"], "KEDGE_METRICS_PORT": "0", **ports, **off, **data, **gym}


def kedge(environment: dict[str, str], *arguments: str) -> str:
    ended = subprocess.run(
        [KEDGE, *arguments], env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def settled(environment: dict[str, str], tenant: str) -> int:
    [status] = json.loads(kedge(environment, "status", tenant, "--json"))
    return int(status["episode_counts"].get("SETTLED", 0))


def has_both_waiting(environment: dict[str, str]) -> bool:
    """Look for a floor and a prompt; the gate needs a moment for the prompt's verdict."""
    proposals = json.loads(kedge(environment, "proposal", "list", "c-prompting", "--json"))
    return [proposal["state"] for proposal in proposals] == ["AWAITING_APPROVAL", "AWAITING_APPROVAL"]


def plays(gym: str) -> bool:
    try:
        return len(httpx.get(f"{gym}/environments", timeout=10).json()) == 4
    except httpx.TransportError:
        return False


def test_everything_comes_up_by_one_command_and_goes_by_one(folder: Path, environment: dict[str, str]) -> None:
    out, said = folder / "up", folder / "said.txt"
    command = [str(KEDGE), "up", "--out", str(out), "--per-second", "20"]
    with said.open("wb") as stderr, subprocess.Popen(command, env=environment, stderr=stderr) as up:
        try:
            wait_for(lambda: up.poll() is not None or "Each link" in said.read_text(), "it to come up", SECONDS)
            assert up.poll() is None, said.read_text()

            wait_for(lambda: has_both_waiting(environment), "what waits in c-prompting", SECONDS)
            frozen = json.loads(kedge(environment, "mode", "a-routing", "model-route", "--json"))
            assert frozen["effective_mode"] == "FROZEN"
            wait_for(lambda: settled(environment, "c-prompting") > 0, "traffic to be learned from", SECONDS)
            links = re.findall(r"http://\S+/login/link/\S+", said.read_text())
            assert len(set(links)) == 3
            assert all(httpx.get(link, follow_redirects=True).status_code == 200 for link in links[:1])
            assert httpx.get(f"http://127.0.0.1:{environment['KEDGE_WEB_PORT']}/readyz").status_code == 200

            wait_for(lambda: plays(environment["KEDGE_GYM_URL"]), "the Gym to serve its environments", SECONDS)

            kedge(environment, "down", "--out", str(out))
            assert up.wait(SECONDS) == 0
        finally:
            up.terminate()
    assert not plays(environment["KEDGE_GYM_URL"])
    assert not has_leftovers(out / "data" / "run")
    again = subprocess.run([KEDGE, "down", "--out", str(out)], capture_output=True, text=True, check=False)
    assert (again.returncode, "nothing is up" in again.stderr) == (1, True)
