"""Write evaluations as JSON: what a table and a figure show, in numbers."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from kedge_trainer.application.evaluate import Evaluation


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


def write_json(evaluations: Sequence[Evaluation], stem: Path) -> Path:
    """Write `<stem>.json`, its folder made, and give its name; a stem may have dots."""
    file = Path(f"{stem}.json")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps([as_json(one) for one in evaluations], indent=1) + "\n", encoding="utf-8")
    return file
