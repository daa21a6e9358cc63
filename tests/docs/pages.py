"""Read the manual as data: headings, tables and blocks of code."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.tree import ROOT, project_files

MANUAL = tuple(
    path
    for path in project_files()
    if path.suffix == ".md" and (path == Path("README.md") or path.parent == Path("docs"))
)
"""README and the pages of docs/; decision records are judged elsewhere."""

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def text_of(page: str | Path) -> str:
    """Read a page by its name under docs/, or by its path from the root."""
    path = ROOT / page if isinstance(page, Path) else ROOT / "docs" / page
    return path.read_text(encoding="utf-8")


def blocks(page: str | Path, language: str) -> list[str]:
    """Give the blocks of a page that are marked with a language."""
    return [body for marked, body in _FENCE.findall(text_of(page)) if marked == language]


def section(page: str, heading: str) -> str:
    """Give what stands under a heading, with its deeper headings."""
    lines = iter(_without_blocks(text_of(page)).splitlines())
    level = next((len(line) - len(line.lstrip("#")) for line in lines if line.lstrip("#").strip() == heading), 0)
    assert level, f"{page} has no heading {heading!r}"
    return "\n".join(_until_heading(lines, level))


def rows(page: str, heading: str) -> list[list[str]]:
    """Give the cells of every table row under a heading, headers and rulers left out."""
    found: list[list[str]] = []
    lines = section(page, heading).splitlines()
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if line.startswith("|") and not _is_ruler(line) and not _is_ruler(following):
            found.append([cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")])
    return found


def code(cell: str) -> list[str]:
    """Give what a cell spells as code."""
    return re.findall(r"`([^`]+)`", cell)


def console_lines() -> Iterator[tuple[Path, str]]:
    """Give every command that the manual shows, with its page."""
    for page in MANUAL:
        for block in blocks(page, "console"):
            yield from ((page, line[2:]) for line in block.splitlines() if line.startswith("$ "))


def _without_blocks(text: str) -> str:
    return _FENCE.sub("", text)


def _until_heading(lines: Iterator[str], level: int) -> Iterator[str]:
    for line in lines:
        marks = len(line) - len(line.lstrip("#"))
        if 0 < marks <= level and line[marks : marks + 1] == " ":
            return
        yield line


def _is_ruler(line: str) -> bool:
    return bool(re.fullmatch(r"\|[-| ]+\|", line))
