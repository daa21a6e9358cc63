"""Measure routes and policies, hold the figures to their marks, and renew the tables of the datasheet.

    python -m brief_routing_env.measure            100 test seeds, the tables on stdout
    python -m brief_routing_env.measure --write    the same, and into the datasheet and data/measured.json

± is half a 95 % interval of the mean over episodes. Training seeds are not trained again here: their figures, on
dev, are what `python -m brief_routing_env.train` wrote to data/training.json.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Final

import numpy as np

from brief_routing_env.baselines import END, POLICIES, consults, network_player, policy, script
from brief_routing_env.checkpoint import FOLDER, file_name, read
from brief_routing_env.episode import Episode
from brief_routing_env.features import MOVES
from brief_routing_env.network import Network
from brief_routing_env.scenarios import PLAIN, SPLITS, Profile, case_of, lies, modes
from brief_routing_env.tasks import AUDIT, EXPERTS, TASKS, Expert
from brief_routing_env.train import FIGURES, HARD, MARKS, RECIPES, play_out
from brief_routing_env.world import Move, Verb

EPISODES: Final = 100
BEFORE, AFTER = 5, 10
"""Sampled episodes a task before and after training, as published."""

PLACE: Final = Path(__file__).parent
BEGIN, CLOSE = "<!-- measured -->", "<!-- end of measured -->"
SIX: Final = tuple(name for name in PLAIN if name != AUDIT)
ROUTES: Final[Mapping[str, tuple[Expert, ...]]] = {
    "nothing": (),
    "analyst": EXPERTS[:1],
    "analyst, finance": EXPERTS[:2],
    "all but HR": EXPERTS[:3],
    "all but strategy": (Expert.ANALYST, Expert.FINANCE, Expert.HR),
    "everybody": EXPERTS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A mean over episodes with half its 95 % interval."""

    mean: float
    half: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.half:.3f}"


def mean_of(values: Sequence[float]) -> Mean:
    """Sum episodes up."""
    return Mean(mean=fmean(values), half=float(1.96 * np.std(values, ddof=1) / np.sqrt(len(values))))


def grades(name: str, task: str, episodes: int, **switched: object) -> list[float]:
    """Play a policy on the first test seeds of a task."""
    seeds = SPLITS["test"][:episodes]
    return [play_out(Episode(case_of(task, seed, **switched)), policy(name, task, seed))["grade"] for seed in seeds]


def route_grade(route: str, task: str, seed: int) -> float:
    """Grade a fixed route; nobody is consulted who is not required when everybody is."""
    experts = TASKS[task.partition("-")[0]].required if route == "everybody" else ROUTES[route]
    moves = (*consults(experts), *END) if experts else (Move(Verb.SUBMIT),)
    return play_out(Episode(case_of(task, seed)), script(*moves))["grade"]


def routes(seeds: Sequence[int]) -> dict[str, dict[str, list[float]]]:
    """Grade every route on every task: the different grades that the seeds gave, lowest first."""
    names = [name for task in PLAIN for name in modes(task)]
    return {
        name: {route: sorted({route_grade(route, name, seed) for seed in seeds}) for route in ROUTES} for name in names
    }


