"""Build each environment's wheel, unpack it alone, and import everything: light, complete, and on nobody of ours."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kedge_trainer.adapters.environments import GROUNDS
from tests.architecture.tree import ROOT, project_files

IMPORT_EVERYTHING = """
import importlib, json, pkgutil, sys
name = sys.argv[1]
package = importlib.import_module(name)
for found in pkgutil.walk_packages(package.__path__, name + "."):
    if not found.name.startswith(f"{name}.server."):
        importlib.import_module(found.name)
print(json.dumps({"file": package.__file__, "modules": sorted({one.partition(".")[0] for one in sys.modules})}))
"""
HEAVY = {
    "openenv",
    "torch",
    "fastapi",
    "gradio",
    "pandas",
    "matplotlib",
    "transformers",
    "kedge_trainer",
    "kedge_bandit",
}


@pytest.mark.parametrize("name", GROUNDS)
def test_the_wheel_of_an_environment_is_whole_and_light(name: str, tmp_path: Path) -> None:
    folder = ROOT / "services/rl-trainer/envs" / name
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path / "dist")]
    subprocess.run(build, cwd=folder, check=True, capture_output=True)
    [wheel] = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "alone")
        inside = set(packed.namelist())
    wanted = {
        f"{name}/{path.relative_to(folder.relative_to(ROOT))}"
        for path in project_files()
        if path.is_relative_to(folder.relative_to(ROOT)) and path.name not in {"pyproject.toml", "Dockerfile"}
    }
    assert wanted - inside == set()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORT_EVERYTHING, name],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "alone")},
        check=True,
        capture_output=True,
        text=True,
    )
    found = json.loads(done.stdout)
    assert Path(found["file"]).is_relative_to(tmp_path)
    assert HEAVY & set(found["modules"]) == set()
    others = set(GROUNDS) - {name}
    assert others & set(found["modules"]) == set()
