"""Write evaluations as JSON: what a table and a figure show, in numbers."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from kedge_trainer.application.evaluate import HELD_OUT, Evaluation
from kedge_trainer.application.headline import Cell
from kedge_trainer.application.ports import Ground


def as_json(evaluation: Evaluation) -> dict[str, object]:
    """Give an evaluation as JSON values; what was not measured is null."""
    return {
        "environment": evaluation.environment,
        "version": evaluation.version,
        "task": evaluation.task,
        "policy": evaluation.policy,
        "split": evaluation.split,
        "episodes": evaluation.episodes,
        "metrics": {
            name: {key: None if value != value else value for key, value in asdict(found).items()}
            for name, found in evaluation.intervals.items()
        },
    }


def headline_as_json(ground: Ground, cells: Sequence[Cell]) -> dict[str, object]:
    """Give a headline as JSON values: mean, deviation and every seed's grade."""
    return {
        "environment": ground.NAME,
        "version": ground.VERSION,
        "split": HELD_OUT,
        "cells": [
            {
                "task": one.task,
                "policy": one.policy,
                "mean": round(one.mean, 4),
                "deviation": round(one.deviation, 4),
                "grades": list(one.grades),
            }
            for one in cells
        ],
    }


def write_json(evaluations: Sequence[Evaluation], stem: Path) -> Path:
    """Write `<stem>.json`, its folder made, and give its name; a stem may have dots."""
    return write_document([as_json(one) for one in evaluations], stem)


def write_document(document: object, stem: Path) -> Path:
    """Write any JSON document to `<stem>.json`, its folder made, and give its name."""
    file = Path(f"{stem}.json")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return file
