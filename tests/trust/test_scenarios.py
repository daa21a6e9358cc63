"""The adversarial scenarios keep their marks, and are the same bytes whoever plays them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from kedge_bandit.entrypoints.cli import app
from kedge_bandit.entrypoints.scenarios.marks import Mark
from kedge_bandit.entrypoints.scenarios.peers import PEERS, installed
from kedge_bandit.entrypoints.scenarios.play import play
from kedge_bandit.entrypoints.scenarios.stream import drawn, steady
from kedge_bandit.entrypoints.scenarios.suite import SCENARIOS, document, run
from tests.trust import size
from tests.trust.written import markdown, write_json

SEEDS = range(1, 1 + size.of(1, 10))
NINE = [
    "stationary", "abrupt-drift", "slow-drift", "cold-arm", "sparse", "delayed", "censored", "poisoned", "restart",
]  # fmt: skip


@pytest.mark.slow
def test_every_mark_is_kept() -> None:
    found = run(NINE, SEEDS, with_peers=size.IS_FULL)
    rows = [(each.scenario, row.name, f"{row.value:.4g}", row.bounds) for each in found for row in each.rows]
    print(markdown(("scenario", "figure", "value", "mark"), rows))
    write_json("scenarios", document(found, SEEDS))
    assert [each.scenario for each in found] == list(SCENARIOS) == NINE
    assert [(each.scenario, row) for each in found for row in each.rows if row.passes is False] == []


def printed(hash_seed: str) -> bytes:
    """Play one scenario in a process of its own."""
    kedge = str(Path(sys.executable).parent / "kedge")
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "TZ": f"UTC+{hash_seed}"}
    command = [kedge, "bench", "scenarios", "cold-arm", "--seeds", "1", "--seed", "7", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_in_another_process() -> None:
    one, other = printed("1"), printed("2")
    assert one == other
    assert json.loads(one)["scenarios"][0]["scenario"] == "cold-arm"


def test_a_world_is_its_seed() -> None:
    for scenario in SCENARIOS.values():
        one, again, other = (scenario.world(seed).digest for seed in (1, 1, 2))
        assert one == again != other
    assert len({scenario.world(1).digest for scenario in SCENARIOS.values()}) == len(NINE)


def test_a_mark_that_is_missed_is_said_to_be() -> None:
    found = [{"share": 0.5, "of": 2.0}, {"share": 0.7, "of": 2.0}]
    assert Mark(name="", of="share", at_least=0.61).judge(found).passes is False
    assert Mark(name="", of="share", at_most=0.6).judge(found).passes is True
    assert Mark(name="", of="share", at_most=0.6, worst=True).judge(found).passes is False
    assert Mark(name="", of="share", at_least=0.6, worst=True).judge(found).passes is False
    assert Mark(name="", of="share", over="of").judge(found).value == pytest.approx(0.3)
    assert Mark(name="", of="share", at_most=0.6).judge([{"share": np.nan}]).passes is False


@pytest.mark.parametrize("peer", PEERS)
def test_a_peer_learns_on_the_same_stream(peer: str) -> None:
    if peer not in installed():
        pytest.skip(f"{peer} is not installed: `make bench` installs it")
    stream, _ = drawn(1, "peers", steady(400, (0.1, 0.9)))
    assert play(stream, installed()[peer](1)).late_share > 0.8


def test_a_scenario_that_is_none_is_refused_with_those_that_are() -> None:
    done = CliRunner().invoke(app, ["bench", "scenarios", "nothing"])
    assert done.exit_code == 2
    assert "abrupt-drift" in done.output
