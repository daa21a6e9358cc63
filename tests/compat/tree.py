"""Lay a revision out as it was: its sources, its own stubs, its own Java client."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.tree import ROOT
from tests.java import maven

SOURCES = ("services/bandit/src", "proto/gen", "proto/clients/python/src", "migrations", "deploy/demo/src")
PACKAGES = ("kedge_bandit", "kedge.bandit.v1.decision_pb2", "kedge_client", "kedge_migrations")
JAVA = "proto/clients/java"


@dataclass(frozen=True, slots=True)
class Tree:
    """One revision in a folder of its own.

    Attributes:
        revision: as it was asked for.
        classpath: of its Java client; empty where it has none, or this machine cannot build it.
    """

    revision: str
    commit: str
    folder: Path
    classpath: str

    @property
    def path(self) -> str:
        """What PYTHONPATH has to be for its code to run, before what this environment has installed."""
        return os.pathsep.join(str(self.folder / source) for source in SOURCES)

    @property
    def settings(self) -> dict[str, str]:
        """What its server is started with; one that does not know the gate refuses to hear of it."""
        known = (self.folder / "services/bandit/src/kedge_bandit/entrypoints/settings.py").read_text(encoding="utf-8")
        return {"PYTHONPATH": self.path} | ({} if "gate_port" in known else {"KEDGE_GATE_PORT": ""})


def lay_out(revision: str, folder: Path) -> Tree:
    """Take a revision out of Git and generate its stubs; the libraries are today's.

    Raises:
        SystemExit: this clone does not have the revision.
        CalledProcessError: something of it does not build.
    """
    found = subprocess.run(
        ["git", "rev-parse", "--verify", "--short", f"{revision}^{{commit}}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        raise SystemExit(f"this clone does not have {revision}: git fetch --tags --unshallow")
    folder.mkdir(mode=0o755)
    with subprocess.Popen(["git", "archive", revision], cwd=ROOT, stdout=subprocess.PIPE) as archive:
        subprocess.run(["tar", "-x", "-C", str(folder)], stdin=archive.stdout, check=True)
    subprocess.run([sys.executable, "proto/generate.py"], cwd=folder, check=True)
    tree = Tree(revision, found.stdout.strip(), folder, _java(folder))
    _check_origin(tree)
    return tree


def _check_origin(tree: Tree) -> None:
    """Make sure that its own code runs, and not what this environment has installed."""
    program = f"import {', '.join(PACKAGES)}\nfor it in ({', '.join(PACKAGES)}): print(it.__file__)"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": tree.path},
        capture_output=True,
        text=True,
        check=True,
    )
    strangers = [file for file in ran.stdout.splitlines() if not file.startswith(f"{tree.folder}/")]
    if strangers:
        raise AssertionError(f"{tree.revision} would run code of another revision: {strangers}")


def _java(folder: Path) -> str:
    if not (folder / JAVA / "pom.xml").is_file() or maven.missing():
        return ""
    command = maven.command("-f", f"{JAVA}/pom.xml", "process-classes")
    subprocess.run(command, cwd=folder, stdout=sys.stderr, check=True)
    return (folder / "build/java/classpath").read_text(encoding="utf-8").strip()
