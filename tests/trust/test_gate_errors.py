"""The verdict errs as often as it says: at the margin, on the first query, and over fifty candidates of one version."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pytest
from numpy.typing import NDArray

from kedge_bandit.domain.gate import Verdict
from kedge_bandit.domain.peek import MARGIN, alpha_of
from kedge_bandit.domain.verdict import Pair, Query, Scored, conclude
from tests.trust.size import of
from tests.trust.written import write_json

CASES = 300
FULL = 4000
RUNS = of(400, FULL)
CANDIDATES = 50
VERSIONS = of(40, FULL)
DISCORDANCE = (0.10, 0.15, 0.25)
BASE_RATE = 0.7
GOOD, BAD = Scored(score=1.0), Scored(score=0.0)
HARD = [Pair(candidate=GOOD, incumbent=GOOD, adversarial=True)] * 100
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def asked(query: int, alpha: float) -> Query:
    return Query(query=query, alpha=alpha, holdout_version="v", answerer_kind="SIMULATED", gate_time=NOW)


@dataclass(frozen=True)
class World:
    """Cases of one version that the incumbent has answered; candidates lose the margin, with a given discordance."""

    incumbent: NDArray[np.bool_]
    discordance: float
    random: np.random.Generator

    def candidate(self) -> list[Pair]:
        """Draw a candidate that is worse than the incumbent by exactly the margin."""
        loses = (self.discordance + MARGIN) / 2 / BASE_RATE
        wins = (self.discordance - MARGIN) / 2 / (1 - BASE_RATE)
        flips = self.random.random(len(self.incumbent)) < np.where(self.incumbent, loses, wins)
        return [
            Pair(candidate=GOOD if was ^ flip else BAD, incumbent=GOOD if was else BAD)
            for was, flip in zip(self.incumbent, flips, strict=True)
        ]


def worlds(discordance: float, count: int, seed: int) -> Iterator[World]:
    random = np.random.default_rng(seed)
    for _ in range(count):
        yield World(random.random(CASES) < BASE_RATE, discordance, random)


@pytest.fixture(scope="module")
def seen() -> Iterator[dict[str, float]]:
    """Collect the shares that passed; printed and written at the end."""
    shares: dict[str, float] = {}
    yield shares
    for name, share in shares.items():
        print(f"{name:<44} {share:.4f}")
    write_json("gate_errors", {"cases": CASES, "runs": RUNS, "versions": VERSIONS, "passed": shares})


def share_passed(discordance: float, query: Query, seed: int) -> float:
    passed = [
        conclude([*world.candidate(), *HARD], query).verdict is Verdict.PASS
        for world in worlds(discordance, RUNS, seed)
    ]
    return float(np.mean(passed))


def slack(share: float, runs: int) -> float:
    """Give three standard errors over so many runs; none at full size, where the bars are met as they stand."""
    return 0.0 if runs >= FULL else 3.0 * math.sqrt(share * (1 - share) / runs)


@pytest.mark.parametrize("discordance", DISCORDANCE)
def test_a_candidate_at_the_margin_passes_as_often_as_alpha_says(discordance: float, seen: dict[str, float]) -> None:
    share = share_passed(discordance, asked(1, 0.05), seed=round(discordance * 100))
    seen[f"alpha .05, discordance {discordance}"] = share
    assert 0.03 - slack(0.05, RUNS) <= share <= 0.07 + slack(0.05, RUNS)


@pytest.mark.parametrize("discordance", DISCORDANCE)
def test_the_first_query_of_a_version_spends_its_part(discordance: float, seen: dict[str, float]) -> None:
    share = share_passed(discordance, asked(1, alpha_of(1)), seed=1000 + round(discordance * 100))
    seen[f"query 1, discordance {discordance}"] = share
    assert 0.025 - slack(0.03, RUNS) <= share <= 0.045 + slack(0.03, RUNS)


def test_of_fifty_candidates_at_the_margin_hardly_one_gets_through(seen: dict[str, float]) -> None:
    queries = [asked(number, alpha_of(number)) for number in range(1, CANDIDATES + 1)]
    through = [
        any(conclude([*world.candidate(), *HARD], query).verdict is Verdict.PASS for query in queries)
        for world in worlds(0.15, VERSIONS, seed=50)
    ]
    share = float(np.mean(through))
    seen["any of fifty candidates, discordance 0.15"] = share
    assert share <= 0.07 + slack(0.05, VERSIONS)
