"""Draw evaluations with matplotlib, which the `plot` extra brings; imported when a figure is asked for."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from kedge_trainer.application.evaluate import Evaluation
from kedge_trainer.application.headline import Cell

COLUMNS = 3
BARS = ("#b8c4d6", "#7a9cc6", "#1b2a41", "#d9a441")


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
    return _save(figure, stem)


def draw_headline(cells: Sequence[Cell], title: str, stem: Path) -> list[Path]:
    """Write `<stem>.png` and `<stem>.svg`: a group of bars for each task, with the deviation over seeds."""
    tasks, policies = list(dict.fromkeys(one.task for one in cells)), list(dict.fromkeys(one.policy for one in cells))
    figure = Figure(figsize=(1.2 + 0.9 * len(tasks), 4.2), layout="constrained")
    panel = figure.add_subplot()
    width = 0.8 / len(policies)
    for place, policy in enumerate(policies):
        own = [one for one in cells if one.policy == policy]
        at = [number + (place - (len(policies) - 1) / 2) * width for number in range(len(tasks))]
        panel.bar(at, [one.mean for one in own], width, label=policy, color=BARS[place % len(BARS)])
        panel.errorbar(at, [one.mean for one in own], [one.deviation for one in own], fmt="none", ecolor="#555555")
    panel.set_xticks(range(len(tasks)), [task.replace("-", "\n", 1) for task in tasks], fontsize=7)
    panel.set_ylim(0.0, 1.15)
    panel.set_title(title, fontsize=10)
    panel.legend(fontsize=8, ncols=len(policies), loc="upper left")
    return _save(figure, stem)


def _save(figure: Figure, stem: Path) -> list[Path]:
    stem.parent.mkdir(parents=True, exist_ok=True)
    files = [Path(f"{stem}.png"), Path(f"{stem}.svg")]
    for file in files:
        figure.savefig(file)
    return files
