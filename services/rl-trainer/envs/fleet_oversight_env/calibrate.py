"""Measure every player on held-out seeds with the batch simulator, hold the figures to their marks, print the tables.

    python -m fleet_oversight_env.calibrate            4,000 seeds, the tables on stdout
    python -m fleet_oversight_env.calibrate --write    the same, and into the datasheet and data/calibration.json

CRM is half easy, half hard profile. All players see the same episodes; ± is half a 95 % interval of the mean over them.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from fleet_oversight_env.baselines import clairvoyant
from fleet_oversight_env.batch import Batch
from fleet_oversight_env.checkpoint import BEST, CONTROL, SHIPPED, shipped
from fleet_oversight_env.laws import BANKING, CRM, FAULTS
from fleet_oversight_env.learned import learned
from fleet_oversight_env.players import maker, random_planner
from fleet_oversight_env.results import Results, play
from fleet_oversight_env.scenarios import TEST_SEEDS
from fleet_oversight_env.starts import Planner, Starts, optimal_plan, starts
from fleet_oversight_env.view import Maker

SEEDS: Final = 4000
TRAINED: Final = (1, 2, 3)
FIGURES: Final = ("detection", "needless", "oversight", "total", "grade")
HEADINGS: Final = ("detection", "FP", "R_oversight", "R_total", "grade")
FOLDER: Final = Path(__file__).parent
BEGIN, END = "<!-- calibration -->", "<!-- end of calibration -->"
TASKS: Final = {"crm": ("nexacrm_easy", "nexacrm_hard"), "banking": ("banking_faq",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One player in one domain: means, half intervals, pooled FP, FP of interventions alone, detection by fault."""

    player: str
    domain: str
    seeds: int
    mean: dict[str, float]
    half: dict[str, float]
    pooled: float
    interventions: float
    by_fault: dict[str, float]


def row(player: str, domain: str, played: Sequence[tuple[Batch, Results]]) -> Row:
    """Sum up a player's episodes."""
    values = {name: np.concatenate([getattr(got, name) for _, got in played]) for name in FIGURES}
    seeds = len(values["grade"])
    tally = np.concatenate([batch.tally for batch, _ in played], axis=1).sum(axis=1)
    faults = np.concatenate([batch.fault for batch, _ in played])
    resolved = np.concatenate([batch.status >= 2 for batch, _ in played])
    needless, alarms = tally[4] + tally[5], tally[0] + tally[1] + tally[4] + tally[5]
    return Row(
        player=player,
        domain=domain,
        seeds=seeds,
        mean={name: float(value.mean()) for name, value in values.items()},
        half={name: float(1.96 * value.std(ddof=1) / np.sqrt(seeds)) for name, value in values.items()},
        pooled=float(needless / max(1.0, alarms)),
        interventions=float(tally[4] / max(1.0, tally[0] + tally[4])),
        by_fault={
            str(fault): float(resolved[faults == index + 1].mean())
            for index, fault in enumerate(FAULTS)
            if (faults == index + 1).any()
        },
    )


def episodes(domain: str, seeds: int, planner: Planner = optimal_plan) -> list[Starts]:
    """Set up the domain's held-out episodes: each seed once, an equal share for each of its tasks."""
    tasks = TASKS[domain]
    share = seeds // len(tasks)
    return [starts(task, TEST_SEEDS[place * share : (place + 1) * share], planner) for place, task in enumerate(tasks)]


def measure(player: str, domain: str, begun: Sequence[Starts], make: Maker | None) -> Row:
    """Play one player; None for the clairvoyant, who needs the episodes themselves."""
    played = []
    for one in begun:
        batch = Batch(one)
        rng = np.random.default_rng(7)
        played.append((batch, play(batch, make(one.opening, rng) if make else clairvoyant(one))))
    return row(player, domain, played)


NAMED: Final = (
    "flag_heuristic", "window_rules", "memoryless_filter", "belief_filter", "crm_belief_filter", "submit_at_once",
    "hold_five", "monitor_in_turn", "intervene_in_turn", "escalate_five", "wait_and_submit",
)  # fmt: skip


def table(seeds: int = SEEDS) -> Iterator[Row]:
    """Measure all players in both domains."""
    for domain, laws in (("crm", CRM), ("banking", BANKING)):
        random = episodes(domain, seeds, random_planner(np.random.default_rng(3)))
        yield measure("random", domain, random, maker("random", laws))
        begun = episodes(domain, seeds)
        for name in NAMED:
            if name != "crm_belief_filter" or domain == "banking":
                yield measure(name, domain, begun, maker(name, laws))
        for trained in TRAINED:
            network = shipped(SHIPPED.format(trained))
            yield measure(f"learned, seed {trained}", domain, begun, learned(network))
        warm = learned(shipped(), greedy=False, temperature=0.7)
        yield measure("learned, temperature 0.7", domain, begun, warm)
        yield measure("control", domain, begun, learned(shipped(CONTROL)))
        yield measure("control, sampled", domain, begun, learned(shipped(CONTROL), greedy=False))
        yield measure("clairvoyant", domain, begun, None)


