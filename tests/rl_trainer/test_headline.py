"""Play an environment's headline again from the command line."""

import json
from importlib.resources import files
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kedge_trainer.adapters.environments import load
from kedge_trainer.application.headline import headline
from kedge_trainer.domain.errors import CannotWrite, NoHeadline
from kedge_trainer.entrypoints.cli import app

NAME = "brief_routing_env"
HARD = ("hard_brief", "expert_brief", "crisis_brief")
PUBLISHED = {"naive": (0.27, 0.32), "oracle": (0.88, 0.89)}


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["envs", "headline", *words], catch_exceptions=False)


def test_the_headline_is_a_table_and_three_files(tmp_path: Path) -> None:
    stem = tmp_path / "found/v1.0"
    done = run(NAME, "--seeds", "2", "--out", str(stem))
    assert done.exit_code == 0
    written = done.stdout.splitlines()[-1].removeprefix("written: ").split(", ")
    assert written == [f"{stem}.json", f"{stem}.png", f"{stem}.svg"]
    assert Path(written[1]).read_bytes().startswith(b"\x89PNG")
    assert "<svg" in Path(written[2]).read_text()
    cells = json.loads(Path(written[0]).read_text())["cells"]
    assert len(cells) == 3 * 3 * 2 * 2
    assert all(len(cell["grades"]) == 2 for cell in cells)
    assert all(f"{cell['mean']:.4f}" in done.stdout for cell in cells)


def test_the_shipped_headline_is_what_the_code_gives() -> None:
    shipped = json.loads((files(NAME) / "data" / "headline.json").read_text(encoding="utf-8"))
    grades = {(cell["task"], cell["policy"]): cell["grades"] for cell in shipped["cells"]}
    assert {len(found) for found in grades.values()} == {5}
    assert all(grades[one.task, one.policy][:1] == one.grades for one in headline(load(NAME), seeds=1))


@pytest.mark.parametrize("task", HARD)
def test_the_headline_reaches_the_published_one(task: str) -> None:
    """The published .27 is .2646 rounded twice; its trained network has .73 and .74."""
    shipped = json.loads((files(NAME) / "data" / "headline.json").read_text(encoding="utf-8"))
    means = {(cell["task"], cell["policy"]): cell["mean"] for cell in shipped["cells"]}
    for memory, place in (("", 0), ("-rag", 1)):
        name = f"{task}-compat{memory}"
        for policy, known in PUBLISHED.items():
            assert means[name, policy] == pytest.approx(known[place], abs=0.008)
        assert means[name, "trained"] >= (0.73, 0.74)[place]


def test_an_environment_without_a_headline_says_so() -> None:
    with pytest.raises(NoHeadline, match="use `evaluate`"):
        run("relocation_env")


def test_a_place_that_cannot_be_written_is_named() -> None:
    with pytest.raises(CannotWrite, match="/dev/null"):
        run(NAME, "--seeds", "1", "--out", "/dev/null/found")


def test_the_headline_can_be_one_json_document(tmp_path: Path) -> None:
    told = json.loads(run(NAME, "--seeds", "1", "--json", "--out", str(tmp_path / "found")).stdout)
    assert (told["environment"], told["split"]) == (NAME, "test")
