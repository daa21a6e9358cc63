"""Install the bandit's wheels into an empty environment and import everything, as a user would get it.

An editable install hides a missing dependency, a forgotten data file and a heavy import; a wheel hides none of them.
"""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, project_files

MEMBERS = ["proto", "migrations", "services/bandit"]
UV = str(Path(sys.executable).parent / "uv")

IMPORT_EVERYTHING = """
import importlib, json, pkgutil, sys
loaded = []
for top in ("kedge_bandit", "kedge_migrations", "kedge.bandit.v1"):
    package = importlib.import_module(top)
    for found in pkgutil.walk_packages(package.__path__, top + "."):
        if found.name.rpartition(".")[2] in ("env", "__main__") or ".versions." in found.name:
            continue  # scripts: the first is run by alembic alone, and so are its revisions
        importlib.import_module(found.name)
        loaded.append(found.name)
print(json.dumps({"loaded": loaded, "all": sorted(sys.modules)}))
"""


def run(*command: str, cwd: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Build one wheel per member with the pinned build backend."""
    folder = tmp_path_factory.mktemp("wheels")
    for member in MEMBERS:
        run(
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "--target",
            "wheel",
            "--directory",
            str(folder),
            cwd=ROOT / member,
        )
    return sorted(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def empty_environment(tmp_path_factory: pytest.TempPathFactory, wheels: list[Path]) -> str:
    """Make an environment that holds the bandit's lock and the wheels, nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", str(folder))
    python = str(folder / "bin" / "python")
    run(
        UV,
        "--system-certs",
        "pip",
        "sync",
        "--quiet",
        "--python",
        python,
        "--require-hashes",
        "requirements/bandit.lock",
    )
    run(UV, "pip", "install", "--quiet", "--python", python, "--no-deps", "--no-index", *map(str, wheels))
    return python


@pytest.mark.slow
def test_every_module_of_the_wheels_imports_without_a_training_stack(empty_environment: str) -> None:
    found = json.loads(
        run(empty_environment, "-I", "-W", "error", "-c", IMPORT_EVERYTHING, cwd=Path(empty_environment).parent)
    )

    heavy = {"torch", "transformers", "trl", "peft", "datasets", "scipy.stats", "pandas", "matplotlib"}
    assert heavy & set(found["all"]) == set()
    assert {name.split(".")[0] for name in found["loaded"]} == {"kedge", "kedge_bandit", "kedge_migrations"}


@pytest.mark.slow
def test_the_command_line_starts_from_the_wheel(empty_environment: str) -> None:
    assert "Usage" in run(str(Path(empty_environment).parent / "kedge"), "--help")


@pytest.mark.slow
def test_every_file_of_the_migrations_is_in_their_wheel(wheels: list[Path]) -> None:
    [wheel] = [path for path in wheels if path.name.startswith("kedge_migrations")]
    packed = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        str(path.relative_to("migrations"))
        for path in project_files()
        if path.is_relative_to("migrations/kedge_migrations")
    }
    assert wanted - packed == set()
