"""Check that what gets installed is pinned by hash, without addresses, and is what the members ask for."""

import re
import tomllib
from itertools import chain

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.architecture.tree import ROOT, project_files

LOCKS = sorted(path.name for path in (ROOT / "requirements").glob("*.lock"))
MEMBERS = [path for path in project_files() if path.name == "pyproject.toml" and len(path.parts) > 1]
TRAINING_STACK = {"torch", "transformers", "trl", "peft", "datasets"}


def pins(lock: str) -> dict[str, Version]:
    text = (ROOT / "requirements" / lock).read_text(encoding="utf-8")
    return {
        canonicalize_name(name): Version(version)
        for name, version in re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE)
    }


def asked(member: str) -> list[Requirement]:
    project = tomllib.loads((ROOT / member / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = chain.from_iterable(
        lines for extra, lines in project.get("optional-dependencies", {}).items() if extra != "server"
    )
    return [Requirement(line) for line in chain(project["dependencies"], extras)]


def test_the_locks_are_there() -> None:
    assert LOCKS == [
        "bandit.lock", "bench-source.lock", "bench.lock", "bootstrap.lock", "dev.lock", "envs.lock", "model.lock",
    ]  # fmt: skip


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_hashes_and_no_address(lock: str) -> None:
    text = (ROOT / "requirements" / lock).read_text(encoding="utf-8")
    entries = [entry for entry in re.split(r"\n(?=\S)", text) if not entry.startswith("#")]
    assert entries
    assert [entry.splitlines()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert re.findall(r"\w+://|file:|--index|--find-links|^-e|@ ", text, re.MULTILINE) == []


@pytest.mark.parametrize("member", [str(path.parent) for path in MEMBERS])
def test_the_development_lock_satisfies_each_member(member: str) -> None:
    found = pins("dev.lock")
    unmet = [
        str(requirement)
        for requirement in asked(member)
        if not requirement.name.startswith("kedge-")
        and not (
            (version := found.get(canonicalize_name(requirement.name)))
            and requirement.specifier.contains(version, prereleases=True)
        )
    ]
    assert unmet == [], "run `make lock`"


def test_the_servers_of_the_environments_have_a_lock_of_their_own_and_development_has_no_openenv() -> None:
    found = pins("envs.lock")
    servers = [
        Requirement(line)
        for path in MEMBERS
        for line in tomllib.loads((ROOT / path).read_text(encoding="utf-8"))["project"]
        .get("optional-dependencies", {})
        .get("server", [])
    ]
    assert {requirement.name for requirement in servers} >= {"openenv", "uvicorn"}
    assert [str(one) for one in servers if not one.specifier.contains(found[canonicalize_name(one.name)])] == []
    assert "openenv" not in pins("dev.lock")


def test_development_runs_on_exactly_what_the_bandit_ships_with() -> None:
    development = pins("dev.lock")
    assert {name: version for name, version in pins("bandit.lock").items() if development.get(name) != version} == {}


def test_the_peers_of_the_benches_bring_no_other_version_of_what_development_runs_on() -> None:
    development = pins("dev.lock")
    assert {n: v for n, v in pins("bench.lock").items() if n in development and development[n] != v} == {}


def test_only_benches_install_the_peers() -> None:
    peers = {"vowpalwabbit", "mabwiser", "contextualbandits"}
    assert peers <= set(pins("bench.lock")) | set(pins("bench-source.lock"))
    assert peers & (set(pins("dev.lock")) | set(pins("bandit.lock"))) == set()


def test_the_bandit_has_no_training_stack_in_its_lock() -> None:
    assert TRAINING_STACK & set(pins("bandit.lock")) == set()


def test_all_members_carry_one_version_and_one_licence() -> None:
    projects = [tomllib.loads((ROOT / path).read_text(encoding="utf-8"))["project"] for path in MEMBERS]
    assert {project["version"] for project in projects} == {"0.1.0"}
    assert {project["license"] for project in projects} == {"Apache-2.0"}


def test_no_lock_with_addresses_is_committed() -> None:
    assert [str(path) for path in project_files() if path.name == "uv.lock"] == []
