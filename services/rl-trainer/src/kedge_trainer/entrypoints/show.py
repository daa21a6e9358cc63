"""How the command line prints: tables for people, one JSON document for programs."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from math import isnan

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from kedge_trainer.application.evaluate import Evaluation
from kedge_trainer.domain.errors import TrainerError
from kedge_trainer.domain.interval import Interval

PIPE_WIDTH = 1_000
"""Columns where no terminal says how many there are: a table that is piped stays in one piece."""

out = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)
err = Console(stderr=True)


def print_json(value: object) -> None:
    """Print one JSON document."""
    sys.stdout.write(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def complain(failure: TrainerError) -> None:
    """Say what went wrong."""
    err.print(f"{failure.reason}: {failure}", markup=False, highlight=False, soft_wrap=True)


def print_rows(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table."""
    table = Table(*headings, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*row)
    out.print(table)


def print_evaluations(evaluations: Sequence[Evaluation]) -> None:
    """Print a line a metric and a column a policy: mean and 95 % interval."""
    first = evaluations[0]
    title = f"{first.environment} {first.version}, task {first.task}, {first.episodes} episodes of split {first.split}"
    out.print(title, highlight=False)
    print_rows(
        ["", *(one.policy for one in evaluations)],
        ([metric, *(interval_text(one.intervals[metric]) for one in evaluations)] for metric in first.intervals),
    )


def interval_text(found: Interval) -> str:
    """Write a mean with its interval.

    >>> interval_text(Interval(mean=0.5, low=0.4512, high=0.55, n=3))
    '0.500 (0.451 0.550)'
    """
    return "-" if isnan(found.mean) else f"{found.mean:.3f} ({found.low:.3f} {found.high:.3f})"


def with_progress(name: str, seeds: Iterable[int]) -> Iterator[int]:
    """Go through seeds under a progress bar on standard error; it is only drawn on a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        yield from progress.track(list(seeds), description=name)
