"""Hold the promise that each flow can be read in five files, in the order that docs/reading-paths.toml gives."""

import tomllib
from pathlib import PurePosixPath

import pytest

from tests.architecture.tree import ROOT

LISTS = tomllib.loads((ROOT / "docs/reading-paths.toml").read_text(encoding="utf-8"))
FLOWS: dict[str, dict[str, list[str]]] = LISTS["flow"]


def located(name: str) -> str:
    """Resolve a listed file: relative to the bandit, or from the root when it starts with a slash."""
    return name.removeprefix("/") if name.startswith("/") else str(PurePosixPath(LISTS["root"]) / name)


def missing(flow: str) -> list[str]:
    return [located(name) for name in FLOWS[flow]["files"] if not (ROOT / located(name)).is_file()]


def test_the_four_flows_are_listed() -> None:
    assert list(FLOWS) == ["decide", "learn", "govern", "improve"]


@pytest.mark.parametrize("flow", FLOWS)
def test_a_flow_is_read_in_at_most_five_files(flow: str) -> None:
    assert 1 <= len(FLOWS[flow]["files"]) <= 5
    assert len(set(FLOWS[flow]["files"])) == len(FLOWS[flow]["files"])


@pytest.mark.parametrize("flow", [name for name, entry in FLOWS.items() if "arrives" not in entry])
def test_every_file_of_a_present_flow_exists(flow: str) -> None:
    assert missing(flow) == []


@pytest.mark.parametrize("flow", [name for name, entry in FLOWS.items() if "arrives" in entry])
def test_a_flow_that_is_said_to_arrive_later_is_not_here_yet(flow: str) -> None:
    assert missing(flow), f"all files of {flow} exist: drop its `arrives` line"


@pytest.mark.parametrize("flow", FLOWS)
def test_the_readme_tells_the_same_sentence(flow: str) -> None:
    sentence = FLOWS[flow]["sentence"]
    assert f"| **{flow}** | {sentence} |" in (ROOT / "README.md").read_text(encoding="utf-8")