def mean_of_trained(rows: Sequence[Row], domain: str) -> Row:
    """Average the three training seeds; the half interval is that of one, since they see the same episodes."""
    found = [one for one in rows if one.domain == domain and one.player.startswith("learned, seed")]
    return replace(
        found[0],
        player="learned, mean of three",
        mean={name: float(np.mean([one.mean[name] for one in found])) for name in FIGURES},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A figure that must lie in a range; its standard error says how far a sample may stray."""

    what: str
    value: float
    low: float
    high: float
    error: float

    @property
    def reached(self) -> bool:
        """Whether it does."""
        return self.reached_within(0.0)

    def reached_within(self, errors: float) -> bool:
        """Tell whether it does, give or take this many standard errors."""
        slack = errors * self.error
        return self.low - slack <= self.value <= self.high + slack


CEILINGS: Final = {
    "submit_at_once": -0.10, "monitor_in_turn": -0.10, "wait_and_submit": -0.10, "intervene_in_turn": -0.05,
    "hold_five": 0.10, "escalate_five": 0.16,
}  # fmt: skip


ASKED: Final = (
    ("random", "crm", "detection", 0.23, 0.29),
    ("random", "crm", "needless", 0.43, 0.51),
    ("random", "banking", "detection", 0.08, 0.12),
    ("flag_heuristic", "crm", "detection", 0.43, 0.48),
    ("flag_heuristic", "crm", "needless", 0.60, 1.0),
    ("belief_filter", "crm", "detection", 0.92, 1.0),
    ("belief_filter", "crm", "needless", 0.0, 0.08),
    ("learned, mean of three", "crm", "detection", 0.87, 1.0),
    ("learned, mean of three", "crm", "needless", 0.0, 0.09),
    ("learned, mean of three", "crm", "oversight", 0.75, 2.0),
    ("learned, mean of three", "banking", "detection", 0.70, 1.0),
    ("learned, mean of three", "banking", "needless", 0.0, 0.20),
    *((f"learned, seed {seed}", "crm", "detection", 0.85, 1.0) for seed in TRAINED),
    *((f"learned, seed {seed}", "crm", "needless", 0.0, 0.11) for seed in TRAINED),
    *((corner, "crm", "total", -9.0, ceiling) for corner, ceiling in CEILINGS.items()),
    *((corner, "crm", "grade", 0.0, 0.50) for corner in CEILINGS),
)  # fmt: skip


def marks(rows: Sequence[Row]) -> list[Mark]:
    """Hold the figures to what the specification asks."""
    means = [mean_of_trained(rows, domain) for domain in TASKS]
    at = {(one.player, one.domain): one for one in (*rows, *means)}
    return [
        Mark(
            what=f"{player}, {domain}: {HEADINGS[FIGURES.index(figure)]}",
            value=at[player, domain].mean[figure],
            low=low,
            high=high,
            error=at[player, domain].half[figure] / 1.96,
        )
        for player, domain, figure, low, high in ASKED
    ]


def printed(rows: Sequence[Row]) -> str:
    """Write the tables as Markdown."""
    lines = [f"| player | domain | {' | '.join(HEADINGS)} | FP pooled | FP of interventions |", "|---" * 9 + "|"]
    lines += [_line(one) for one in rows]
    lines += ["", "| learned, mean of three | detection | FP | R_oversight | the source claims |", "|---" * 5 + "|"]
    for domain, claim in (("crm", "72.5 % at 15.9 %, +0.749"), ("banking", "58 %")):
        found, needless, paid = (mean_of_trained(rows, domain).mean[name] for name in FIGURES[:3])
        lines.append(f"| {domain} | {found:.1%} | {needless:.1%} | {paid:+.3f} | {claim} |")
    lines += ["", f"| detection by fault, CRM | {' | '.join(FAULTS)} |", "|---" * 5 + "|"]
    for one in rows:
        if one.domain == "crm" and one.player in {"random", "belief_filter", f"learned, seed {BEST}"}:
            lines.append(f"| {one.player} | {' | '.join(f'{value:.2f}' for value in one.by_fault.values())} |")
    lines += ["", "| mark | asked | measured | reached |", "|---" * 4 + "|"]
    for mark in marks(rows):
        asked = _asked(mark)
        lines.append(f"| {mark.what} | {asked} | {mark.value:.3f} | {'yes' if mark.reached else '**no**'} |")
    return "\n".join(lines) + "\n"


def _asked(mark: Mark) -> str:
    if mark.high >= 1.0:
        return f"≥ {mark.low:g}"
    return f"≤ {mark.high:g}" if mark.low <= 0.0 else f"{mark.low:g} to {mark.high:g}"


def _line(one: Row) -> str:
    mean, half = one.mean, one.half
    cells = [
        f"{mean['detection']:.1%} ± {half['detection']:.1%}",
        f"{mean['needless']:.1%} ± {half['needless']:.1%}",
        f"{mean['oversight']:+.3f} ± {half['oversight']:.3f}",
        f"{mean['total']:+.3f}",
        f"{mean['grade']:.3f}",
        f"{one.pooled:.1%}",
        f"{one.interventions:.1%}",
    ]
    return f"| {one.player} | {one.domain} | {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; with --write also renew the datasheet. Exits with 1 where a mark is missed."""
    parser = argparse.ArgumentParser(prog="python -m fleet_oversight_env.calibrate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args(arguments)
    rows = list(table(chosen.seeds))
    told = printed(rows)
    sys.stdout.write(told)
    if chosen.write:
        sheet = FOLDER / "README.md"
        before, _, rest = sheet.read_text(encoding="utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        sheet.write_text(f"{before}{BEGIN}\n{told}{END}{after}", encoding="utf-8")
        body = [{"player": one.player, "domain": one.domain, "seeds": one.seeds, "mean": one.mean} for one in rows]
        (FOLDER / "data").mkdir(exist_ok=True)
        (FOLDER / "data" / "calibration.json").write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    if not all(mark.reached for mark in marks(rows)):
        sys.exit(1)


if __name__ == "__main__":
    main()
