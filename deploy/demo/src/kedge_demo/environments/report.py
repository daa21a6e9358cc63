"""Show a measured run: `python -m kedge_demo.environments.report --out DIR --page FILE`.

Reads DIR/measured.json, and DIR/proofs.json where the conductor left it. Prints quality and checks, writes the page and
DIR/report.json. Ends with 1 if a check does not hold.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from kedge_demo.environments.measure import MEASURED_FILE, Measured
from kedge_demo.environments.page import whole_page
from kedge_demo.environments.policy import policy_id
from kedge_demo.environments.verdicts import verdicts
from kedge_demo.plain import read_plain
from kedge_demo.verdicts import Verdict

PROOFS_FILE = "proofs.json"


def proven(streams: Sequence[Measured], path: Path) -> list[Verdict]:
    """Judge what the conductor's own commands found: replay and rebuild of each stream."""
    if not path.exists():
        return []
    proofs = json.loads(path.read_text(encoding="utf-8"))
    found = [proofs[policy_id(one.stream)] for one in streams]
    replayed = tuple(f"{one['replay']['mismatches']} of {one['replay']['replayed']:,}" for one in found)
    rebuilt = tuple(f"{one['rebuild']['max_error']:.1e}" for one in found)
    return [
        Verdict(
            name="decisions that do not replay",
            values=replayed,
            bar="0",
            passed=not any(one["replay"]["mismatches"] for one in found),
        ),
        Verdict(
            name="second fold differs by",
            values=rebuilt,
            bar="equal",
            passed=all(one["rebuild"]["agrees"] for one in found),
        ),
    ]


def print_report(streams: Sequence[Measured], judged: Sequence[Verdict], console: Console) -> None:
    """Print quality by stream, then the checks."""
    table = Table(title="The last quarter of each stream, on the same episodes", title_justify="left")
    table.add_column("stream")
    for name in ("episodes", "served", "best single", "", "difference", "95 %", "best of each task"):
        table.add_column(name, justify="right")
    for one in streams:
        between = f"{one.low:+.3f} to {one.high:+.3f}"
        cells = (f"{one.quality:.3f}", f"{max(one.single):.3f}", one.best, f"{one.lift:+.3f}", between)
        table.add_row(str(one.stream), f"{one.late:,}", *cells, f"{one.routed:.3f}")
    console.print(table)
    checks = Table(title="Checks", title_justify="left")
    checks.add_column("check")
    for one in streams:
        checks.add_column(f"stream {one.stream}", justify="right")
    checks.add_column("must be")
    checks.add_column("")
    for verdict in judged:
        mark = "[green]✓[/]" if verdict.passed else "[bold red]✗[/]"
        checks.add_row(verdict.name, *verdict.values, verdict.bar, mark)
    console.print(checks)


def main() -> int:
    """Read, write, print, judge."""
    parser = argparse.ArgumentParser(
        prog="kedge_demo.environments.report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the run")
    parser.add_argument("--page", type=Path, required=True, help="where the page goes")
    options = parser.parse_args()
    folder: Path = options.out
    streams = [read_plain(Measured, one) for one in json.loads((folder / MEASURED_FILE).read_text(encoding="utf-8"))]
    judged = [*verdicts(streams), *proven(streams, folder / PROOFS_FILE)]
    options.page.write_text(whole_page(streams, judged), encoding="utf-8")
    report = {"streams": [asdict(one) for one in streams], "checks": [asdict(one) for one in judged]}
    (folder / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    console = Console(width=None if sys.stdout.isatty() else 160)
    print_report(streams, judged, console)
    console.print(f"page: {options.page}", highlight=False)
    return 0 if all(one.passed for one in judged) else 1


if __name__ == "__main__":
    sys.exit(main())
