"""Run scenarios over seeds on every core, and put what was found into one document that depends on nothing else."""

import hashlib
import multiprocessing
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass

from kedge_bandit.entrypoints.scenarios.changing import CHANGING
from kedge_bandit.entrypoints.scenarios.hostile import HOSTILE
from kedge_bandit.entrypoints.scenarios.marks import Figures, Row, Scenario, digits
from kedge_bandit.entrypoints.scenarios.peers import installed
from kedge_bandit.entrypoints.scenarios.play import play
from kedge_bandit.entrypoints.scenarios.scarce import SCARCE

SCENARIOS = {scenario.name: scenario for scenario in (*CHANGING, *SCARCE, *HOSTILE)}
"""All nine by name, in the order in which they are played."""


@dataclass(frozen=True, slots=True)
class Peer:
    """What another system came to on the same streams, on average over the seeds."""

    name: str
    regret: float
    late_share: float


@dataclass(frozen=True, slots=True)
class Found:
    """What a scenario came to.

    Attributes:
        streams: SHA-256 over the streams of all seeds, in hex.
    """

    scenario: str
    about: str
    streams: str
    rows: tuple[Row, ...]
    peers: tuple[Peer, ...]

    @property
    def passes(self) -> bool:
        """Whether every mark is kept."""
        return all(row.passes is not False for row in self.rows)


def run(
    names: Sequence[str], seeds: Sequence[int], *, with_peers: bool, done: Callable[[str], None] = lambda _name: None
) -> list[Found]:
    """Play scenarios.

    Args:
        done: told the name of each one that has been played.
    """
    fresh = multiprocessing.get_context("spawn")  # the caller may have threads, which a forked child would lack
    with ProcessPoolExecutor(os.cpu_count(), fresh) as pool:
        begun = [_begin(pool, SCENARIOS[name], seeds, with_peers=with_peers) for name in names]
        found = []
        for tasks in begun:
            found.append(tasks.gather())
            done(tasks.scenario.name)
    return found


def document(found: Iterable[Found], seeds: Sequence[int]) -> dict[str, object]:
    """Give everything as one document; the same seeds give the same bytes, on whatever day."""
    played = list(found)
    return {
        "seeds": list(seeds),
        "passed": all(each.passes for each in played),
        "scenarios": [asdict(each) for each in played],
    }


@dataclass(frozen=True, slots=True)
class _Tasks:
    scenario: Scenario
    streams: "list[Future[str]]"
    figures: "list[Future[Figures]]"
    peers: "dict[str, list[Future[tuple[float, float]]]]"

    def gather(self) -> Found:
        found = [task.result() for task in self.figures]
        digests = "".join(task.result() for task in self.streams)
        return Found(
            self.scenario.name,
            self.scenario.about,
            hashlib.sha256(digests.encode()).hexdigest(),
            tuple(mark.judge(found) for mark in self.scenario.marks),
            tuple(_mean(name, [task.result() for task in tasks]) for name, tasks in self.peers.items()),
        )


def _begin(pool: ProcessPoolExecutor, scenario: Scenario, seeds: Sequence[int], *, with_peers: bool) -> _Tasks:
    others = installed() if with_peers and scenario.peers else {}
    return _Tasks(
        scenario,
        [pool.submit(_digest, scenario.name, seed) for seed in seeds],
        [pool.submit(_measure, scenario.name, seed) for seed in seeds],
        {peer: [pool.submit(_play_peer, scenario.name, peer, seed) for seed in seeds] for peer in others},
    )


def _digest(name: str, seed: int) -> str:
    return SCENARIOS[name].world(seed).digest


def _measure(name: str, seed: int) -> Figures:
    return SCENARIOS[name].measure(seed)


def _play_peer(name: str, peer: str, seed: int) -> tuple[float, float]:
    played = play(SCENARIOS[name].world(seed), installed()[peer](seed))
    return played.regret, played.late_share


def _mean(name: str, found: Sequence[tuple[float, float]]) -> Peer:
    regret, share = (sum(part) / len(found) for part in zip(*found, strict=True))
    return Peer(name, digits(regret), digits(share))
