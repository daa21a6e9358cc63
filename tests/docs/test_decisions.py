"""Hold the decision records to their form: one screen, a quotable decision, an enforcer, a line in the index."""

import re
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT

FOLDER = ROOT / "docs/adr"
RECORDS = sorted(FOLDER.glob("[0-9]*.md"))
SECTIONS = ["Context", "Decision", "Consequences", "Enforced by"]


def section(text: str, name: str) -> str:
    found = re.search(rf"^## {name}\n\n(.*?)(?=\n## |\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def test_the_index_lists_every_record_with_its_title_and_no_other() -> None:
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[(\d{4})\]\((\S+)\) \| (.+) \|$", index, re.MULTILINE)
    actual = [(path.name[:4], path.name, path.read_text(encoding="utf-8").splitlines()[0][7:]) for path in RECORDS]
    assert listed == actual


def test_numbers_follow_each_other() -> None:
    assert [int(path.name[:4]) for path in RECORDS] == list(range(1, len(RECORDS) + 1))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_fits_one_screen_and_has_its_sections(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    assert text.startswith(f"# {path.name[:4]} ")
    assert re.search(r"^Status: (proposed|accepted, \d{4}-\d\d-\d\d|superseded by \d{4})$", text, re.MULTILINE)
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
    assert [name for name in SECTIONS if not section(text, name)] == []


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_decision_fits_in_two_sentences(path: Path) -> None:
    decision = section(path.read_text(encoding="utf-8"), "Decision")
    assert 1 <= len(re.findall(r"[.!?](?:\s|$)", decision)) <= 2


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_test_that_a_record_names_exists(path: Path) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)`", path.read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / name).is_file()] == []