def players(episodes: int) -> dict[str, dict[str, Mean]]:
    """Measure every shipped policy: the published six together, and ours by task."""
    columns = {"six, compat": tuple(f"{task}-compat" for task in SIX), "six": SIX, "six, memory": _with_memory(SIX)}
    columns |= {"audit": (AUDIT,), "audit, memory": _with_memory((AUDIT,))}
    found: dict[str, dict[str, Mean]] = {}
    for name in POLICIES:
        found[name] = {}
        for column, tasks in columns.items():
            share = max(2, episodes // len(tasks))
            found[name][column] = mean_of([one for task in tasks for one in grades(name, task, share)])
    return found


def _with_memory(tasks: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{task}-rag" for task in tasks)


def lying(episodes: int) -> dict[str, Mean]:
    """Measure who trusts and who validates where the analyst lies, and where it does not; memory at hand."""
    task = f"{AUDIT}-rag"
    seeds = SPLITS["test"][:episodes]
    found = {}
    for lied in (True, False):
        chosen = [seed for seed in seeds if lies(TASKS[AUDIT], seed) == lied]
        for name in ("trusting", "validating", "trained"):
            played = [play_out(Episode(case_of(task, seed)), policy(name, task, seed))["grade"] for seed in chosen]
            found[f"{name}, {'lying' if lied else 'honest'}"] = mean_of(played)
    return found


def before_after() -> dict[str, dict[str, float]]:
    """Sample the untrained and the shipped network under the published rules, net off and on."""
    recipe = RECIPES[Profile.COMPAT]
    text = (PLACE / FOLDER / file_name(Profile.COMPAT)).read_text(encoding="utf-8")
    untrained = Network.drawn(len(recipe.inputs), len(MOVES), np.random.default_rng([recipe.seed, 8]))
    found: dict[str, dict[str, float]] = {}
    for net in (False, True):
        for when, network, count in (("before", untrained, BEFORE), ("after", read(text, Profile.COMPAT), AFTER)):
            row = {}
            for task in SIX:
                rng = np.random.default_rng([17, TASKS[task].index])
                cases = [case_of(f"{task}-compat", seed, eval_mode=not net) for seed in SPLITS["test"][:count]]
                player = network_player(network, Profile.COMPAT, rng)
                row[task] = round(fmean(play_out(Episode(case), player)["grade"] for case in cases), 4)
            found[f"{when}, net {'on' if net else 'off'}"] = row
    return found


def constant_with_net(episodes: int) -> dict[str, list[float]]:
    """Give the different grades that a random policy gets with the net on, published rules."""
    return {
        f"{task}{mode}": sorted(set(grades("random", f"{task}{mode}", episodes, eval_mode=False)))
        for task in SIX
        for mode in ("-compat", "-compat-rag")
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A figure and where it has to lie."""

    what: str
    value: float
    low: float
    high: float = 1.0

    @property
    def reached(self) -> bool:
        """Whether it does."""
        return self.low <= self.value <= self.high


def marks(measured: Mapping[str, dict[str, Mean]], lied: Mapping[str, Mean]) -> Iterator[Mark]:
    """Hold the figures to what the specification asks."""
    trained = json.loads((PLACE / "data" / FIGURES).read_text(encoding="utf-8"))
    for profile, least in MARKS.items():
        for one in trained[str(profile)]:
            for place, memory in enumerate(("off", "on")):
                got = fmean(one[memory][task] for task in HARD)
                yield Mark(
                    what=f"{profile}, seed {one['seed']}, memory {memory}: hard three", value=got, low=least[place]
                )
    gap = lied["validating, lying"].mean - lied["trusting, lying"].mean
    yield Mark(what="lying analyst: validating above trusting", value=gap, low=0.15)
    gap = measured["oracle"]["six"].mean - measured["random"]["six"].mean
    yield Mark(what="six: oracle above random", value=gap, low=0.60)


def printed(episodes: int) -> tuple[str, dict[str, object], bool]:
    """Measure everything; give the tables as Markdown, the numbers as JSON, and whether every mark is reached."""
    table, measured, lied = routes(SPLITS["test"][:5]), players(episodes), lying(episodes)
    changes, constant = before_after(), constant_with_net(20)
    lines = [*_routes(table, "compat"), "", *_routes(table, "ours"), "", *_players(measured), "", *_lying(lied), ""]
    lines += [*_changes(changes, constant), "", *_trained(), ""]
    found = list(marks(measured, lied))
    lines += ["| mark | asked | measured | reached |", "|---" * 4 + "|"]
    lines += [f"| {m.what} | ≥ {m.low:g} | {m.value:.3f} | {'yes' if m.reached else '**no**'} |" for m in found]
    body: dict[str, object] = {
        "routes": table,
        "players": {name: {column: vars_of(one) for column, one in row.items()} for name, row in measured.items()},
        "lying": {name: vars_of(one) for name, one in lied.items()},
        "before_after": changes,
        "net_on": constant,
    }
    return "\n".join(lines) + "\n", body, all(mark.reached for mark in found)


def vars_of(one: Mean) -> dict[str, float]:
    """Give a mean as JSON."""
    return {"mean": round(one.mean, 4), "half": round(one.half, 4)}


def _routes(table: Mapping[str, Mapping[str, list[float]]], rules: str) -> list[str]:
    tasks, tail = (SIX, "-compat") if rules == "compat" else (PLAIN, "")
    lines = [f"| route, {rules}, memory off / on | {' | '.join(tasks)} |", "|---" * (len(tasks) + 1) + "|"]
    for route in ROUTES:
        cells = (f"{_span(table[f'{t}{tail}'][route])} / {_span(table[f'{t}{tail}-rag'][route])}" for t in tasks)
        lines.append(f"| {route} | {' | '.join(cells)} |")
    return lines


def _span(values: Sequence[float]) -> str:
    return f"{values[0]:.4f}" if len(values) == 1 else f"{values[0]:.4f} to {values[-1]:.4f}"


def _players(measured: Mapping[str, Mapping[str, Mean]]) -> list[str]:
    columns = list(next(iter(measured.values())))
    lines = [f"| policy | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    return lines + [f"| `{name}` | {' | '.join(map(str, row.values()))} |" for name, row in measured.items()]


def _lying(lied: Mapping[str, Mean]) -> list[str]:
    lines = ["| audit, memory at hand | the analyst lies | the analyst is honest |", "|---|---|---|"]
    names = dict.fromkeys(name.partition(",")[0] for name in lied)
    return lines + [f"| `{name}` | {lied[f'{name}, lying']} | {lied[f'{name}, honest']} |" for name in names]


def _changes(changes: Mapping[str, Mapping[str, float]], constant: Mapping[str, Sequence[float]]) -> list[str]:
    lines = [f"| compat, sampled | {' | '.join(SIX)} | mean |", "|---" * (len(SIX) + 2) + "|"]
    for when, row in changes.items():
        lines.append(f"| {when} | {' | '.join(f'{row[task]:.4f}' for task in SIX)} | {fmean(row.values()):.4f} |")
    for memory, mode in (("off", "-compat"), ("on", "-compat-rag")):
        cells = [_span(constant[f"{task}{mode}"]) for task in SIX]
        lines.append(f"| random, net on, memory {memory} | {' | '.join(cells)} | |")
    return lines


def _trained() -> list[str]:
    trained = json.loads((PLACE / "data" / FIGURES).read_text(encoding="utf-8"))
    lines = ["| profile, training seed | hard three, memory off / on | all its tasks, off / on | greedy route |"]
    lines.append("|---" * 4 + "|")
    for profile, kept in trained.items():
        for one in kept:
            hard = " / ".join(f"{fmean(one[memory][task] for task in HARD):.4f}" for memory in ("off", "on"))
            every = " / ".join(f"{fmean(one[memory].values()):.4f}" for memory in ("off", "on"))
            lines.append(f"| {profile}, {one['seed']} | {hard} | {every} | {', '.join(one['route'])} |")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; with --write also renew the datasheet. Exits with 1 where a mark is missed."""
    parser = argparse.ArgumentParser(prog="python -m brief_routing_env.measure", description=__doc__)
    parser.add_argument("--episodes", type=int, default=EPISODES)
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args(arguments)
    told, body, reached = printed(chosen.episodes)
    sys.stdout.write(told)
    if chosen.write:
        sheet = PLACE / "README.md"
        before, _, rest = sheet.read_text(encoding="utf-8").partition(BEGIN)
        _, _, after = rest.partition(CLOSE)
        sheet.write_text(f"{before}{BEGIN}\n{told}{CLOSE}{after}", encoding="utf-8")
        (PLACE / "data" / "measured.json").write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    if not reached:
        sys.exit(1)


if __name__ == "__main__":
    main()
