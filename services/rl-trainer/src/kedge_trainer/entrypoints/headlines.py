"""`kedge-trainer envs headline`: the table that an environment is known by, measured again."""

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from kedge_trainer.adapters.environments import load
from kedge_trainer.adapters.reports import headline_as_json, write_document
from kedge_trainer.application.headline import SEEDS, Cell, headline
from kedge_trainer.application.ports import Ground
from kedge_trainer.domain.errors import CannotWrite, NotInstalled
from kedge_trainer.entrypoints import show

RESULTS = Path("build/envs-results")


def figures() -> ModuleType:
    """Load what draws.

    Raises:
        NotInstalled: matplotlib is missing.
    """
    try:
        return import_module("kedge_trainer.adapters.figures")
    except ModuleNotFoundError as missing:
        raise NotInstalled(str(missing.name), "install kedge-trainer[plot], which draws figures") from missing


def show_headline(
    name: Annotated[str, typer.Argument(help="an environment of `envs list` that has a headline")],
    *,
    seeds: Annotated[int, typer.Option(min=1, help="data seeds, the first of the test split")] = SEEDS,
    out: Annotated[
        Path | None, typer.Option(help="file stem of what is written; build/envs-results/NAME-headline unless told")
    ] = None,
    as_document: Annotated[bool, typer.Option("--json", help="print one JSON document")] = False,
) -> None:
    """Play the environment's headline table again: mean and deviation over seeds, written as JSON, PNG and SVG."""
    ground, drawing = load(name), figures()
    cells = headline(ground, seeds)
    document, stem = headline_as_json(ground, cells), out or RESULTS / f"{name}-headline"
    title = f"{ground.NAME} {ground.VERSION}, test × {seeds}: mean grade, deviation over seeds"
    try:
        written = [write_document(document, stem), *drawing.draw_headline(cells, title, stem)]
    except OSError as failure:
        raise CannotWrite(failure.filename or stem, failure.strerror or str(failure)) from failure
    if as_document:
        show.print_json(document)
        return
    _print(ground, cells)
    show.out.print(f"written: {', '.join(map(str, written))}", highlight=False, markup=False, soft_wrap=True)


def _print(ground: Ground, cells: list[Cell]) -> None:
    by = {(one.task, one.policy): one for one in cells}
    tasks, policies = dict.fromkeys(one.task for one in cells), dict.fromkeys(one.policy for one in cells)
    show.out.print(f"{ground.NAME} {ground.VERSION}, mean grade ± deviation over seeds", highlight=False)
    show.print_rows(
        ["task", *policies],
        ([task, *(f"{by[task, p].mean:.4f} ± {by[task, p].deviation:.4f}" for p in policies)] for task in tasks),
    )
