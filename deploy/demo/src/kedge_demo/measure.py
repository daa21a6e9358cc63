"""Measure a run from ExportDecisions and the true scores only: `python -m kedge_demo.measure --out DIR`.

Reads DIR/play.json (which worlds were played, and the client's counts). With `--address` and `--keys` it first streams
each tenant's export into DIR/export/<tenant>.bin and its audit log into DIR/audit.json; without, it takes the files
that are there. Writes DIR/report.json (the figures) and DIR/page.json (what the page shows). `--compare FILE` checks
every number of another computation of the same keys to 1e-9 and fails loudly. Ends with 1 where it disagrees.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import grpc
from rich.console import Console

from kedge.bandit.v1 import episode_service_pb2 as wire
from kedge.bandit.v1.episode_service_pb2_grpc import EpisodeServiceStub
from kedge_demo.agreement import disagreements_with
from kedge_demo.audit import read_audit, save_audit
from kedge_demo.counts import read_play
from kedge_demo.export_log import read_export, read_log, write_export
from kedge_demo.figures import figures
from kedge_demo.keys import read_keys
from kedge_demo.page_data import page_data
from kedge_demo.page_model import Page
from kedge_demo.world import World
from kedge_demo.worlds import build_worlds

REPORT_FILE, PAGE_FILE = "report.json", "page.json"
EXPORT_TIMEOUT_S = 120.0


def export_path(folder: Path, world: World) -> Path:
    """Name the file that a tenant's export lies in."""
    return folder / "export" / f"{world.tenant}.bin"


def fetch_export(address: str, key: str, world: World) -> Iterator[wire.ExportDecisionsResponse]:
    """Stream one tenant's whole decision log."""
    with grpc.insecure_channel(address, options=(("grpc.max_receive_message_length", -1),)) as channel:
        yield from EpisodeServiceStub(channel).ExportDecisions(
            wire.ExportDecisionsRequest(policy=world.policy.name),
            metadata=(("authorization", f"Bearer {key}"),),
            timeout=EXPORT_TIMEOUT_S,
        )


def main() -> int:
    """Fetch, compute, write, compare."""
    parser = argparse.ArgumentParser(prog="kedge_demo.measure", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the run; holds play.json")
    parser.add_argument("--address", help="host:port to export from; without it the exported files are used")
    parser.add_argument("--keys", type=Path, help="JSON of keys by tenant, with --address")
    parser.add_argument("--compare", type=Path, help="another computation's report.json")
    options = parser.parse_args()
    folder: Path = options.out
    play = read_play(folder)
    worlds = build_worlds(seed=play.seed, scale=play.scale)
    if options.address:
        keys = read_keys(options.keys)
        (folder / "export").mkdir(parents=True, exist_ok=True)
        for world in worlds:
            key = keys[world.tenant].viewer
            write_export(export_path(folder, world), fetch_export(options.address, key, world))
            save_audit(folder, {world.tenant: read_audit(options.address, key, world)})
    tenants = []
    for world in worlds:
        log = read_log(read_export(export_path(folder, world)), world)
        counts = play.tenants[world.tenant]
        tenants.append(page_data(log, world, counts, figures(log, world, counts)))
    report = {"tenants": [asdict(tenant.figures) for tenant in tenants]}
    (folder / REPORT_FILE).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    page = Page(seconds=play.seconds, scale=play.scale, tenants=tenants)
    (folder / PAGE_FILE).write_text(json.dumps(asdict(page)) + "\n", encoding="utf-8")
    found_differences = disagreements_with(report["tenants"], options.compare) if options.compare else []
    console = Console(stderr=True)
    for line in found_differences:
        console.print(f"disagrees with {options.compare}: {line}", style="red", markup=False)
    return 1 if found_differences else 0


if __name__ == "__main__":
    sys.exit(main())
