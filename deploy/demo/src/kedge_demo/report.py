"""Show a measured run: `python -m kedge_demo.report --out DIR`.

Reads DIR/page.json and everything that `facts` finds, with `--facts FILE` from the conductor. Writes DIR/report.html
and prints the same as a table, or with `--json` DIR/report.json with the checks. Ends with 1 if a check does not hold.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from kedge_demo.facts import read_facts
from kedge_demo.measure import PAGE_FILE, REPORT_FILE
from kedge_demo.page import whole_page
from kedge_demo.page_model import Page
from kedge_demo.plain import read_plain
from kedge_demo.terminal import print_report
from kedge_demo.verdicts import verdicts

HTML_FILE = "report.html"


def main() -> int:
    """Read, write, print, judge."""
    parser = argparse.ArgumentParser(
        prog="kedge_demo.report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the run")
    parser.add_argument("--facts", type=Path, help="what the conductor found, as JSON")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args()
    folder: Path = options.out
    page = read_plain(Page, json.loads((folder / PAGE_FILE).read_text(encoding="utf-8")))
    facts = read_facts(folder, options.facts)
    judged = verdicts(page, facts)
    (folder / HTML_FILE).write_text(whole_page(page, facts), encoding="utf-8")
    console = Console(width=None if sys.stdout.isatty() else 160)
    if options.json:
        figures = json.loads((folder / REPORT_FILE).read_text(encoding="utf-8"))
        sys.stdout.write(json.dumps(figures | {"checks": [asdict(one) for one in judged]}, indent=2) + "\n")
    else:
        print_report(page, facts, console)
        console.print(f"page: {folder / HTML_FILE}", highlight=False)
    return 0 if all(one.passed for one in judged) else 1


if __name__ == "__main__":
    sys.exit(main())
