"""Keep the glossary usable: one word per idea, none forbidden by another line."""

import re
from collections import Counter

from tests.architecture.tree import ROOT

ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs/glossary.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("|") and not re.match(r"\|[-| ]+\|$", line)
][1:]


def test_every_row_has_its_four_cells() -> None:
    assert [row[0] for row in ROWS if len(row) != 4 or not row[0] or not row[1]] == []


def test_a_term_is_explained_once() -> None:
    assert [term for term, times in Counter(row[0] for row in ROWS).items() if times > 1] == []
