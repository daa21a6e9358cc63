"""Draw evaluations with matplotlib, which the `plot` extra brings; imported when a figure is asked for."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from kedge_trainer.application.evaluate import Evaluation

COLUMNS = 3


def draw(evaluations: Sequence[Evaluation], stem: Path) -> list[Path]:
    """Write `<stem>.png` and `<stem>.svg`: a panel for each metric, a bar with its interval for each policy.

    Returns:
        The files.
    """
    metrics = list(evaluations[0].intervals)
    rows = -(-len(metrics) // COLUMNS)
    figure = Figure(figsize=(4 * COLUMNS, (1 + 0.35 * len(evaluations)) * rows + 0.8), layout="constrained")
    first = evaluations[0]
    figure.suptitle(f"{first.environment} {first.version}, {first.task}, {first.split} × {first.episodes}")
    for position, metric in enumerate(metrics):
        panel = figure.add_subplot(rows, COLUMNS, position + 1)
        found = [one.intervals[metric] for one in evaluations]
        panel.barh([one.policy for one in evaluations], [one.mean for one in found], color="#7a9cc6")
        for height, one in enumerate(found):
            panel.plot([one.low, one.high], [height, height], color="#1b2a41", linewidth=1.5)
        panel.invert_yaxis()
        panel.set_title(metric.replace("_", " "), fontsize=9)
        panel.tick_params(labelsize=8)
    stem.parent.mkdir(parents=True, exist_ok=True)
    files = [Path(f"{stem}.png"), Path(f"{stem}.svg")]
    for file in files:
        figure.savefig(file)
    return files
