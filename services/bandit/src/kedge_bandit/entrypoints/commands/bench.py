"""`kedge bench`: what the service does where the world is against it, shown by its own code in this process."""

from collections.abc import Iterable
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from kedge_bandit.entrypoints.printing import FailedCheck, JsonFlag, KedgeGroup, answer, table
from kedge_bandit.entrypoints.scenarios.marks import Row
from kedge_bandit.entrypoints.scenarios.peers import PEERS, installed
from kedge_bandit.entrypoints.scenarios.suite import SCENARIOS, Found, document, run

bench = typer.Typer(cls=KedgeGroup, no_args_is_help=True, help="Figures that anybody can make again.")


@bench.callback()
def nothing_more() -> None:
    """Keep the command's own name where it is the only one."""


@bench.command()
def scenarios(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Some of the nine.")] = None,
    *,
    seeds: Annotated[int, typer.Option(min=1, help="Worlds of each scenario.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first.")] = 1,
    peers: Annotated[
        bool, typer.Option("--peers", help="Let Vowpal Wabbit and MABWiser play the same streams.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Play the adversarial scenarios; ends with 1 where a mark is missed. The same seeds give the same bytes."""
    unknown = sorted(set(names or ()) - SCENARIOS.keys())
    if unknown:
        raise typer.BadParameter(f"no scenario {', '.join(unknown)}: name some of {', '.join(SCENARIOS)}")
    missing = sorted(PEERS.keys() - installed().keys()) if peers else []
    if missing:
        raise typer.BadParameter(f"{' and '.join(missing)}: not installed; `make bench` installs both, or use pip")
    chosen = [name for name in SCENARIOS if not names or name in names]
    used = range(seed, seed + seeds)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("scenarios", total=len(chosen))
        found = run(chosen, used, with_peers=peers, done=lambda _name: progress.advance(bar))
    answer(document(found, used), lambda out: _show(out, found), as_json=as_json)
    missed = [f"{each.scenario}: {row.name}" for each in found for row in each.rows if row.passes is False]
    if missed:
        raise FailedCheck(f"{len(missed)} marks were missed: {'; '.join(missed)}")


def _show(out: Console, found: Iterable[Found]) -> None:
    for each in found:
        out.print(f"{each.scenario}: {each.about}", highlight=False)
        rows = [_cells(row) for row in each.rows]
        out.print(table("", ("figure", "value", "seeds", "mark", ""), rows))
        others = [(peer.name, f"{peer.regret:.0f}", f"{peer.late_share:.3f}") for peer in each.peers]
        if others:
            out.print(table("", ("on the same streams", "regret", "late share of the best"), others))


def _cells(row: Row) -> tuple[str, str, str, str, str]:
    verdict = {True: "pass", False: "MISSED", None: ""}[row.passes]
    return row.name, f"{row.value:.4g}", f"{row.lowest:.3g} to {row.highest:.3g}", row.bounds, verdict
