"""Run the benches: `python -m tests.bench [--only NAME] [--json]`."""

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console

from tests.bench.registry import BENCHES
from tests.bench.runner import as_json, run_benches, succeeded

FOLDER = Path("build/bench")
WIDTH = 130
"""Columns where the output is no terminal."""


def main(argv: list[str]) -> int:
    """Give 0 if every figure passed, 1 if one failed or had no verdict."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", metavar="NAME", choices=sorted(BENCHES), help=f"one of {', '.join(BENCHES)}")
    parser.add_argument("--json", action="store_true", help="print JSON; the tables go to standard error")
    asked = parser.parse_args(argv)
    chosen = {name: bench for name, bench in BENCHES.items() if asked.only in (None, name)}
    console = Console(stderr=asked.json)
    if not console.is_terminal:
        console = Console(stderr=asked.json, width=WIDTH)
    finished = run_benches(chosen, folder=FOLDER, console=console)
    if asked.json:
        sys.stdout.write(json.dumps([as_json(bench) for bench in finished], indent=1) + "\n")
    for bench in finished:
        console.print(f"{bench.name}: {bench.verdict}, {FOLDER / bench.name}.json")
    return 0 if succeeded(finished) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
