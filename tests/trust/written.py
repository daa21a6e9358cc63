"""Write what a trust test saw: JSON beside the other reports, and Markdown between the markers of a page."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.architecture.tree import ROOT

FOLDER = ROOT / "build" / "trust"


def write_json(name: str, found: Mapping[str, Any]) -> Path:
    """Write build/trust/<name>.json."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.json"
    path.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return path


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out a table.

    >>> print(markdown(["fault", "lost"], [["kill", "0"]]))
    | fault | lost |
    |---|---|
    | kill | 0 |
    """
    lines = [list(columns), *(list(row) for row in rows)]
    laid = [f"| {' | '.join(cells)} |" for cells in lines]
    return "\n".join([laid[0], "|" + "---|" * len(columns), *laid[1:]])


def put_table(page: str, marker: str, table: str) -> None:
    """Put a table into a page under docs/."""
    path = ROOT / "docs" / page
    path.write_text(put_between(path.read_text(encoding="utf-8"), marker, table), encoding="utf-8")


def put_between(page: str, marker: str, text: str) -> str:
    """Replace what stands between a page's two markers; they have to be there.

    >>> put_between("a <!-- t begin --> old <!-- t end --> b", "t", "new")
    'a <!-- t begin -->\\nnew\\n<!-- t end --> b'
    """
    begin, end = f"<!-- {marker} begin -->", f"<!-- {marker} end -->"
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    assert found, f"the page has no {begin} … {end}"
    return f"{before}{begin}\n{text}\n{end}{after}"
