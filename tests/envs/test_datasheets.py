"""Hold each environment's datasheet and manifest to its code."""

import re

import pytest

from kedge_trainer.adapters.environments import GROUNDS, load
from tests.architecture.tree import ROOT

HEADINGS = [
    "Purpose", "Actions", "Observations", "Rewards", "Start", "Episode end", "Tasks", "Baselines", "Versions",
]  # fmt: skip
FOLDER = ROOT / "services/rl-trainer/envs"
every_ground = pytest.mark.parametrize("name", GROUNDS)


def datasheet(name: str) -> str:
    return (FOLDER / name / "README.md").read_text(encoding="utf-8")


@every_ground
def test_a_datasheet_has_its_nine_headings_in_order(name: str) -> None:
    assert re.findall(r"^## (.+)$", datasheet(name), re.MULTILINE) == HEADINGS


@every_ground
def test_a_datasheet_names_every_task_policy_and_ceiling(name: str) -> None:
    ground, text = load(name), datasheet(name)
    named = set(re.findall(r"\w+", text))
    tasks = {task.partition("-")[0] for task in ground.TASKS}
    assert {*tasks, *ground.POLICIES} - named == set()
    assert re.search(rf"^\| {re.escape(ground.VERSION)} \|", text, re.MULTILINE), "the version has no line"


@every_ground
def test_a_manifest_says_what_the_code_does(name: str) -> None:
    ground = load(name)
    manifest = (FOLDER / name / "openenv.yaml").read_text(encoding="utf-8")
    said = dict(re.findall(r"^ *(\w+): (\S+)$", manifest, re.MULTILINE))
    assert (said["name"], said["version"], int(said["port"])) == (ground.NAME, ground.VERSION, ground.PORT)
    assert (int(said["train"]), int(said["dev"])) == (len(ground.SPLITS["train"]), len(ground.SPLITS["dev"]))
