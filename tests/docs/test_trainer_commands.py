"""Hold the manual to the trainer's command line and the registry."""

import shlex
from collections.abc import Iterator
from typing import Any

import typer

from kedge_trainer.adapters.environments import GROUNDS
from kedge_trainer.entrypoints.cli import app
from tests.docs.pages import code, console_lines, rows, text_of

ENVS: Any = typer.main.get_command(app).get_command(None, "envs")  # type: ignore[attr-defined]


def options(command: Any) -> set[str]:
    given = {name for parameter in command.params for name in parameter.opts if name.startswith("--")}
    return given - {"--help"}


COMMANDS = {name: options(ENVS.get_command(None, name)) for name in ENVS.list_commands(None)}


def shown() -> Iterator[list[str]]:
    for _, line in console_lines():
        if "kedge-trainer" in line:
            words = shlex.split(line)
            yield words[words.index("kedge-trainer") + 1 :]


def test_every_command_has_its_row_with_every_option() -> None:
    written = {
        code(command)[0].split()[2]: {part for part in code(named) if part.startswith("--")}
        for command, _, named in rows("cli.md", "kedge-trainer")
    }
    assert written == COMMANDS


def test_a_command_that_the_manual_shows_exists_with_its_options() -> None:
    uses = list(shown())
    assert uses
    for group, name, *rest in uses:
        assert group == "envs"
        assert {word for word in rest if word.startswith("--")} <= COMMANDS[name]


def test_every_registered_environment_has_its_row() -> None:
    listed = [code(row[0])[0] for row in rows("environments.md", "Environments") if code(row[0])]
    assert set(GROUNDS) <= set(listed)
    assert all(f"envs/{name}/README.md" in text_of("environments.md") for name in GROUNDS)
