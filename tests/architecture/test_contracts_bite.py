"""Break each import contract on purpose, in a stand-in package, and demand that the linter reports that contract.

A contract that is never seen to fail may be misspelt and check nothing.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT

STAND_IN = [
    "kedge_bandit/__init__.py",
    "kedge_bandit/domain/__init__.py",
    "kedge_bandit/application/__init__.py",
    "kedge_bandit/adapters/__init__.py",
    "kedge_bandit/adapters/grpc/__init__.py",
    "kedge_bandit/adapters/rest/__init__.py",
    "kedge_bandit/adapters/postgres/__init__.py",
    "kedge_bandit/adapters/telemetry.py",
    "kedge_bandit/entrypoints/__init__.py",
    "kedge_client/__init__.py",
    "kedge_migrations/__init__.py",
    "kedge_trainer/__init__.py",
    "kedge_trainer/domain/__init__.py",
    "kedge_trainer/domain/held_out.py",
    "kedge_trainer/application/__init__.py",
    "kedge_trainer/adapters/__init__.py",
    "kedge_trainer/entrypoints/__init__.py",
    "relocation_env/__init__.py",
    "relocation_env/server/__init__.py",
    "relocation_env/watching.py",
    "fleet_oversight_env/__init__.py",
    "fleet_oversight_env/server/__init__.py",
    "call_audit_env/__init__.py",
    "call_audit_env/server/__init__.py",
    "brief_routing_env/__init__.py",
    "brief_routing_env/server/__init__.py",
]

BREAKS = [
    ("layers", "kedge_bandit/domain/reward.py", "import kedge_bandit.application"),
    ("layers", "kedge_bandit/application/decide.py", "import kedge_bandit.adapters"),
    ("layers", "kedge_bandit/adapters/postgres/ledger.py", "import kedge_bandit.entrypoints"),
    ("layers", "kedge_bandit/plugins/__init__.py", ""),
    ("adapters", "kedge_bandit/adapters/grpc/servicer.py", "import kedge_bandit.adapters.postgres"),
    ("adapters", "kedge_bandit/adapters/grpc/servicer.py", "import kedge_bandit.adapters.rest"),
    ("adapters", "kedge_bandit/adapters/redis.py", ""),
    ("rest-postgres", "kedge_bandit/adapters/rest/routes.py", "import kedge_bandit.adapters.postgres"),
    ("no-torch", "kedge_bandit/application/learn.py", "import torch"),
    ("no-torch", "kedge_migrations/tree.py", "import datasets.arrow"),
    ("migrations-alone", "kedge_migrations/tree.py", "import kedge_bandit.domain"),
    ("client-alone", "kedge_client/calls.py", "import kedge_bandit.domain"),
    ("client-alone", "kedge_client/calls.py", "import kedge_migrations"),
    ("bandit-inner", "kedge_bandit/adapters/postgres/tenants.py", "import kedge_migrations"),
    ("bandit-inner", "kedge_bandit/entrypoints/demo.py", "import kedge_client"),
    ("pure-domain", "kedge_bandit/domain/clock.py", "import time"),
    ("pure-domain", "kedge_bandit/domain/clock.py", "from google.protobuf import timestamp_pb2"),
    ("pure-domain", "kedge_bandit/domain/clock.py", "import logging.config"),
    ("layers", "kedge_trainer/domain/splits.py", "import kedge_trainer.adapters"),
    ("strangers", "kedge_trainer/adapters/environments.py", "import relocation_env"),
    ("strangers", "relocation_env/world.py", "import kedge_trainer.domain"),
    ("strangers", "relocation_env/world.py", "import fleet_oversight_env"),
    ("strangers", "kedge_bandit/adapters/grpc/runs.py", "import kedge_trainer.domain"),
    ("env-layers", "relocation_env/world.py", "import relocation_env.server"),
    ("env-layers", "relocation_env/ground.py", "import relocation_env.watching"),
    ("env-light", "relocation_env/ground.py", "import openenv"),
    ("env-light", "fleet_oversight_env/features.py", "import torch"),
    ("env-light", "kedge_trainer/adapters/openenv_client.py", "from openenv.core import EnvClient"),
    ("held-out", "kedge_trainer/application/collect_rollouts.py", "import kedge_trainer.domain.held_out"),
    ("held-out", "kedge_trainer/adapters/environments.py", "import kedge_trainer.domain.held_out"),
    ("trainer-pure-domain", "kedge_trainer/domain/splits.py", "import time"),
]


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """Lay out empty packages with the real names, and the real contracts beside them."""
    for name in STAND_IN:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_project_that_keeps_the_contracts_passes(stand_in: Path) -> None:
    (stand_in / "kedge_bandit/entrypoints/cli.py").write_text(
        "import kedge_migrations\nimport kedge_bandit.adapters.grpc\nimport kedge_bandit.domain\n"
    )
    (stand_in / "kedge_bandit/adapters/rest/status.py").write_text("import kedge_bandit.adapters.grpc\n")
    (stand_in / "relocation_env/server/environment.py").write_text("import openenv.core\nimport relocation_env\n")
    (stand_in / "kedge_trainer/application/evaluate.py").write_text("import kedge_trainer.domain.held_out\n")
    (stand_in / "kedge_bandit/adapters/postgres/pool.py").write_text("import kedge_bandit.adapters.telemetry\n")

    done = lint(stand_in)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("contract", "file", "line"), BREAKS)
def test_a_broken_contract_is_reported(stand_in: Path, contract: str, file: str, line: str) -> None:
    planted = stand_in / file
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.write_text(line + "\n")

    done = lint(stand_in, "--contract", contract)

    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 broken" in done.stdout
