"""Show that no acknowledged event is lost between revisions: `python -m tests.compat [--old v0.1.0] [--new HEAD]`.

One database, as in an upgrade. A server of the old revision makes it, and clients of the new one play turns there; it
is killed, a server of the new revision takes the database over, and clients of the old one play. Every client writes
down what was acknowledged before it goes on; every event is said twice and has to be stored once.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from kedge_bandit.adapters.embedded import EmbeddedPostgres
from tests.architecture.tree import ROOT
from tests.compat.meeting import Meeting, Row
from tests.compat.tree import lay_out
from tests.fixtures.database import open_folder

FOLDER = ROOT / "build/compat"
TURNS = 500
WIDTH = 120


def main(argv: list[str]) -> int:
    """Give 0 if everything that was acknowledged is stored once and every server's belief equals its rebuild."""
    parser = argparse.ArgumentParser(prog="python -m tests.compat", description=__doc__)
    parser.add_argument("--old", default="v0.1.0", help="a revision of this clone, by default the first release")
    parser.add_argument("--new", default="HEAD", help="another, by default the last commit")
    parser.add_argument("--turns", type=int, default=TURNS, help="of each client, by RPC and again in the process")
    asked = parser.parse_args(argv)
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    with open_folder() as folder:
        rows, agreed = _meet(asked, folder, console.print)
    _show(rows, agreed, console)
    FOLDER.mkdir(parents=True, exist_ok=True)
    document = {"rows": [asdict(row) for row in rows], "belief_equals_rebuild": agreed}
    name = f"{asked.old}-{asked.new}.json".replace("/", "_")
    (FOLDER / name).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0 if all(row.is_good for row in rows) and all(agreed.values()) else 1


def _meet(asked: argparse.Namespace, folder: Path, say: Callable[[str], None]) -> tuple[list[Row], dict[str, bool]]:
    say(f"laying out {asked.old} and {asked.new}, each with its own stubs and Java client")
    old, new = lay_out(asked.old, folder / "old"), lay_out(asked.new, folder / "new")
    data = folder / "kedge"
    data.mkdir()
    with EmbeddedPostgres(folder / "data", state_dir=folder / "state") as url:
        meeting = Meeting(url, data, asked.turns, say)
        return [*meeting.meet(old, new), *meeting.meet(new, old)], meeting.agreed


def _show(rows: list[Row], agreed: dict[str, bool], console: Console) -> None:
    table = Table("server", "client", "event", "said", "acknowledged", "stored", "lost", "doubled")
    for row in rows:
        table.add_row(
            row.server,
            f"{row.client} {row.language}",
            row.kind,
            *(str(number) for number in (row.expected, row.acknowledged, row.stored)),
            str(row.acknowledged - row.stored),
            str(row.doubled),
        )
    console.print(table)
    for server, agrees in agreed.items():
        console.print(f"belief of {server} equals its rebuild from the log: {'yes' if agrees else 'NO'}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
