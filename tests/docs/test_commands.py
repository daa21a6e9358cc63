"""Hold the manual to the command line: every command and option is named, and every command shown exists."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from kedge_bandit.entrypoints.cli import app
from tests.docs.pages import code, console_lines, rows, section

ROOT_COMMAND: Any = typer.main.get_command(app)


def commands(group: Any = ROOT_COMMAND, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Walk to every command that does something."""
    for name in group.list_commands(None):
        found = group.get_command(None, name)
        if hasattr(found, "list_commands"):
            yield from commands(found, (*path, name))
        else:
            yield " ".join((*path, name)), found


COMMANDS = dict(commands())


def options(command: Any) -> set[str]:
    given = {name for parameter in command.params for name in parameter.opts if name.startswith("--")}
    return given - {"--help"}


def shown() -> list[tuple[Path, str]]:
    """Give every use of `kedge` in the manual's console blocks."""
    use = re.compile(r"(?:^|\()(kedge [a-z][^)|]*)")
    return [(page, found) for page, line in console_lines() for found in use.findall(line)]


def test_every_command_has_its_row_with_every_option() -> None:
    written = {}
    for command, _, named in (row for row in rows("cli.md", "Command line") if row[0].startswith("`kedge ")):
        words = [word for word in code(command)[0].split()[1:] if word.replace("-", "").isalpha() and word.islower()]
        written[" ".join(words)] = {part.split()[0] for part in code(named) if part.startswith("--")}
    assert written == {name: options(command) for name, command in COMMANDS.items()}


@pytest.mark.parametrize(("page", "use"), shown(), ids=lambda part: str(part)[:60])
def test_a_command_that_the_manual_shows_exists(page: Path, use: str) -> None:
    words = shlex.split(use)[1:]
    name = next((" ".join(words[:size]) for size in (2, 1) if " ".join(words[:size]) in COMMANDS), None)
    assert name is not None, f"{page}: {use}"
    given = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert given <= options(COMMANDS[name])


def test_the_runbooks_name_files_of_the_data_folder_from_anywhere() -> None:
    words = [word for page, use in shown() if page.name == "runbooks.md" for word in shlex.split(use)]
    files = [word for word in words if word.endswith(("audit_anchors.jsonl", "anchor.pub"))]
    assert len(files) == 3
    assert all(word.startswith("${KEDGE_DATA_DIR:-build/kedge}/") for word in files)


def test_the_quickstart_says_how_the_program_follows_another_port() -> None:
    start = section("quickstart.md", "1. Install and start")
    assert "`KEDGE_ADDRESS`" in start.partition("If a port is taken")[2]
