"""Play every policy, hold the figures to their marks, and write the datasheet's tables.

    python -m call_audit_env.tables            on stdout
    python -m call_audit_env.tables --write    the same, and into README.md and tables.json

The base tables are exact: twelve calls as written. Intervals are half of 95 % of the mean over test seeds.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Final

from call_audit_env.baselines import ORACLE, POLICIES, PRIVILEGED, Action, policy, privileged
from call_audit_env.episode import Episode
from call_audit_env.marks import BRUTE_FORCE_ENDS, COMPAT_TABLE, V2_MEANS
from call_audit_env.scenarios import SPLITS, Profile, base, call_of

SEEDS: Final = 500
FOLDER: Final = Path(__file__).parent
BEGIN, END = "<!-- tables -->", "<!-- end of tables -->"
MEASURED: Final = ("audit", "easy", "medium", "hard", "hero")
BLIND: Final = (
    "clairvoyant", "all_but_highs", "six_low", "constant", "always_fail", "always_pass", "empty", "repeat",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mark:
    """A figure and where it must lie."""

    what: str
    value: float
    low: float
    high: float

    @property
    def reached(self) -> bool:
        """Whether it does."""
        return self.low <= self.value <= self.high


def on_base(profile: Profile, names: Sequence[str] = tuple(POLICIES)) -> dict[str, list[float]]:
    """Grade policies on the twelve base calls, in order."""
    return {name: [_played(name, number, profile)[0].grade() for number in range(1, 13)] for name in names}


def _played(name: str, number: int, profile: Profile) -> tuple[Episode, Action]:
    """Play a base call; give the audit and the last action."""
    call = base(number)
    episode = Episode(profile, call, profile=profile)
    player = privileged(name, call) if name in PRIVILEGED else policy(name, profile, number)
    action: Action = {}
    while not episode.over:
        action = player(episode.observe())
        episode.step(action)
    return episode, action


def brute_force_ends() -> list[int]:
    """Give the turn at which brute force runs out of budget on each base call; -1 where it does not."""
    found = []
    for number in range(1, 13):
        episode, last = _played("brute_force", number, Profile.V2)
        at = last.get("turn_index", last.get("start_turn"))
        found.append(int(str(at)) if episode.metrics()["exhausted"] else -1)
    return found


def on_seeds(task: str, seeds: int) -> dict[str, list[Mapping[str, float]]]:
    """Play every policy on the first test seeds of a task."""
    found: dict[str, list[Mapping[str, float]]] = {}
    for name in POLICIES:
        rows: list[Mapping[str, float]] = []
        for seed in SPLITS["test"][:seeds]:
            episode, player = Episode(task, call_of(task, seed)), policy(name, task, seed)
            while not episode.over:
                episode.step(player(episode.observe()))
            rows.append(episode.metrics())
        found[name] = rows
    return found


def marks(compat: Mapping[str, Sequence[float]], v2: Mapping[str, Sequence[float]]) -> Iterator[Mark]:
    """Hold the base tables to what the specification says."""
    for name, wanted in COMPAT_TABLE.items():
        off = max(abs(got - cell) for got, cell in zip(compat[name], wanted, strict=True))
        yield Mark(f"compat, {name}: largest difference of its twelve cells", off, 0.0, 0.0)
    for name, mean in V2_MEANS.items():
        yield Mark(f"v2, {name}: mean", fmean(v2[name]), mean - 0.0006, mean + 0.0006)
    yield Mark("v2, oracle: mean", fmean(v2[ORACLE]), 0.95, 1.0)
    for name in BLIND:
        yield Mark(f"v2, {name}: highest", max(v2[name]), 0.0, 0.05)
    yield Mark("v2, lower_only: highest where a high was missed", max(v2["lower_only"]), 0.0, 0.30)
    off = sum(turn != wanted for turn, wanted in zip(brute_force_ends(), BRUTE_FORCE_ENDS, strict=True))
    yield Mark("base calls that brute force does not exhaust, or at another turn", off, 0, 0)


def printed(seeds: int) -> tuple[str, list[Mark], dict[str, object]]:
    """Measure all, and write it as Markdown."""
    compat, v2 = on_base(Profile.COMPAT), on_base(Profile.V2)
    lines = _base_lines("The original's rules and grader (`compat`)", compat)
    lines += _base_lines("Ours (`base`)", v2)
    lines += ["", f"Brute force runs out of budget at turn {', '.join(map(str, brute_force_ends()))}."]
    figures: dict[str, object] = {"compat": compat, "base": v2}
    played = {task: on_seeds(task, seeds) for task in MEASURED}
    lines += ["", f"Mean grade on variants, first {seeds} test seeds of each task:", ""]
    lines += [f"| policy | {' | '.join(MEASURED)} |", "|---" * (len(MEASURED) + 1) + "|"]
    for name in POLICIES:
        cells = [_interval([one["grade"] for one in played[task][name]]) for task in MEASURED]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    lines += ["", "On `audit`, the same episodes:", ""]
    lines += ["| policy | F1 | highs missed | false flags | budget left | exhausted |", "|---" * 6 + "|"]
    for name in POLICIES:
        rows = played["audit"][name]
        cells = [_mean(rows, key) for key in ("f1", "missed_high", "false_flags", "budget_left", "exhausted")]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    figures |= {
        task: {name: fmean(one["grade"] for one in rows) for name, rows in found.items()}
        for task, found in played.items()
    }
    found = list(marks(compat, v2))
    lines += ["", "| mark | measured | asked | reached |", "|---" * 4 + "|"]
    lines += [
        f"| {one.what} | {one.value:.4f} | {_asked(one)} | {'yes' if one.reached else '**no**'} |" for one in found
    ]
    return "\n".join(lines) + "\n", found, figures


def _base_lines(title: str, rows: Mapping[str, Sequence[float]]) -> list[str]:
    heads = " | ".join(f"{number:03}" for number in range(1, 13))
    lines = ["", f"{title}, the twelve base calls:", "", f"| policy | {heads} | mean |", "|---" * 14 + "|"]
    for name, grades in rows.items():
        cells = " | ".join(f"{grade:.3f}".lstrip("0") for grade in grades)
        lines.append(f"| `{name}` | {cells} | {fmean(grades):.3f} |")
    return lines


def _interval(values: Sequence[float]) -> str:
    half = 1.96 * stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{fmean(values):.3f} ± {half:.3f}"


def _mean(rows: Sequence[Mapping[str, float]], key: str) -> str:
    known = [one[key] for one in rows if not math.isnan(one[key])]
    return f"{fmean(known):.2f}" if known else "–"


def _asked(mark: Mark) -> str:
    if mark.low == mark.high:
        return f"{mark.low:g}"
    return f"{mark.low:.4f} to {mark.high:.4f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; with --write also renew the datasheet. Exits with 1 where a mark is missed."""
    parser = argparse.ArgumentParser(prog="python -m call_audit_env.tables", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args(arguments)
    told, found, figures = printed(chosen.seeds)
    sys.stdout.write(told)
    if chosen.write:
        sheet = FOLDER / "README.md"
        before, _, rest = sheet.read_text(encoding="utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        sheet.write_text(f"{before}{BEGIN}\n{told}{END}{after}", encoding="utf-8")
        (FOLDER / "tables.json").write_text(
            json.dumps({"seeds": chosen.seeds, **figures}, indent=1) + "\n", encoding="utf-8"
        )
    if not all(one.reached for one in found):
        sys.exit(1)


if __name__ == "__main__":
    main()
