"""`kedge import episodes`: take in what a platform already has."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from google.protobuf.json_format import ParseDict, ParseError
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from kedge.bandit.v1 import episode_service_pb2
from kedge_bandit.entrypoints.client import LONG_SECONDS, connected
from kedge_bandit.entrypoints.documents import document_of
from kedge_bandit.entrypoints.policy_file import FileRefused, first_line
from kedge_bandit.entrypoints.printing import JsonFlag, KedgeGroup, answer

imports = typer.Typer(cls=KedgeGroup, help="Take in what a platform already has.", no_args_is_help=True)


@imports.callback()
def imported() -> None:
    """Take in what a platform already has."""


@imports.command()
def episodes(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON Lines; each line one ImportEpisodesRequest.")],
    *,
    as_json: JsonFlag = False,
) -> None:
    """Import episodes for reference scales and coverage: not randomised, never learned from."""
    try:
        size = file.stat().st_size
    except OSError as error:
        raise FileRefused(f"{file} cannot be read: {error}") from error
    with connected() as client, Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("importing", total=size)

        def requests() -> Iterator[episode_service_pb2.ImportEpisodesRequest]:
            for line, request in _requests(file):
                progress.advance(task, line)
                yield request

        # A stream of requests swallows what its iterator raises, so the file is read through once before.
        for _ in _requests(file):
            pass
        found = client.call(client.episodes.ImportEpisodes, requests(), seconds=LONG_SECONDS)

    def show(out: Console) -> None:
        out.print(f"{found.imported} episodes imported, {found.duplicates} were there already")
        for refusal in found.refusals:
            out.print(f"[yellow]refused:[/] {escape(refusal)}", highlight=False)

    answer(document_of(found), show, as_json=as_json)


def _requests(file: Path) -> Iterator[tuple[int, episode_service_pb2.ImportEpisodesRequest]]:
    """Read a file's lines with their length in bytes. Raises FileRefused with the number of the bad line."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield len(line), ParseDict(json.loads(line), episode_service_pb2.ImportEpisodesRequest())
            except (ValueError, ParseError) as error:
                raise FileRefused(f"{file}, line {number}: {first_line(error)}") from error
