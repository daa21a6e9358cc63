"""Follow every relative link between the project's documents."""

import re
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, project_files

DOCUMENTS = [path for path in project_files() if path.suffix == ".md"]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def anchors(document: Path) -> set[str]:
    """Derive the anchors that a renderer gives a document's headings."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def broken(path: Path, target: str) -> bool:
    file, _, anchor = target.partition("#")
    aim = (ROOT / path.parent / file).resolve() if file else ROOT / path
    if not aim.exists() or not aim.is_relative_to(ROOT):
        return True
    return bool(anchor) and aim.suffix == ".md" and anchor not in anchors(aim)


@pytest.mark.parametrize("path", DOCUMENTS, ids=str)
def test_every_link_between_documents_resolves(path: Path) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / path).read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = [target for target in LINK.findall(text) if not re.match(r"[a-z]+:", target)]
    assert [target for target in targets if broken(path, target)] == []
