"""Answer on the command line: a table for people, one JSON document for machines, one sentence for an error."""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import grpc
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from typer.core import TyperGroup

from kedge_bandit.adapters.grpc.status import reason_of
from kedge_bandit.domain.errors import KedgeError
from kedge_bandit.entrypoints.client import NoKey, SettingRefused, read_client_settings
from kedge_bandit.entrypoints.policy_file import FileRefused

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
Because = Annotated[str, typer.Option("--because", help="Why, for the audit log; 1 to 1,000 characters.")]
TenantName = Annotated[str, typer.Argument(metavar="TENANT", help="The tenant's own name, e.g. acme.")]
PolicyName = Annotated[str, typer.Argument(metavar="POLICY", help="The policy's own name, e.g. support.")]


_PIPE_WIDTH = 160
_LEAST_WIDTH = 12
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class FailedCheck(Exception):
    """Say that a check was made and did not hold; it is answered first, then the command ends with 1."""


def answer(document: object, show: Callable[[Console], None], *, as_json: bool) -> None:
    """Print the document, or show it to a person."""
    if as_json:
        sys.stdout.write(visible(json.dumps(document, ensure_ascii=False, allow_nan=False)) + "\n")
    else:
        show(InertConsole(width=None if sys.stdout.isatty() else _PIPE_WIDTH))


def visible(text: str) -> str:
    r"""Write characters that a terminal would obey, or that turn text around, as their escapes, which JSON reads too.

    >>> visible("a\x1b[2J\u202e")
    'a\\u001b[2J\\u202e'
    """
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class InertConsole(Console):
    """A console on which nobody else's text can move the cursor, change the title, hide a line or become a picture."""

    def __init__(self, **options: Any) -> None:
        super().__init__(emoji=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; texts with what a terminal would obey made visible."""
        super().print(*(visible(part) if isinstance(part, str) else part for part in objects), **options)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Make a table; numbers stand to the right."""
    made = Table(title=escape(visible(title)), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    cells = [list(row) for row in rows]
    for place, column in enumerate(columns):
        longest = max((len(_text(row[place])) for row in cells), default=0)
        numeric = bool(cells) and all(isinstance(row[place], int | float) for row in cells)
        made.add_column(
            column, justify="right" if numeric else "left", overflow="fold", min_width=min(longest, _LEAST_WIDTH)
        )
    for row in cells:
        made.add_row(*(escape(_text(value)) for value in row))
    return made


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return visible(str(value)).replace("\n", "\\n").replace("\t", "\\t")


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turn every expected failure into one sentence on standard error, and the exit code 1."""
    try:
        yield
    except grpc.RpcError as error:
        raise _ended(*_refusal(error)) from error
    except KedgeError as error:
        raise _ended(str(error), error.reason) from error
    except (NoKey, SettingRefused, FileRefused, FailedCheck) as error:
        raise _ended(str(error)) from error


def _refusal(error: Any) -> tuple[str, str]:
    reason = reason_of(error)
    if reason == "UNAVAILABLE":
        return _no_answer(error.details() or ""), reason
    if reason == "DEADLINE_EXCEEDED":
        return "the server did not answer in time: ask again", reason
    return error.details() or "the server gave no reason", reason


def _no_answer(details: str) -> str:
    """Say what to do where nothing answers; a port that takes connections and no calls is often one under TLS."""
    settings = read_client_settings()
    if "refused" in details:
        return f"no server answers at {settings.address}: start it with `kedge serve`, or set KEDGE_ADDRESS"
    tls = "unset KEDGE_CA if it is not under TLS" if settings.ca else "set KEDGE_CA if the server is under TLS"
    if settings.ca:
        tls += ", name the authority of its certificate if it is, and bring a certificate where it demands one"
    return f"no call goes through to {settings.address}: {tls}; or set KEDGE_ADDRESS, or start `kedge serve`"


def _ended(sentence: str, reason: str = "") -> typer.Exit:
    named = f" [dim]({reason})[/]" if reason else ""
    console = InertConsole(stderr=True, soft_wrap=True)
    console.print(f"[red]error:[/] {escape(sentence)}{named}", highlight=False)
    return typer.Exit(1)


class KedgeGroup(TyperGroup):
    """A group of commands whose failures are one sentence."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        with one_sentence():
            return super().invoke(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Find a command of the group; None where there is none of that name."""
        return with_plain_flags(super().get_command(ctx, cmd_name), ctx)

    def get_help_option(self, ctx: Any) -> Any:
        """Give --help."""
        return _plain(super().get_help_option(ctx))


def with_plain_flags(command: Any, ctx: Any) -> Any:
    """Leave the type out of a command's flags in its help: they take no value."""
    if command is not None and ctx is not None:
        for option in (*command.params, command.get_help_option(ctx)):
            _plain(option)
    return command


def _plain(option: Any) -> Any:
    if getattr(option, "is_flag", False):
        option.metavar = ""
    return option
